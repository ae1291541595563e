"""Calls of targets and proposals, with checks that their answers are possible."""

from __future__ import annotations

from typing import Any

import numpy as np

from quasir.core.items import as_items
from quasir.core.types import Array, Batch, Items, Proposal, Scorer, Target
from quasir.errors import InputError, ScoreError

__all__ = ["check_drawn", "check_log_scores", "name_of", "propose", "score", "show"]


def name_of(scorer: Any) -> str:
    """Return the name of a target or a proposal for error messages."""
    name = getattr(scorer, "__name__", None) or type(scorer).__name__
    return str(name)


def check_log_scores(scores: Any, items: Items, scorer: str, what: str = "log P") -> Array:
    """Return scores as a float64 array, one for each item; raise `ScoreError` if they are wrong."""
    try:
        array = np.asarray(scores, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ScoreError(
            f"{scorer} gave {what} that are not numbers ({error}). "
            "It must return one float for each item."
        ) from error
    if array.shape != (len(items),):
        raise ScoreError(
            f"{scorer} gave {what} of shape {array.shape} for {len(items)} items. "
            f"It must return one score for each item, shape ({len(items)},)."
        )
    wrong = np.isnan(array) | (array == np.inf)
    if wrong.any():
        i = int(np.argmax(wrong))
        raise ScoreError(
            f"{scorer} gave {what} = {array[i]} for {int(wrong.sum())} of {len(items)} items, "
            f"the first being {show(items[i])}. A log score is a finite number, "
            "or -inf for an impossible item; correct the scorer for this item."
        )
    return array


def score(target: Target, items: Items, batch_size: int | None = None) -> Array:
    """Return log P(x) of each item, checked, scored `batch_size` at a time."""
    ask = target.log_score if isinstance(target, Scorer) else target
    if not callable(ask):
        raise InputError(
            f"the target is a {type(target).__name__}, "
            "but must have a method log_score(items) or be a callable that does the same."
        )
    if batch_size is None or batch_size >= len(items):
        return check_log_scores(ask(items), items, name_of(target))
    parts = []
    for start in range(0, len(items), batch_size):
        part = items[start : start + batch_size]
        parts.append(check_log_scores(ask(part), part, name_of(target)))
    return np.concatenate(parts)


def propose(proposal: Proposal, n: int, rng: np.random.Generator) -> Batch:
    """Draw n items with their log q, checked."""
    if not callable(getattr(proposal, "sample", None)):
        raise InputError(
            f"the proposal is a {type(proposal).__name__}, but must have the methods "
            "sample(n, rng), giving items and their log q, and log_prob(items)."
        )
    answer = proposal.sample(n, rng)
    try:
        items, log_q = answer
    except (TypeError, ValueError) as error:
        raise ScoreError(
            f"{name_of(proposal)}.sample gave a {type(answer).__name__}; "
            "it must give a pair: the items, and the log q that each was drawn with."
        ) from error
    items = as_items(items)
    if len(items) != n:
        raise ScoreError(
            f"{name_of(proposal)}.sample({n}, rng) gave {len(items)} items; it must give {n}, "
            "because dropping some changes the distribution of the rest."
        )
    log_q = check_log_scores(log_q, items, name_of(proposal), "log q")
    check_drawn(log_q, items, name_of(proposal))
    return Batch(items, log_q)


def check_drawn(log_q: Array, items: Items | None, proposal: str = "the proposal") -> None:
    """Raise `ScoreError` if any log q is -inf: a drawn item has a probability above 0."""
    impossible = log_q == -np.inf
    if impossible.any():
        i = int(np.argmax(impossible))
        shown = f" ({show(items[i])})" if items is not None else ""
        raise ScoreError(
            f"{proposal} has log q = -inf for {int(impossible.sum())} of {len(log_q)} items that "
            f"were drawn from it, the first being draw {i}{shown}. An item that was drawn has a "
            "probability above 0: log q must be the probability it was truly drawn with."
        )


def show(item: Any, width: int = 80) -> str:
    """Return an item as text for an error message."""
    shown = repr(item)
    return shown if len(shown) <= width else shown[: width - 3] + "..."
