"""Drawing with many prompts at once: one batch holds rows with prompts of different lengths.

The prompts are those of one model with the same settings. Each draw has its own uniforms, so it is
the draw that its own model would make alone, up to floating-point ties.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from quasir.core.types import Array
from quasir.text.decoding import Chooser
from quasir.text.prompts import Prompts, decode
from quasir.text.texts import Texts

if TYPE_CHECKING:
    from quasir.text.causal import CausalLM

__all__ = ["decode_together", "same_family"]

PROMPT_TOKENS = 1 << 14
"""Most tokens of prompts whose keys and values are kept at once."""


def same_family(models: Sequence[CausalLM]) -> bool:
    """Return whether models differ in nothing but the prompt."""
    first = models[0]
    return all(
        type(lm) is type(first)
        and lm.model is first.model
        and lm.warp == first.warp
        and lm.max_tokens == first.max_tokens
        for lm in models
    )


@torch.inference_mode()
def decode_together(
    models: Sequence[CausalLM],
    uniforms: Sequence[Array],
    chooser: Callable[[Tensor], Chooser | None] = lambda draws: None,
    done: Callable[[Tensor, Chooser | None], None] = lambda draws, chooser: None,
) -> list[tuple[Texts, Array]]:
    """Return the texts and log q of every model, for its rows of uniforms.

    Prompts of similar lengths are decoded together, so that short ones do not wait for long ones.

    Parameters
    ----------
    models : sequence of CausalLM
        That differ in nothing but the prompt.
    uniforms : sequence of arrays (n, max_tokens)
    chooser : callable, optional
        Makes the chooser of some draws, given by their numbers among all.
    done : callable, optional
        Called with draws and their chooser when they are decoded.
    """
    lm = models[0]
    sizes = [len(each) for each in uniforms]
    owner = np.repeat(np.arange(len(models)), sizes)
    every = np.concatenate(list(uniforms))
    tokens = np.zeros((len(every), lm.max_tokens), dtype=np.int32)
    lengths, log_q = np.zeros(len(every), dtype=np.int64), np.zeros(len(every))
    for group in _groups([len(each.prefix) for each in models]):
        prompts = Prompts.of(lm, [models[i].prefix for i in group])
        place = np.full(len(models), -1)
        place[group] = np.arange(len(group))
        draws = np.flatnonzero(place[owner] >= 0)
        if not len(draws):
            continue
        # Draws of one length lie together, so that rows that begin late are no longer.
        draws = draws[np.argsort(place[owner[draws]], kind="stable")]
        numbers = torch.from_numpy(draws).to(lm.device)
        prompt = torch.from_numpy(place[owner[draws]]).to(lm.device)

        def decoded(
            rows: int,
            draws: np.ndarray[tuple[int], np.dtype[np.int64]] = draws,
            numbers: Tensor = numbers,
            prompt: Tensor = prompt,
            prompts: Prompts = prompts,
        ) -> tuple[Tensor, Tensor, Tensor, Chooser | None]:
            own = chooser(numbers)
            return *decode(lm, prompts, every[draws], rows, own, prompt), own

        ids, size, log_each, own = lm._with_less_memory(decoded)
        done(numbers, own)
        tokens[draws] = ids.cpu().numpy()
        lengths[draws], log_q[draws] = size.cpu().numpy(), log_each.cpu().numpy()
    ends = np.cumsum([0, *sizes])
    return [
        (Texts.from_rows(tokens[a:b], lengths[a:b], lm.tokenizer), log_q[a:b])
        for a, b in pairwise(ends)
    ]


def _groups(lengths: Sequence[int]) -> list[list[int]]:
    """Return the prompts in groups, by length, each of a bounded number of tokens."""
    groups: list[list[int]] = []
    for i in sorted(range(len(lengths)), key=lambda i: lengths[i]):
        # All prompts of a group are padded to its longest, which is the last one.
        if not groups or (len(groups[-1]) + 1) * lengths[i] > PROMPT_TOKENS:
            groups.append([])
        groups[-1].append(i)
    return groups
