"""Drawing with a guide: log q and log a of every token, from the same logits."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from quasir.errors import InputError
from quasir.guides.machine import Ints, Machine, Rows
from quasir.text.decoding import fallen_on
from quasir.text.weighing import apply_weights, dense, log_weighed, rescued

__all__ = ["GuidedChooser"]

GUIDED, FREE, LEFT = 0, 1, 2
"""A row follows the guide; the guide allows nothing more, and the row goes on as the model does; a
row that the model draws has left the guide's language."""


class GuidedChooser:
    """Chooses tokens with probability a(v) g(s, v)/G, and in some draws with the model's own a(v).

    Parameters
    ----------
    machine : Machine
    from_base : tensor of bool (n,)
        The draws that the model makes by itself; log q of the guide is found for those too.
    below_one : bool
        Whether no weight is above 1. Then G <= 1, and rounding must not say otherwise.

    Attributes
    ----------
    log_a : tensor (n,)
        The model's own log-probability of every draw.
    """

    def __init__(self, machine: Machine, from_base: Tensor, below_one: bool) -> None:
        self.machine, self.from_base, self.below_one = machine, from_base, below_one
        self.log_a = torch.zeros(len(from_base), dtype=torch.float64, device=from_base.device)
        self.rows: Rows = machine.begin(0)
        self.status = torch.zeros(0, dtype=torch.int64, device=from_base.device)

    def first(self, logits: Tensor, uniform: Tensor, prompt: Tensor) -> tuple[Tensor, Tensor]:
        """Return the first token of every draw, and its log-probability by the guide."""
        pairs = [first_logs(self.machine, each) for each in logits]
        log_a, log_q = (torch.stack(each) for each in zip(*pairs, strict=True))
        by_guide = fallen_on(log_q.exp().cumsum(1), uniform, prompt)
        if self.from_base.any():
            by_guide = torch.where(
                self.from_base, fallen_on(log_a.exp().cumsum(1), uniform, prompt), by_guide
            )
        self.log_a += log_a[prompt, by_guide]
        return by_guide, log_q[prompt, by_guide]

    def begin(self, draw: Tensor, tokens: Tensor) -> None:
        """Begin new rows with these draws; their first tokens are given."""
        self.rows = self._begun(tokens)
        self.status = torch.full_like(draw, GUIDED)

    def _begun(self, tokens: Tensor) -> Rows:
        rows = self.machine.begin(len(tokens))
        rows.advance(_ints(tokens))
        return rows

    def choose(self, logits: Tensor, uniform: Tensor, draw: Tensor) -> tuple[Tensor, Tensor]:
        """Return the next token of every row, and its log-probability by the guide.

        The logits are overwritten.
        """
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
        for row in rescued(log_mass, weights):
            line = log_weighed(below, weights, row)
            log_mass[row] = line.logsumexp(0)
            if not self.from_base[draw[row]] and log_mass[row] > -torch.inf:
                cumulative[row] = (line - line.max()).exp().cumsum(0)
        stuck = (log_mass == -torch.inf) & (self.status == GUIDED)
        if stuck.any():
            self.status[stuck] = FREE
            rows = torch.nonzero(stuck & ~self.from_base[draw])[:, 0]
            cumulative[rows] = below[rows].exp().cumsum(dim=-1)
        total = cumulative[:, -1:]
        # u < 1, but u times the total may round up to it.
        mark = torch.minimum(uniform[:, None].to(total.dtype) * total, total * (1 - 1e-7))
        token = torch.searchsorted(cumulative, mark, right=True)
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
        self.rows.put(_ints(rows), self._begun(tokens))
        self.status[rows] = GUIDED

    def keep(self, into: Tensor, source: Tensor, left: int) -> None:
        """Copy rows `source` over rows `into`, and keep the first `left`."""
        self.rows.keep(_ints(into), _ints(source), left)
        self.status[into] = self.status[source]
        self.status = self.status[:left]


def first_logs(machine: Machine, logits: Tensor) -> tuple[Tensor, Tensor]:
    """Return log a and log q of the first token, in float64.

    Raises
    ------
    InputError
        If the guide and the model allow no first token in common.
    """
    log_a = logits.double().log_softmax(0)
    weights = machine.begin(1).weights()
    log_weighed = log_a + dense(weights, 0, len(log_a)).log().to(log_a.device)
    log_mass = log_weighed.logsumexp(0)
    if log_mass == -torch.inf:
        raise InputError(
            "the guide and the model allow no first token in common, so nothing can be drawn: "
            "top-k or top-p leaves no token that the guide allows, or the language is empty."
        )
    return log_a, log_weighed - log_mass


def _ints(tensor: Tensor) -> Ints:
    numbers: Ints = tensor.cpu().numpy()
    return numbers
