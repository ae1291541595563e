"""Drawing with a guide: its weights times the model's probabilities; log q and log a at once."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from quasir.guides.guide import Ints, Machine, Rows, Weights
from quasir.text.decoding import Chooser, invert, invert_by_prompt, move_rows

LOG_TINY = -69.0
"""A sum whose log is below this may have lost terms to underflow, and is computed again."""

GUIDED, FREE, LEFT = 0, 1, 2
"""A row follows the guide; the guide allows nothing more, and the row goes on as the model does; a
row that the model draws has left the guide's language."""


class GuidedChooser(Chooser):
    """Chooses tokens with probability a(v) g(s, v)/G, and in some draws with the model's own a(v).

    `log_a` is the model's own log-probability of every draw.
    """

    def __init__(self, machine: Machine, from_base: Tensor, below_one: bool) -> None:
        self.machine, self.from_base, self.below_one = machine, from_base, below_one
        self.log_a = torch.zeros(len(from_base), dtype=torch.float64, device=from_base.device)
        self.rows: Rows = machine.begin(0)
        self.status = torch.zeros(0, dtype=torch.int64, device=from_base.device)
        self.begins = self.status  # of every draw

    def first(self, logits: Tensor, uniform: Tensor, prompt: Tensor) -> tuple[Tensor, Tensor]:
        """Return the first token of every draw, and its log-probability by the guide."""
        each = [first_logs(self.machine, line) for line in logits]
        log_a, log_q, log_mass = (torch.stack(logs) for logs in zip(*each, strict=True))
        self.begins = torch.where(log_mass == -torch.inf, FREE, GUIDED)[prompt]
        token = invert_by_prompt(log_q.exp().cumsum(1), uniform, prompt)
        if self.from_base.any():
            own = invert_by_prompt(log_a.exp().cumsum(1), uniform, prompt)
            token = torch.where(self.from_base, own, token)
        self.log_a += log_a[prompt, token]
        return token, log_q[prompt, token]

    def begin(self, draw: Tensor, tokens: Tensor) -> None:
        """Begin new rows with these draws; their first tokens are given."""
        self.rows = self._begin_rows(tokens)
        self.status = self.begins[draw]

    def _begin_rows(self, tokens: Tensor) -> Rows:
        rows = self.machine.begin(len(tokens))
        rows.advance(_ints(tokens))
        return rows

    def choose(self, logits: Tensor, uniform: Tensor, draw: Tensor) -> tuple[Tensor, Tensor]:
        """Return the next token of every row, and its log-probability by the guide."""
        weights = self.rows.weights()
        below = logits.sub_(logits.amax(dim=-1, keepdim=True))
        mass = below.exp()
        log_total = mass.sum(dim=-1).double().log()
        plain = torch.nonzero(self.from_base[draw] | (self.status == FREE))[:, 0]
        own = mass[plain]
        apply_weights(mass, weights)
        if len(plain):
            log_plain = mass[plain].sum(dim=-1).double().log()
            mass[plain] = own
        cumulative = torch.cumsum(mass, dim=-1, out=mass)
        log_mass = cumulative[:, -1].double().log()
        if len(plain):
            log_mass[plain] = log_plain
        for row in _underflowed(log_mass, weights):
            line = _log_weighted(below, weights, row)
            log_mass[row] = line.logsumexp(0)
            if not self.from_base[draw[row]] and log_mass[row] > -torch.inf:
                cumulative[row] = (line - line.max()).exp().cumsum(0)
        stuck = (log_mass == -torch.inf) & (self.status == GUIDED)
        if stuck.any():
            self.status[stuck] = FREE
            rows = torch.nonzero(stuck & ~self.from_base[draw])[:, 0]
            cumulative[rows] = below[rows].exp().cumsum(dim=-1)
        token = invert(cumulative, uniform)
        at = below.gather(1, token)[:, 0].double()
        token = token[:, 0]
        tokens = _ints(token)
        with np.errstate(divide="ignore"):
            log_g = torch.from_numpy(np.log(weights.of(tokens))).to(at.device)
        log_a = at - log_total
        self.log_a[draw] += log_a
        log_q = at + log_g - log_mass
        if self.below_one:
            log_q = torch.maximum(log_q, log_a + log_g)
        log_q = torch.where(self.status == FREE, log_a, log_q)
        log_q = torch.where((self.status == LEFT) | log_q.isnan(), -torch.inf, log_q)
        self.status[(log_q == -torch.inf) & (self.status == GUIDED)] = LEFT
        self.rows.advance(tokens)
        return token, log_q

    def renew(self, rows: Tensor, draw: Tensor, tokens: Tensor) -> None:
        """Let new draws take the rows of ended ones."""
        self.rows.put(_ints(rows), self._begin_rows(tokens))
        self.status[rows] = self.begins[draw]

    def keep(self, into: Tensor, source: Tensor, left: int) -> None:
        """Copy rows `source` over rows `into`, and keep the first `left`."""
        self.rows.keep(_ints(into), _ints(source), left)
        self.status = move_rows(self.status, into, source, left)


def first_logs(machine: Machine, logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return log a and log q of the first token, and the log of the mass G_1, in float64.

    Where the guide allows no token that the model can give, G_1 is 0, and q is a.
    """
    log_a = logits.double().log_softmax(0)
    weights = machine.begin(1).weights()
    log_weighted = log_a + _row_weights(weights, 0, len(log_a)).log().to(log_a.device)
    log_mass = log_weighted.logsumexp(0)
    return log_a, log_a if log_mass == -torch.inf else log_weighted - log_mass, log_mass


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


def log_sums(below: Tensor, weights: Weights) -> tuple[Tensor, Tensor, Tensor]:
    """Return the weighted probabilities, and the logs of their sums before and after weighting."""
    weighted = below.exp()
    log_total = weighted.sum(dim=-1).double().log()
    apply_weights(weighted, weights)
    log_mass = weighted.sum(dim=-1).double().log()
    for row in _underflowed(log_mass, weights):
        log_mass[row] = _log_weighted(below, weights, row).logsumexp(0)
    return weighted, log_total, log_mass


def _underflowed(log_mass: Tensor, weights: Weights) -> list[int]:
    """Return the rows whose sum may have lost terms to underflow; not those that allow nothing."""
    tiny = (log_mass < LOG_TINY).cpu().numpy()
    if weights.mask is not None and tiny.any():
        tiny &= weights.mask.any(axis=1)
    rows: list[int] = np.flatnonzero(tiny).tolist()
    return rows


def _log_weighted(below: Tensor, weights: Weights, row: int) -> Tensor:
    """Return the logs of one row's weighted probabilities, in float64."""
    log_weights = _row_weights(weights, row, below.shape[1]).log()
    return below[row].double() + log_weights.to(below.device)


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
