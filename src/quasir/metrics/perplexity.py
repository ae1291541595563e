"""Perplexity under a base: how fluent texts are (PPL in appendices F and G of the paper)."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from quasir.core.arguments import LARGEST, exp_or_inf, reals
from quasir.core.formatting import short_repr
from quasir.core.scores import log_prob_of, name_of
from quasir.core.types import Items
from quasir.errors import InputError, QuasirWarning
from quasir.metrics.moments import item_column


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
        raise InputError(
            f"the base is a {type(base).__name__}, but must have a method log_prob(items): "
            "perplexity needs a normalised distribution."
        )
    if tokens is not None:
        counts = reals("tokens", tokens)
    elif all(hasattr(base, name) for name in ("tokenizer", "max_tokens", "end")):
        from quasir.text.texts import as_texts

        items = as_texts(items, base.tokenizer)
        counts = items.lengths + ((items.lengths < base.max_tokens) & (base.end is not None))
    else:
        raise InputError(
            f"{name_of(base)} has no tokenizer, so its tokens cannot be counted: pass tokens=, "
            "the number that each text was scored with (qr.features.length()(texts) for words)."
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
            f"first being {short_repr(items[int(impossible[0])])}, so their perplexity is "
            "infinite: a text may be longer than the base's max_tokens, or cut out by its top-k "
            "or top-p.",
            QuasirWarning,
            stacklevel=2,
        )
        return math.inf
    return exp_or_inf(float(-log_prob.sum() / counts.sum()))
