"""Drawing texts token by token, with the log-probability of each token.

Each token has one uniform, given before decoding starts, and is found by inverting the cumulative
probabilities. So a draw depends neither on the batch size nor on the order of computation.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from quasir.core.arguments import check_count, number
from quasir.errors import InputError


@dataclass(frozen=True)
class Warp:
    """Temperature, then top-k, then top-p, each with renormalisation, as in transformers.

    Tokens are removed by value: a token as probable as the last one kept is kept too, so that
    drawing and scoring agree on ties.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None

    def __post_init__(self) -> None:
        if not 0 < number("temperature", self.temperature) < float("inf"):
            raise InputError(f"temperature is {self.temperature!r}, but must be above 0.")
        if self.top_k is not None:
            check_count("top_k", self.top_k)
        if self.top_p is not None and not 0 < number("top_p", self.top_p) <= 1:
            raise InputError(f"top_p is {self.top_p!r}, but must be above 0 and at most 1.")

    @property
    def truncates(self) -> bool:
        """Whether some tokens get probability 0, so that some texts cannot be drawn."""
        return self.top_k is not None or (self.top_p is not None and self.top_p < 1)

    def __call__(self, logits: Tensor) -> Tensor:
        """Return float32 logits of the warped distribution; -inf for removed tokens."""
        logits = logits.float()
        if self.temperature != 1.0:
            logits = logits / self.temperature
        if self.top_k is not None and self.top_k < logits.shape[-1]:
            least = logits.topk(self.top_k, dim=-1).values[..., -1:]
            logits = logits.masked_fill(logits < least, -torch.inf)
        if self.top_p is not None and self.top_p < 1:
            falling = logits.sort(dim=-1, descending=True).values
            before = falling.softmax(dim=-1).cumsum(dim=-1).roll(1, dims=-1)
            before[..., 0] = 0.0
            kept = falling.masked_fill(before >= self.top_p, torch.inf)
            logits = logits.masked_fill(logits < kept.amin(dim=-1, keepdim=True), -torch.inf)
        return logits


class Stepper:
    """The network of a batch: it has read a prompt in each row, and reads a token at a time."""

    first: Tensor  # (prompts, vocabulary): the logits after each prompt
    states: Tensor  # (rows or prompts, d): the last hidden states behind the logits last given
    lengths: Tensor  # (prompts,): its tokens
    refill = True  # whether a waiting draw can take the row of an ended one

    def begin(self, prompt: Tensor) -> None:
        """Begin rows with these prompts."""
        raise NotImplementedError

    def step(self, tokens: Tensor, positions: Tensor, mask: Tensor, column: int) -> Tensor:
        """Read a token in each row, and return the logits of the next ones."""
        raise NotImplementedError

    def renew(self, rows: Tensor, prompt: Tensor) -> None:
        """Give rows other prompts."""

    def keep(self, into: Tensor, source: Tensor, left: int) -> None:
        """Copy rows `source` over rows `into`, and keep the first `left`."""
        raise NotImplementedError


class Chooser:
    """Chooses the tokens of all rows, from their logits and uniforms: as the model itself does."""

    stepper: Stepper  # the decoder's
    log_each = torch.zeros((0, 1))  # of every draw under each part of a mixture

    def first(self, logits: Tensor, uniform: Tensor, prompt: Tensor) -> tuple[Tensor, Tensor]:
        """Return the first token of every draw, and its log-probability, in float64."""
        logits = logits.double()
        weights = (logits - logits.amax(dim=1, keepdim=True)).exp()
        token = invert_by_prompt(weights.cumsum(dim=1), uniform, prompt)
        return token, logits[prompt, token] - logits.logsumexp(1)[prompt]

    def begin(self, draw: Tensor, tokens: Tensor) -> None:
        """Begin new rows with these draws; their first tokens are given."""

    def choose(self, logits: Tensor, uniform: Tensor, draw: Tensor) -> tuple[Tensor, Tensor]:
        """Return the next token of every row, and its log-probability; overwrite the logits."""
        below = logits.sub_(logits.amax(dim=-1, keepdim=True))
        weights = below.exp()
        cumulative = torch.cumsum(weights, dim=-1, out=weights)
        token = invert(cumulative, uniform)
        log_prob = below.gather(1, token) - cumulative[:, -1:].log()
        return token[:, 0], log_prob[:, 0].double()

    def renew(self, rows: Tensor, draw: Tensor, tokens: Tensor) -> None:
        """Let new draws take the rows of ended ones."""

    def keep(self, into: Tensor, source: Tensor, left: int) -> None:
        """Copy rows `source` over rows `into`, and keep the first `left`."""


