"""Texts of a fixed length with the gradient of log P by their tokens (appendix G.2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from quasir.core.arguments import check_count
from quasir.core.types import Array, Items
from quasir.errors import InputError, ScoreError
from quasir.text.causal import CausalLM
from quasir.text.language_model import BatchHalving
from quasir.text.texts import Texts, as_texts


class DifferentiableText(BatchHalving):
    """P(x) = a(x) b(x) on texts of n tokens, where log b has a gradient by the embeddings.

    Parameters
    ----------
    base : CausalLM
        a(x).
    log_factor : callable
        log b(x): maps the embeddings of a batch of texts, a tensor (texts, n, width), to a tensor
        (texts,) by differentiable operations.
    length : int
        n, at most the base's ``max_tokens``. Texts of another length have P(x) = 0, so p is
        conditional on this length.

    Notes
    -----
    With x_m a one-hot row and e_m = x_m E its embedding, log a(x) is the sum of
    <x_m, log a(. | e_1..e_{m-1})>. So the gradient by x_m has two parts. One comes from the
    prediction of x_m itself and is log a(. | e_<m). The other comes through e_m, which later
    predictions and log b depend on: it is E times the gradient by e_m. The paper sketches this
    construction for P; here it is the gradient of log P, with both parts. The end token is never
    proposed.

    Examples
    --------
    Texts whose mean embedding points in a given direction:

    >>> import quasir as qr
    >>> lm = qr.text.CausalLM("quasir/biographies", max_tokens=6, device="cpu")
    >>> def up(embeddings):
    ...     return embeddings.mean(dim=(1, 2))
    >>> target = qr.text.DifferentiableText(lm, up, length=6)
    >>> walk = qr.GibbsWithGradients(target, lm, site_first=True, chains=2)
    >>> len(walk.sample(4, seed=0))
    4
    """

    _rows = 64

    def __init__(self, base: CausalLM, log_factor: Callable[[Tensor], Tensor], length: int) -> None:
        check_count("length", length)
        if length > base.max_tokens or (base.end is None and length < base.max_tokens):
            texts = "no end token and" if base.end is None else "texts of at most"
            raise InputError(
                f"length is {length}, but the base has {texts} max_tokens = {base.max_tokens}."
            )
        if base.warp.truncates:
            raise InputError("top-k and top-p have no gradient: use a base without them.")
        self.base, self.log_factor, self.size = base, log_factor, length
        self._embedding = base.model.get_input_embeddings()
        self.categories = int(self._embedding.weight.shape[0])

    def encode(self, items: Items) -> list[tuple[int, ...]]:
        """Return items as rows of token ids."""
        return as_texts(items, self.base.tokenizer).tuples()

    def decode(self, states: NDArray[np.int64]) -> Texts:
        """Return rows of token ids as texts."""
        lengths = np.full(len(states), self.size)
        return Texts.from_rows(states.astype(np.int32), lengths, self.base.tokenizer)

    @torch.inference_mode()
    def log_score(self, items: Items) -> Array:
        """Return log P(x) of each text; -inf if its length is not n."""
        texts = as_texts(items, self.base.tokenizer)
        fitting = np.flatnonzero(texts.lengths == self.size)
        log_p = np.full(len(texts), -np.inf)
        if len(fitting):
            kept = texts.take(fitting)
            states = kept.ids.reshape(-1, self.size).astype(np.int64)
            ids = torch.from_numpy(states).to(self.base.device)
            log_b = self._in_batches(
                len(ids), lambda part: self._factor(self._embedding(ids[part])).double()
            )
            log_p[fitting] = self.base.log_prob(kept) + log_b
        return log_p

    def _factor(self, embeddings: Tensor) -> Tensor:
        log_b = self.log_factor(embeddings)
        if not isinstance(log_b, Tensor) or log_b.shape != embeddings.shape[:1]:
            raise ScoreError(
                f"log_factor returned {getattr(log_b, 'shape', type(log_b).__name__)} for "
                f"{len(embeddings)} texts: it must return a tensor with one number for each."
            )
        return log_b

    def grad(self, states: NDArray[np.int64]) -> Array:
        """Return the gradient of log P by the one-hot tokens: (texts, n, vocabulary)."""
        return self._grad(states, None)

    def grad_at(self, states: NDArray[np.int64], sites: NDArray[np.int64]) -> Array:
        """Return the gradient by one token of each text: (texts, vocabulary)."""
        return self._grad(states, torch.from_numpy(sites).to(self.base.device))

    def _grad(self, states: NDArray[np.int64], sites: Tensor | None) -> Array:
        every = torch.from_numpy(states).to(self.base.device)

        def gradient(part: slice) -> Tensor:
            predicted, by_embedding = self._both_parts(every[part])
            if sites is not None:
                at = torch.arange(len(predicted), device=self.base.device), sites[part]
                predicted, by_embedding = predicted[at], by_embedding[at]
            found = predicted + by_embedding @ self._embedding.weight.detach().T
            if self.base.end is not None:
                found[..., self.base.end] = -torch.inf
            doubled: Tensor = found.double()
            return doubled

        return self._in_batches(len(every), gradient)

    def _both_parts(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Return log a(. | e_<m) at each token m, and the gradient by the embeddings."""
        with torch.enable_grad():
            own = self._embedding(ids).detach().requires_grad_(True)
            prefix: Any = torch.tensor(self.base.prefix, device=ids.device)
            before = self._embedding(prefix).detach().expand(len(ids), -1, -1)
            logits = self.base.model(
                inputs_embeds=torch.cat([before, own], dim=1), use_cache=False
            ).logits[:, len(prefix) - 1 :]
            log_probs = self.base.warp(logits).log_softmax(dim=-1)
            log_a = log_probs[:, : self.size].gather(2, ids[..., None]).sum()
            if self.size < self.base.max_tokens:
                log_a = log_a + log_probs[:, self.size, self.base.end].sum()
            # Texts of a batch do not interact, so the gradient of the sum holds that of each text.
            (by_embedding,) = torch.autograd.grad(log_a + self._factor(own).sum(), own)
        return log_probs[:, : self.size].detach(), by_embedding

    def __repr__(self) -> str:
        return f"DifferentiableText({self.base!r}, length={self.size})"
