"""Calls of targets and proposals, with checks that their answers are possible."""

from __future__ import annotations

from typing import Any

import numpy as np

from quasir.core.arguments import check_count, reals
from quasir.core.formatting import short_repr
from quasir.core.items import as_items
from quasir.core.types import Array, Batch, Items, Proposal, Scorer, Target, optional_attribute
from quasir.errors import InputError, QuasirError, ScoreError

LARGEST_SCORE = 1e100  # largest size of a log score: its square is then far from overflow
SLACK, NETWORK_SLACK = 1e-6, 1e-3
"""How far above 0 rounding may bring log q: in float64, and in a network's float32."""
BARE = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, AssertionError)
"""Errors of a target or proposal that say nothing by themselves; others are passed on."""


def name_of(scorer: Any) -> str:
    """Return the name of a target or a proposal for error messages."""
    name = getattr(scorer, "__name__", None)
    return name if isinstance(name, str) and name else type(scorer).__name__


def check_target(target: Any) -> None:
    """Raise `InputError` unless P can be asked for scores."""
    wanted = "a method log_score(items) or be a callable that does the same"
    _refuse("the target", target, wanted, callable(getattr(target, "log_score", target)))


def check_proposal(proposal: Any, what: str = "the proposal") -> None:
    """Raise `InputError` unless q can be drawn from and scored."""
    wanted = "the methods sample(n, rng), giving items and their log q, and log_prob(items)"
    methods = (getattr(proposal, name, None) for name in ("sample", "log_prob"))
    _refuse(what, proposal, wanted, all(map(callable, methods)))


def _refuse(what: str, thing: Any, wanted: str, right: bool) -> None:
    if hasattr(thing, "rvs") and (hasattr(thing, "logpmf") or hasattr(thing, "logpdf")):
        raise InputError(f"{what} is a distribution of scipy: make it with qr.from_scipy(...).")
    if not right or isinstance(thing, type):
        kind = f"the class {thing.__name__}" if isinstance(thing, type) else type(thing).__name__
        raise InputError(f"{what} is a {kind}, but must have {wanted}.".replace(" a the", " the"))


def check_pair(target: Any, proposal: Any) -> None:
    """Raise `InputError` unless these are a target, a proposal, and of one kind."""
    check_target(target)
    check_proposal(proposal)
    check_same_kind(target, proposal)


def check_same_kind(target: Any, proposal: Any) -> None:
    """Refuse a density beside probabilities: no ratio of the two means anything."""
    dense, other = optional_attribute(target, "density"), optional_attribute(proposal, "density")
    if dense is None or other is None or bool(dense) == bool(other):
        return
    kinds = ("a density", "discrete") if dense else ("discrete", "a density")
    raise InputError(
        f"the target ({short_repr(target)}) is {kinds[0]}, but the proposal "
        f"({short_repr(proposal)}) is {kinds[1]}: use two distributions of one kind."
    )


def check_log_scores(scores: Any, items: Items, scorer: str, what: str = "log P") -> Array:
    """Return scores as a float64 array, one for each item; raise `ScoreError` if they are wrong."""
    array = reals(f"the {what} of {scorer}", scores, ScoreError)
    if array.dtype == bool:
        raise ScoreError(
            f"{scorer} gave {what} that are booleans, but a log score is a number: 0 where P(x) = "
            "1, -inf where P(x) = 0. For a condition, use base * qr.Feature(name, function)."
        )
    if array.shape != (len(items),):
        raise ScoreError(
            f"{scorer} gave {what} of shape {array.shape} for {len(items)} items. "
            f"It must return one score for each item, shape ({len(items)},)."
        )
    # Faster than a mask, and as strict: NaN fails every comparison.
    low = array < -LARGEST_SCORE
    too_large = len(array) > 0 and not array.max() <= LARGEST_SCORE
    if too_large or (low.any() and (array[low] > -np.inf).any()):
        wrong = ~((np.abs(array) <= LARGEST_SCORE) | (array == -np.inf))
        i = int(np.argmax(wrong))
        raise ScoreError(
            f"{scorer} gave {what} = {array[i]} for {int(wrong.sum())} of {len(items)} items, "
            f"the first being {short_repr(items[i])}. A log score is a finite number of at most "
            f"{LARGEST_SCORE:g}, or -inf for an impossible item; correct the scorer for this item."
        )
    return array


def score(target: Target, items: Items, batch_size: int | None = None) -> Array:
    """Return log P(x) of each item, checked, scored `batch_size` at a time."""
    check_target(target)
    ask = target.log_score if isinstance(target, Scorer) else target
    step = len(items) if batch_size is None else check_count("batch_size", batch_size)
    parts = []
    for start in range(0, max(len(items), 1), max(step, 1)):
        part = items if step >= len(items) else items[start : start + step]
        parts.append(check_log_scores(_ask(ask, target, part), part, name_of(target)))
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def log_prob_of(proposal: Any, items: Items, what: str = "log q") -> Array:
    """Return log q(x) of each item, checked: no probability is above 1."""
    raw = _ask(proposal.log_prob, proposal, items)
    log_q = check_log_scores(raw, items, name_of(proposal), what)
    _check_at_most_one(proposal, raw, log_q, items, what)
    return log_q


