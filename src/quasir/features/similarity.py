"""Similarity of texts to a given one, by sentence embeddings (section 3.3 of the paper)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from quasir.core.arguments import check_callable, number, reals, show
from quasir.core.items import text_of
from quasir.core.types import Array, Items
from quasir.errors import FeatureError, InputError
from quasir.features.sentence_models import SentenceModel
from quasir.targets.feature import Feature

__all__ = ["similarity"]

Embed = Callable[[list[str]], Any]
MODEL = "sentence-transformers/all-mpnet-base-v2"
"""The paper's embedding model."""


def similarity(
    text: str,
    above: float | None = None,
    embed: Embed | str | None = None,
    name: str | None = None,
) -> Feature:
    """Return the cosine of a text's embedding and the given text's, or whether it is `above`.

    Parameters
    ----------
    text : str
        The text to be close to.
    above : float, optional
        Makes the feature boolean: whether the cosine is above this (the paper: 0.95).
    embed : callable or str, optional
        From a list of texts to an array of their embeddings, one a row; or the name of a model for
        sentence-transformers (extra ``text``), such as ``quasir/sentences``, which is loaded at the
        first use. By default the paper's model.
    name : str, optional

    Examples
    --------
    >>> def embed(texts):
    ...     return [[text.count("a"), text.count("b"), 1] for text in texts]
    >>> similarity("ab", embed=embed)(["ba", "bbb"]).round(2)
    array([1.  , 0.73])
    """
    if not isinstance(text, str):
        raise InputError(f"text is {show(text)}, but must be a string: the text to be close to.")
    if above is not None and not -1 <= number("above", above) <= 1:
        raise InputError(f"above is {show(above)}, but a cosine is between -1 and 1.")
    if embed is None or isinstance(embed, str):
        ask: Embed = SentenceModel(embed or MODEL)
    else:
        check_callable("embed", embed, "a function from a list of texts to an array")
        ask = embed
    own: list[Array] = []

    def cosine(items: Items) -> Any:
        if not own:
            own.append(_unit(ask([text]))[0])
        cosines = _unit(ask([text_of(item) for item in items])) @ own[0]
        # Rounding may put the cosine of a text with itself above 1.
        return np.clip(cosines, -1.0, 1.0) if above is None else cosines > above

    shown = text if len(text) <= 40 else text[:37] + "..."
    limit = "" if above is None else f" above {above:g}"
    title = f"similar to {shown!r}{limit}"
    kind = {"low": -1.0, "high": 1.0} if above is None else {"boolean": True}
    return Feature(title if name is None else name, cosine, batched=True, expensive=True, **kind)


def _unit(rows: Any) -> Array:
    """Return rows of length 1."""
    array = np.atleast_2d(reals("embeddings", rows, FeatureError).astype(np.float64))
    norm = np.linalg.norm(array, axis=1, keepdims=True)
    return array / np.where(norm > 0, norm, 1.0)
