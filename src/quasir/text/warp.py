"""Temperature, top-k and top-p: from a network's logits to the distribution of a token."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from quasir.core.arguments import check_count, number
from quasir.errors import InputError

__all__ = ["Warp"]


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