def propose(proposal: Proposal, n: int, rng: np.random.Generator) -> Batch:
    """Draw n items with their log q, checked."""
    check_proposal(proposal)
    return _checked_batch(proposal, n, proposal.sample(n, rng))


def propose_scored(proposal: Any, n: int, rng: np.random.Generator) -> tuple[Items, Array, Array]:
    """Draw n items with their log q, and log a of the proposal's base from the same pass."""
    items, log_q, log_base = proposal.sample_scored(n, rng)
    batch = _checked_batch(proposal, n, (items, log_q))
    log_a = check_log_scores(log_base, batch.items, name_of(proposal), "log a")
    return batch.items, batch.log_q, log_a


def _checked_batch(proposal: Any, n: int, answer: Any) -> Batch:
    try:
        items, raw = answer
    except (TypeError, ValueError) as error:
        raise ScoreError(
            f"{name_of(proposal)}.sample gave {short_repr(answer)}; it must give a pair: the "
            "items, and the log q that each was drawn with."
        ) from error
    items = as_items(items)
    if len(items) != n:
        raise ScoreError(
            f"{name_of(proposal)}.sample({n}, rng) gave {len(items)} items; it must give {n}."
        )
    log_q = check_log_scores(raw, items, name_of(proposal), "log q")
    check_drawn(log_q, items, name_of(proposal))
    _check_at_most_one(proposal, raw, log_q, items, "log q")
    return Batch(items, log_q)


def _ask(ask: Any, scorer: Any, items: Items) -> Any:
    """Ask for scores; an error that says nothing by itself is explained."""
    try:
        return ask(items)
    except QuasirError:
        raise
    except (*BARE, RecursionError) as error:
        first = f", beginning with {short_repr(items[0])}" if len(items) else ""
        raise ScoreError(
            f"{name_of(scorer)} failed with {type(error).__name__}: {error}, on {len(items)} "
            f"items{first}. It must give a score for every item that is drawn."
        ) from error


def _check_at_most_one(proposal: Any, raw: Any, log_q: Array, items: Items, what: str) -> None:
    """Raise `ScoreError` if a probability is above 1 by more than rounding explains."""
    if not len(log_q) or log_q.max() <= SLACK or optional_attribute(proposal, "density"):
        return
    network = _is_network(proposal, raw)
    i = int(np.argmax(log_q))
    if log_q[i] > (NETWORK_SLACK if network else SLACK):
        raise ScoreError(
            f"{name_of(proposal)} gave {what} = {log_q[i]:.6g} for {short_repr(items[i])}: a "
            "probability above 1. A proposal that is a density has the attribute density = True."
        )


def _is_network(proposal: Any, raw: Any) -> bool:
    """Return whether scores come from a network, and so are right to a few digits only."""
    parts = (proposal, *getattr(proposal, "components", ()))
    single = getattr(raw, "dtype", np.float64) != np.float64
    return single or any(optional_attribute(part, "tokenizer") is not None for part in parts)


def check_rescored(proposal: Any, items: Items, log_q: Array) -> None:
    """Raise `ScoreError` if log_prob does not give what a few items were drawn with."""
    # A network's scores differ by rounding, and at the edge of a cut by more: a quarter must.
    parts = (proposal, *getattr(proposal, "components", ()))
    if not all(optional_attribute(part, "scores_given") for part in parts):
        return
    raw = _ask(proposal.log_prob, proposal, items)
    again = check_log_scores(raw, items, name_of(proposal), "log q")
    network = _is_network(proposal, raw)
    close = 0.05 + 0.02 * np.abs(log_q) if network else 1e-6 * (1 + np.abs(log_q))
    close += 2 * max(optional_attribute(part, "mismatch") for part in parts)
    other = ~(np.abs(again - log_q) <= close)
    if other.sum() > (len(items) // 4 if network else 0):
        i = int(np.argmax(other))
        raise ScoreError(
            f"{name_of(proposal)} drew {short_repr(items[i])} with log q = {log_q[i]:.6g}, but its "
            f"log_prob gives {again[i]:.6g}; {int(other.sum())} of the first {len(items)} draws "
            "differ. Both must be the log-probability that items are drawn with."
        )


def check_drawn(log_q: Array, items: Items | None, proposal: str = "the proposal") -> None:
    """Raise `ScoreError` if any log q is -inf: a drawn item has a probability above 0."""
    impossible = log_q == -np.inf
    if impossible.any():
        i = int(np.argmax(impossible))
        shown = f" ({short_repr(items[i])})" if items is not None else ""
        raise ScoreError(
            f"{proposal} has log q = -inf for {int(impossible.sum())} of {len(log_q)} items that "
            f"were drawn from it, the first being draw {i}{shown}: an item that was drawn has a "
            "probability above 0."
        )