def invert(cumulative: Tensor, uniform: Tensor) -> Tensor:
    """Return the place that each row's uniform falls on, by the row's cumulative weights."""
    total = cumulative[:, -1:]
    # u < 1, but u times the total may round up to it.
    mark = torch.minimum(uniform[:, None].to(total.dtype) * total, total * (1 - 1e-7))
    return torch.searchsorted(cumulative, mark, right=True)


def invert_by_prompt(cumulative: Tensor, uniform: Tensor, prompt: Tensor) -> Tensor:
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
    """Decodes many draws in one batch: when a draw ends, a waiting one takes its row."""

    def __init__(
        self, stepper: Stepper, end: int | None, limit: int, chooser: Chooser | None = None
    ) -> None:
        self.stepper, self.end, self.limit = stepper, -1 if end is None else end, limit
        self.chooser = chooser or Chooser()
        self.chooser.stepper = stepper
        self.before, self.longest = stepper.lengths, int(stepper.lengths.max())
        # What a row may attend to of its prompt's columns.
        self.within = torch.arange(self.longest, device=self.before.device) < self.before[:, None]

    def run(
        self, uniforms: Tensor, rows: int, prompt: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return token ids (n, limit), the lengths without the end token, and log q."""
        n, device = len(uniforms), uniforms.device
        self.uniforms = uniforms
        self.prompt = torch.zeros(n, dtype=torch.int64, device=device) if prompt is None else prompt
        self.tokens = torch.zeros((n, self.limit), dtype=torch.int64, device=device)
        self.tokens[:, 0], self.log_q = self.chooser.first(
            self.stepper.first, uniforms[:, 0], self.prompt
        )
        self.lengths = torch.where(self.tokens[:, 0] == self.end, 0, 1)
        # Draws that did not end with their first token wait for a row.
        waiting = torch.nonzero(self.tokens[:, 0] != self.end)[:, 0]
        size = max(1, len(waiting)) if self.stepper.refill else rows
        for start in range(0, len(waiting) if self.limit > 1 else 0, size):
            wave = waiting[start : start + size]
            self._fill(wave, min(rows, len(wave)))
        return self.tokens, self.lengths, self.log_q

    def _fill(self, waiting: Tensor, rows: int) -> None:
        columns, device = self.limit - 1, waiting.device
        draw, waiting = waiting[:rows].clone(), waiting[rows:]
        self.stepper.begin(self.prompt[draw])
        self.chooser.begin(draw, self.tokens[draw, 0])
        place = torch.ones(rows, dtype=torch.int64, device=device)  # tokens drawn so far
        mask = torch.zeros((rows, self.longest + columns), dtype=torch.bool, device=device)
        mask[:, : self.longest] = self.within[self.prompt[draw]]
        column = 0
        while len(draw):
            mask[:, self.longest + column] = True
            logits = self.stepper.step(
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
            done = torch.nonzero(ended | (place == self.limit))[:, 0]
            if not len(done):
                continue
            fresh, waiting = waiting[: len(done)], waiting[len(done) :]
            taken, idle = done[: len(fresh)], done[len(fresh) :]
            draw[taken], place[taken] = fresh, 1
            if len(taken):
                mask[taken, : self.longest] = self.within[self.prompt[fresh]]
                mask[taken, self.longest :] = False
                self.stepper.renew(taken, self.prompt[fresh])
                self.chooser.renew(taken, fresh, self.tokens[fresh, 0])
            if len(idle):
                going = torch.ones(len(draw), dtype=torch.bool, device=device)
                going[idle] = False
                left = len(draw) - len(idle)
                into, source = idle[idle < left], left + torch.nonzero(going[left:])[:, 0]
                self.stepper.keep(into, source, left)
                self.chooser.keep(into, source, left)
                draw, place, mask = (
                    move_rows(each, into, source, left) for each in (draw, place, mask)
                )


def move_rows(rows: Tensor, into: Tensor, source: Tensor, left: int) -> Tensor:
    """Copy rows `source` over rows `into`, and return the first `left` rows."""
    rows[into] = rows[source]
    return rows[:left]
