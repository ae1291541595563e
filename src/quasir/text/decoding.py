"""Drawing texts token by token, with the log-probability of each token.

Each token has one uniform, given before decoding starts, and is found by inverting the cumulative
probabilities. So a draw depends neither on the batch size nor on the order of computation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

__all__ = ["Chooser", "Decoder", "ModelsOwn", "invert", "moved"]


def invert(logits: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
    """Return the token that each row's uniform falls on, and its log-probability.

    A token of probability 0 adds nothing to the cumulative sum, so it is never drawn. The logits
    are overwritten.
    """
    below = logits.sub_(logits.amax(dim=-1, keepdim=True))
    weights = below.exp()
    cumulative = torch.cumsum(weights, dim=-1, out=weights)
    total = cumulative[:, -1:]
    # u < 1, but u times the total may round up to it.
    mark = torch.minimum(uniform[:, None].to(total.dtype) * total, total * (1 - 1e-7))
    token = torch.searchsorted(cumulative, mark, right=True)
    log_prob = below.gather(1, token) - total.log()
    return token[:, 0], log_prob[:, 0].double()


class Chooser(Protocol):
    """Chooses the tokens of all rows, from their logits and uniforms.

    A row holds one draw; `draw` gives their numbers, in the order of the rows.
    """

    def first(self, logits: Tensor, uniform: Tensor, prompt: Tensor) -> tuple[Tensor, Tensor]:
        """Return the first token of every draw, and its log-probability.

        The logits have a row for each prompt, and `prompt` says which one a draw has.
        """
        ...

    def begin(self, draw: Tensor, tokens: Tensor) -> None:
        """Begin new rows with these draws; their first tokens are given."""
        ...

    def choose(self, logits: Tensor, uniform: Tensor, draw: Tensor) -> tuple[Tensor, Tensor]:
        """Return the next token of every row, and its log-probability."""
        ...

    def renew(self, rows: Tensor, draw: Tensor, tokens: Tensor) -> None:
        """Let new draws take the rows of ended ones."""
        ...

    def keep(self, into: Tensor, source: Tensor, left: int) -> None:
        """Copy rows `source` over rows `into`, and keep the first `left`."""
        ...


class ModelsOwn:
    """Chooses each token with the model's own probability."""

    def first(self, logits: Tensor, uniform: Tensor, prompt: Tensor) -> tuple[Tensor, Tensor]:
        """Return the token that each uniform falls on, in float64."""
        logits = logits.double()
        weights = (logits - logits.amax(dim=1, keepdim=True)).exp()
        token = fallen_on(weights.cumsum(dim=1), uniform, prompt)
        return token, logits[prompt, token] - logits.logsumexp(1)[prompt]

    def begin(self, draw: Tensor, tokens: Tensor) -> None:
        """Do nothing: the model needs no state beyond its own."""

    def choose(self, logits: Tensor, uniform: Tensor, draw: Tensor) -> tuple[Tensor, Tensor]:
        """Return the token that each row's uniform falls on."""
        return invert(logits, uniform)

    def renew(self, rows: Tensor, draw: Tensor, tokens: Tensor) -> None:
        """Do nothing."""

    def keep(self, into: Tensor, source: Tensor, left: int) -> None:
        """Do nothing."""


def fallen_on(cumulative: Tensor, uniform: Tensor, prompt: Tensor) -> Tensor:
    """Return the place that each uniform falls on, by its prompt's cumulative weights."""
    total = cumulative[:, -1][prompt]
    mark = torch.minimum(uniform * total, total * (1 - 1e-15))
    token = torch.empty(len(uniform), dtype=torch.int64, device=uniform.device)
    order = torch.argsort(prompt, stable=True)
    sizes = torch.bincount(prompt, minlength=len(cumulative)).tolist()
    for own, draws in zip(cumulative, torch.split(order, sizes), strict=True):
        token[draws] = torch.searchsorted(own, mark[draws], right=True)
    return token


