"""The texts that the page shows: at every beta, the first accepted ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from quasir.core.types import Array
from quasir.features import Feature, text_of
from quasir.report.highlights import pieces
from quasir.report.phrases import beta_text

if TYPE_CHECKING:
    from quasir.draws.draws import Draws

__all__ = ["MOST_CHARACTERS", "SHOWN", "first_accepted", "shown_texts"]

SHOWN = 20
"""Accepted draws that are shown at each beta."""
MOST_CHARACTERS = 2000
"""A longer text is cut, and the page says so."""


def first_accepted(log_alpha: Array, log_betas: Array, shown: int = SHOWN) -> NDArray[np.intp]:
    """Return the indices of draws among the first `shown` accepted ones at any of the betas.

    At each beta, the first `shown` of these with alpha > beta are also the first `shown` of all
    draws with alpha > beta, and so i.i.d. from p_beta.

    Examples
    --------
    >>> first_accepted(np.array([1.0, 3.0, 2.0, 4.0]), np.array([0.0, 2.5]), shown=1)
    array([0, 1])
    """
    left, alphas, found = np.arange(len(log_alpha)), log_alpha, []
    # The accepted sets are nested, so each is searched within the one before.
    for log_beta in np.sort(log_betas):
        keep = alphas > log_beta
        left, alphas = left[keep], alphas[keep]
        found.append(left[:shown])
    return np.unique(np.concatenate(found))


def shown_texts(
    draws: Draws, log_betas: Array, features: Sequence[Feature]
) -> list[dict[str, Any]]:
    """Return the texts of `first_accepted`, cut into pieces by the features of their words.

    `log_alpha` is not rounded, so that alpha > beta on the page is exact.
    """
    if draws.items is None:
        return []
    log_alpha = draws.log_alpha
    return [
        {
            "draw": i,
            "log_alpha": float(log_alpha[i]),
            "until": beta_text(float(log_alpha[i])),
            **_marked(draws, i, features),
        }
        for i in first_accepted(log_alpha, log_betas).tolist()
    ]


def _marked(draws: Draws, i: int, features: Sequence[Feature]) -> dict[str, Any]:
    text = text_of(draws.items[i])
    cut = text[:MOST_CHARACTERS]
    places = [_places(draws, i, feature, text) for feature in features]
    return {
        "pieces": [[piece, *on] if on else piece for piece, on in pieces(cut, places)],
        "more": len(text) - len(cut),
    }


def _places(draws: Draws, i: int, feature: Feature, text: str) -> list[tuple[int, int]]:
    """Return the places to colour; none where the feature is false for this text."""
    column = draws.features.get(feature.name)
    silent = column is not None and column.dtype == bool and not column[i]
    return [] if feature.spans is None or silent else feature.spans(text)
