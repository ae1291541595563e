"""Drawing from a mixture of the base and its guided parts: log a and log q of all, in one pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from quasir.guides.automaton import State
from quasir.guides.guide import Ints, Machine, Weights
from quasir.text.decoding import Chooser, invert, invert_by_prompt, move_rows
from quasir.text.head import Head

if TYPE_CHECKING:
    from quasir.text.causal import CausalLM

LOG_TINY = -69.0
"""A sum whose log is below this may have lost terms to underflow, and is computed again."""

GUIDED, FREE, LEFT = 0, 1, 2
"""A row follows the guide; the guide allows nothing more, and the row goes on as the model does; a
row of another part has left the guide's language."""


class Compiled(NamedTuple):
    """A part of a mixture for a model's tokens: its guide's machine, and its head."""

    machine: Machine
    below_one: bool  # no weight is above 1, and there is no head: q is at least a times the weight
    head: Head | None = None


class Weighed(NamedTuple):
    """The tokens of every row as a part weighs them."""

    source: Tensor  # logits of the base or of the head, at most 0
    weights: Weights
    weighted: Tensor  # exp(source) times the weights
    log_mass: Tensor  # the log of its sum


class GuidedChooser(Chooser):
    """Chooses each draw's tokens by the part that it comes from.

    `which` is the part of every draw, -1 for the base. `log_each` is the log-probability of every
    draw under every part; what `choose` returns is the base's own.
    """

    def __init__(self, lm: CausalLM, parts: list[Compiled], state: State, which: Tensor) -> None:
        self.lm, self.parts, self.state, self.which = lm, parts, state, which
        size, device = (len(parts), len(which)), which.device
        self.log_each = torch.zeros(size, dtype=torch.float64, device=device)
        self.begins = torch.zeros(size, dtype=torch.int64, device=device)  # status of every draw

    def first(self, logits: Tensor, uniform: Tensor, prompt: Tensor) -> tuple[Tensor, Tensor]:
        """Return the first token of every draw, and its log-probability by the base."""
        log_a = logits.double().log_softmax(1)
        token = invert_by_prompt(log_a.exp().cumsum(1), uniform, prompt)
        logs = []
        for j, part in enumerate(self.parts):
            each = [
                first_logs(self.lm, part, self.state, line, h)
                for line, h in zip(logits, self.stepper.states, strict=True)
            ]
            log_q, log_mass = (torch.stack(one) for one in zip(*each, strict=True))
            self.begins[j] = torch.where(log_mass == -torch.inf, FREE, GUIDED)[prompt]
            own = invert_by_prompt(log_q.exp().cumsum(1), uniform, prompt)
            token = torch.where(self.which == j, own, token)
            logs.append(log_q)
        for j, log_q in enumerate(logs):
            self.log_each[j] = log_q[prompt, token]
            self.begins[j, self.log_each[j] == -torch.inf] = LEFT
        return token, log_a[prompt, token]

    def begin(self, draw: Tensor, tokens: Tensor) -> None:
        """Begin new rows with these draws; their first tokens are given."""
        self.rows = self._begin_rows(tokens)
        self.status = self.begins[:, draw].T

    def _begin_rows(self, tokens: Tensor) -> list[Any]:
        """Return the rows of every part's machine, and those of the state."""
        machines = [*(part.machine for part in self.parts), self.state]
        rows = [machine.begin(len(tokens)) for machine in machines]
        for each in rows:
            each.advance(_ints(tokens))
        return rows

    def choose(self, logits: Tensor, uniform: Tensor, draw: Tensor) -> tuple[Tensor, Tensor]:
        """Return the next token of every row, and its log-probability by the base."""
        below = logits.sub_(logits.amax(dim=-1, keepdim=True))
        drawn = below.exp()
        log_total = drawn.sum(dim=-1).double().log()
        h, own, (*rows, state) = self.stepper.states, self.which[draw], self.rows
        steps = [
            weigh(self.lm, part, below, drawn, h, state.bits, each.weights())
            for part, each in zip(self.parts, rows, strict=True)
        ]
        for j, step in enumerate(steps):
            status = self.status[:, j]
            status[(step.log_mass == -torch.inf) & (status == GUIDED)] = FREE
            mine = torch.nonzero((own == j) & (status == GUIDED))[:, 0]
            drawn[mine] = step.weighted[mine]
        token = invert(torch.cumsum(drawn, dim=-1, out=drawn), uniform)
        log_a = below.gather(1, token)[:, 0].double() - log_total
        tokens = _ints(token[:, 0])
        for j, (part, step) in enumerate(zip(self.parts, steps, strict=True)):
            at = step.source.gather(1, token)[:, 0].double()
            with np.errstate(divide="ignore"):
                log_g = torch.from_numpy(np.log(step.weights.of(tokens))).to(at.device)
            log_q, status = at + log_g - step.log_mass, self.status[:, j]
            if part.below_one:
                log_q = torch.maximum(log_q, log_a + log_g)
            log_q = torch.where(status == FREE, log_a, log_q)
            log_q = torch.where((status == LEFT) | log_q.isnan(), -torch.inf, log_q)
            status[(log_q == -torch.inf) & (status == GUIDED)] = LEFT
            self.log_each[j, draw] += log_q
        for each in self.rows:
            each.advance(tokens)
        return token[:, 0], log_a

    def renew(self, rows: Tensor, draw: Tensor, tokens: Tensor) -> None:
        """Let new draws take the rows of ended ones."""
        for each, fresh in zip(self.rows, self._begin_rows(tokens), strict=True):
            each.put(_ints(rows), fresh)
        self.status[rows] = self.begins[:, draw].T

    def keep(self, into: Tensor, source: Tensor, left: int) -> None:
        """Copy rows `source` over rows `into`, and keep the first `left`."""
        for each in self.rows:
            each.keep(_ints(into), _ints(source), left)
        self.status = move_rows(self.status, into, source, left)


