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

__all__ = ["AT_ONCE", "BEGINNING", "MOST_CHARACTERS", "SHOWN", "first_accepted", "shown_texts"]

SHOWN = 20
"""Accepted draws that are shown at each beta."""
AT_ONCE = 800
"""A longer text is folded: its beginning is shown, and a click shows the rest."""
BEGINNING = 600
"""Characters of a folded text that are shown at once."""
MOST_CHARACTERS = 20_000
"""A longer text is cut, and the page says so."""
FOLDED = 1_000_000
"""Characters of all folded parts together, at most, so that the page stays small."""


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

    `log_alpha` is not rounded, so that alpha > beta on the page is exact. The end of a long text is
    in `rest`, and `more` characters are left out.
    """
    if draws.items is None:
        return []
    log_alpha, left, shown = draws.log_alpha, FOLDED, []
    for i in first_accepted(log_alpha, log_betas).tolist():
        marked = _marked(draws, i, features, left)
        left -= marked.pop("folded")
        alpha = float(log_alpha[i])
        shown.append({"draw": i, "log_alpha": alpha, "until": beta_text(alpha), **marked})
    return shown


def _marked(draws: Draws, i: int, features: Sequence[Feature], room: int) -> dict[str, Any]:
    """Return the pieces shown at once, those folded, and how many characters were cut."""
    text = text_of(draws.items[i])
    places = [_places(draws, i, feature, text) for feature in features]
    first = len(text) if len(text) <= AT_ONCE else BEGINNING
    last = max(first, min(len(text), MOST_CHARACTERS, first + room))

    def between(start: int, end: int) -> list[Any]:
        moved = [[(a - start, b - start) for a, b in spans] for spans in places]
        return [[piece, *on] if on else piece for piece, on in pieces(text[start:end], moved)]

    return {
        "pieces": between(0, first),
        "rest": between(first, last) if last > first else [],
        "folded": last - first,
        "more": len(text) - last,
    }


def _places(draws: Draws, i: int, feature: Feature, text: str) -> list[tuple[int, int]]:
    """Return the places to colour; none where the feature is false for this text."""
    column = draws.features.get(feature.name)
    silent = column is not None and column.dtype == bool and not column[i]
    return [] if feature.spans is None or silent else feature.spans(text)
