"""Means: of each feature over samples, of a number over runs, of log a(x) over tokens (PPL)."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, SupportsFloat

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quasir.core.arguments import LARGEST, exp_or_inf, is_iterable, number, reals
from quasir.core.formatting import short_repr
from quasir.core.items import as_items
from quasir.core.scores import log_prob_of, name_of
from quasir.core.types import Items
from quasir.draws.draws import Draws
from quasir.errors import InputError, QuasirWarning
from quasir.estimation.estimate import Z95, Estimate
from quasir.estimation.intervals import wilson_interval
from quasir.features import Feature
from quasir.samplers.results import SampleSet
from quasir.targets.feature import check_feature


def moments(items: Items, features: Feature | Iterable[Feature]) -> dict[str, Estimate]:
    """Return the mean of each feature over i.i.d. samples, with standard error and 95 % interval.

    Parameters
    ----------
    items : items
        I.i.d. samples. Draws of a chain are not; their standard error is that of `ess` draws.
    features : Feature, or several

    Returns
    -------
    dict of Estimate
        Keyed by the feature's name. The standard error is s/sqrt(n), where s has n - 1 degrees of
        freedom; it is NaN for one sample. The interval is Wilson's for a boolean feature, else
        the mean -+ 1.96 standard errors.

    Examples
    --------
    >>> import quasir as qr
    >>> texts = ["She is a chemist.", "He is a chemist.", "She plays.", "She sings."]
    >>> print(moments(texts, qr.features.female)["female"])
    0.75 ± 0.25 [0.3006, 0.9544]
    """
    column = item_column(items)
    if len(column) == 0:
        raise InputError("there are no samples to take a mean of: give at least one.")
    several = is_iterable(features) and not isinstance(features, (str, bytes))
    asked: list[Any] = list(features) if several else [features]  # type: ignore[arg-type]
    for feature in asked:
        check_feature(feature)
    names = [feature.name for feature in asked]
    if len(set(names)) < len(names):
        raise InputError(f"features need different names, but these are {names}.")
    return {feature.name: _mean(feature(column)) for feature in asked}


def _mean(values: NDArray[np.generic]) -> Estimate:
    n, numbers = len(values), values.astype(np.float64)
    mean = float(numbers.mean())
    se = float(numbers.std(ddof=1) / np.sqrt(n)) if n > 1 else math.nan
    if values.dtype == bool:
        low, high = map(float, wilson_interval(np.array(mean), np.array(float(n))))
    else:
        low, high = (mean - Z95 * se, mean + Z95 * se) if n > 1 else (-math.inf, math.inf)
    return Estimate(mean, se, low, high)


@dataclass(frozen=True)
class Runs:
    """The mean and standard deviation of a number over independent runs.

    `sd` is the spread of one run (n - 1 degrees of freedom), not the error of the mean; NaN for
    one run.

    Examples
    --------
    >>> print(Runs(0.4512, 0.0123, 10))
    0.4512 ± 0.012
    """

    mean: float
    sd: float
    runs: int

    def __str__(self) -> str:
        if math.isnan(self.sd):
            return f"{self.mean:.4g} (one run)"
        return f"{self.mean:.4g} ± {self.sd:.2g}"


def over_runs(values: Iterable[SupportsFloat]) -> Runs:
    """Return the mean and standard deviation of numbers, one for each run.

    Examples
    --------
    >>> over_runs([1.0, 2.0, 3.0])
    Runs(mean=2.0, sd=1.0, runs=3)
    """
    if isinstance(values, (str, bytes, Mapping)) or not is_iterable(values):
        raise InputError(f"values are {short_repr(values)}, but must be one number for each run.")
    # An `Estimate` stands for its value.
    listed = [value.value if isinstance(value, Estimate) else value for value in values]
    numbers = np.array([number(f"the value of run {i}", value) for i, value in enumerate(listed)])
    if len(numbers) == 0:
        raise InputError("there are no runs to take a mean of: give one number for each run.")
    if not (np.abs(numbers) <= LARGEST).all():
        raise InputError(f"a run gave {numbers[np.argmax(np.abs(numbers))]}: there is no mean.")
    sd = float(numbers.std(ddof=1)) if len(numbers) > 1 else math.nan
    return Runs(float(numbers.mean()), sd, len(numbers))


def item_column(items: Any) -> Items:
    """Return a column of items: those given, or those of samples or draws."""
    if not isinstance(items, (SampleSet, Draws)):
        return as_items(items)
    if items.items is None:
        raise InputError("these draws have no items: make them with items=, or with qr.draw.")
    return items.items


def perplexity(texts: Items, base: Any, tokens: ArrayLike | None = None) -> float:
    """Return exp(-sum of log a(x) / number of tokens), both over all texts together.

    Parameters
    ----------
    texts : items
        Scored by token ids if they consist of the base's own tokens, else by text.
    base : CausalLM, Seq2SeqLM, or anything with ``log_prob(items)``
        a(x), with its own temperature, top-k and top-p.
    tokens : array of int, optional
        How many tokens each text was scored with; needed if the base has no tokenizer.

    Returns
    -------
    float
        inf, with a warning, if a text has probability 0 under the base.

    Notes
    -----
    The tokens of a text are those that `log_prob` sums over: the text's own, and the end token if
    the text ended before ``max_tokens``; a text cut at that limit has no end token. Each token has
    the same weight, so a long text weighs more than a short one.

    Examples
    --------
    >>> import quasir as qr
    >>> base = qr.Table({"a": 0.5, "b": 0.125, "c": 0.375})
    >>> round(perplexity(["a", "b"], base, tokens=[1, 3]), 12)
    2.0
    """
    items = item_column(texts)
    if len(items) == 0:
        raise InputError("there are no texts to take the perplexity of: give at least one.")
    if isinstance(base, type) or not callable(getattr(base, "log_prob", None)):
        raise InputError(f"the base is a {type(base).__name__}, without log_prob(items).")
    if tokens is not None:
        counts = reals("tokens", tokens)
    elif all(hasattr(base, name) for name in ("tokenizer", "max_tokens", "end")):
        from quasir.text.texts import as_texts

        items = as_texts(items, base.tokenizer)
        counts = items.lengths + ((items.lengths < base.max_tokens) & (base.end is not None))
    else:
        raise InputError(
            f"{name_of(base)} has no tokenizer: pass tokens=, the number for each text "
            "(qr.features.length()(texts) for words)."
        )
    if (
        counts.dtype.kind not in "iuf"
        or counts.shape != (len(items),)
        or not ((counts <= LARGEST) & (counts >= 0)).all()
    ):
        raise InputError(f"tokens must be {len(items)} counts, one for each text.")
    if counts.sum() == 0:
        raise InputError("the texts have no tokens, so the mean over tokens is undefined.")
    log_prob = log_prob_of(base, items, "log a")
    impossible = np.flatnonzero(log_prob == -np.inf)
    if len(impossible):
        warnings.warn(
            f"{len(impossible)} of {len(items)} texts have probability 0 under the base, the "
            f"first being {short_repr(items[int(impossible[0])])}: too long, or cut by its top-k "
            "or top-p.",
            QuasirWarning,
            stacklevel=2,
        )
        return math.inf
    return exp_or_inf(float(-log_prob.sum() / counts.sum()))