class Decoder:
    """Decode many draws in one batch: when a draw ends, a waiting one takes its row.

    Parameters
    ----------
    begin : callable
        Called with the prompts of the rows before the first step.
    step : callable
        Maps (tokens (B, 1), positions (B, 1), mask (B, 1, 1, columns), column) to the logits
        (B, vocabulary) of the next tokens, and writes keys and values at that column of the ring.
    keep : callable
        Called when the batch shrinks, with the ended rows `into`, the rows `source` to copy over
        them, and the number of rows that remain.
    first : tensor (prompts, vocabulary)
        Logits of the first token after each prompt.
    lengths : tensor (prompts,)
        Number of tokens of each prompt; the ring begins after the longest.
    end : int or None
        The token that ends a text.
    limit : int
        Maximum number of tokens of a draw, with the end token.
    refill : bool
        Whether a new draw may take the row of an ended one. If False, draws are decoded in waves,
        and the batch shrinks as rows end.
    chooser : Chooser, optional
        By default each token has the model's own probability.
    renew : callable, optional
        Called with rows and their new prompts when draws of other prompts take them.
    """

    def __init__(
        self,
        begin: Callable[[Tensor], None],
        step: Callable[[Tensor, Tensor, Tensor, int], Tensor],
        keep: Callable[[Tensor, Tensor, int], None],
        first: Tensor,
        lengths: Tensor,
        end: int | None,
        limit: int,
        refill: bool = True,
        chooser: Chooser | None = None,
        renew: Callable[[Tensor, Tensor], None] = lambda rows, prompt: None,
    ) -> None:
        self.begin, self.step, self.keep, self.first = begin, step, keep, first
        self.renew, self.before, self.longest = renew, lengths, int(lengths.max())
        self.end, self.limit, self.refill = -1 if end is None else end, limit, refill
        # What a row may attend to of its prompt's columns.
        self.within = torch.arange(self.longest, device=lengths.device) < lengths[:, None]
        self.chooser: Chooser = ModelsOwn() if chooser is None else chooser

    def run(
        self, uniforms: Tensor, rows: int, prompt: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return token ids (n, limit), the lengths without the end token, and log q.

        Parameters
        ----------
        uniforms : tensor (n, limit)
        rows : int
            Draws decoded at once.
        prompt : tensor (n,), optional
            The prompt of each draw; by default the first.
        """
        n, device = len(uniforms), uniforms.device
        self.uniforms = uniforms
        self.prompt = torch.zeros(n, dtype=torch.int64, device=device) if prompt is None else prompt
        self.tokens = torch.zeros((n, self.limit), dtype=torch.int64, device=device)
        self.tokens[:, 0], self.log_q = self.chooser.first(self.first, uniforms[:, 0], self.prompt)
        self.lengths = torch.where(self.tokens[:, 0] == self.end, 0, 1)
        # Draws that did not end with their first token wait for a row.
        waiting = torch.nonzero(self.tokens[:, 0] != self.end)[:, 0]
        size = max(1, len(waiting)) if self.refill else rows
        for start in range(0, len(waiting) if self.limit > 1 else 0, size):
            wave = waiting[start : start + size]
            self._fill(wave, min(rows, len(wave)))
        return self.tokens, self.lengths, self.log_q

    def _fill(self, waiting: Tensor, rows: int) -> None:
        columns, device = self.limit - 1, waiting.device
        draw, waiting = waiting[:rows].clone(), waiting[rows:]
        self.begin(self.prompt[draw])
        self.chooser.begin(draw, self.tokens[draw, 0])
        place = torch.ones(rows, dtype=torch.int64, device=device)  # tokens drawn so far
        mask = torch.zeros((rows, self.longest + columns), dtype=torch.bool, device=device)
        mask[:, : self.longest] = self.within[self.prompt[draw]]
        column = 0
        while len(draw):
            mask[:, self.longest + column] = True
            logits = self.step(
                self.tokens[draw, place - 1][:, None],
                (self.before[self.prompt[draw]] + place - 1)[:, None],
                mask[:, None, None],
                column,
            )
            token, log_prob = self.chooser.choose(logits, self.uniforms[draw, place], draw)
            self.tokens[draw, place] = token
            self.log_q[draw] += log_prob
            place += 1
            ended = token == self.end
            self.lengths[draw] = place - ended.to(place.dtype)
            column = (column + 1) % columns
            over = ended | (place == self.limit)
            done = torch.nonzero(over)[:, 0]
            if len(done):
                fresh = waiting[: len(done)]
                waiting = waiting[len(done) :]
                taken, idle = done[: len(fresh)], done[len(fresh) :]
                draw[taken], place[taken] = fresh, 1
                if len(taken):
                    mask[taken, : self.longest] = self.within[self.prompt[fresh]]
                    mask[taken, self.longest :] = False
                    self.renew(taken, self.prompt[fresh])
                    self.chooser.renew(taken, fresh, self.tokens[fresh, 0])
                if len(idle):
                    going = torch.ones(len(draw), dtype=torch.bool, device=device)
                    going[idle] = False
                    left = len(draw) - len(idle)
                    into, source = idle[idle < left], left + torch.nonzero(going[left:])[:, 0]
                    self.keep(into, source, left)
                    self.chooser.keep(into, source, left)
                    draw, place, mask = (
                        moved(rows, into, source, left) for rows in (draw, place, mask)
                    )


def moved(rows: Tensor, into: Tensor, source: Tensor, left: int) -> Tensor:
    """Copy rows `source` over rows `into`, and return the first `left` rows."""
    rows[into] = rows[source]
    return rows[:left]