def weigh(
    lm: CausalLM,
    part: Compiled,
    below: Tensor,
    mass: Tensor,
    h: Tensor,
    bits: Any,
    weights: Weights,
) -> Weighed:
    """Return the next tokens of some rows as a part weighs them."""
    if part.head is None:
        source, weighted = below, mass.clone()
    else:
        source = part.head.logits(lm, h, torch.as_tensor(bits, device=below.device), below)
        source = source.sub_(source.amax(dim=-1, keepdim=True))
        weighted = source.exp()
    apply_weights(weighted, weights)
    log_mass = weighted.sum(dim=-1).double().log()
    # Some sums may have lost terms to underflow; not those of rows that allow nothing.
    tiny = (log_mass < LOG_TINY).cpu().numpy()
    if weights.mask is not None and tiny.any():
        tiny &= weights.mask.any(axis=1)
    for row in np.flatnonzero(tiny).tolist():
        log_weights = _row_weights(weights, row, source.shape[1]).log()
        line = source[row].double() + log_weights.to(source.device)
        log_mass[row] = line.logsumexp(0)
        if log_mass[row] > -torch.inf:
            weighted[row] = (line - line.max()).exp()
    return Weighed(source, weights, weighted, log_mass)


def first_logs(
    lm: CausalLM, part: Compiled, state: State, logits: Tensor, h: Tensor
) -> tuple[Tensor, Tensor]:
    """Return log q of the first token after one prompt, and the log of its mass, in float64."""
    log_a = logits.double().log_softmax(0)
    source = log_a
    if part.head is not None:
        bits = torch.zeros((1, state.bits), device=h.device)
        source = part.head.logits(lm, h[None], bits, logits[None])[0].double().log_softmax(0)
    weights = part.machine.begin(1).weights()
    log_weighted = source + _row_weights(weights, 0, len(source)).log().to(source.device)
    log_mass = log_weighted.logsumexp(0)
    return log_a if log_mass == -torch.inf else log_weighted - log_mass, log_mass


def apply_weights(probabilities: Tensor, weights: Weights) -> None:
    """Multiply the probabilities of each row's tokens by the guide's weights, in place."""
    vocabulary = probabilities.shape[1]
    if weights.mask is not None:
        bits = np.unpackbits(weights.mask.view(np.uint8), axis=1, bitorder="little")
        allowed = torch.from_numpy(bits[:, :vocabulary])
        probabilities.mul_(allowed.to(probabilities.device, non_blocking=True))
    flat = probabilities.view(-1)
    for row, token, value, _ in weights.entries:
        if len(row):
            at = torch.from_numpy(row * vocabulary + token).to(flat.device)
            times = torch.from_numpy(value).to(flat.device, flat.dtype)
            flat[at] = flat[at] * times


def _row_weights(weights: Weights, row: int, vocabulary: int) -> Tensor:
    """Return the weights of every token in one row, in float64."""
    line = torch.ones((1, vocabulary), dtype=torch.float64)
    own = [part.at(part.row == row) for part in weights.entries]
    own = [part._replace(row=np.zeros_like(part.row)) for part in own]
    mask = None if weights.mask is None else np.ascontiguousarray(weights.mask[row : row + 1])
    apply_weights(line, Weights(mask, tuple(own)))
    return line[0]


def _ints(tensor: Tensor) -> Ints:
    numbers: Ints = tensor.cpu().numpy()
    return numbers
