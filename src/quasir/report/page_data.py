"""The data of the page's script: the levels along beta, the curves, and the texts."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from quasir.core.types import Array
from quasir.features import Feature
from quasir.report.page_panels import hues, panels
from quasir.report.phrases import beta_text, rate_phrase
from quasir.report.shown_texts import SHOWN, shown_texts

if TYPE_CHECKING:
    from quasir.certificates.certificate import Certificate
    from quasir.certificates.curve import Curve
    from quasir.draws.draws import Draws

__all__ = ["as_json", "page_data"]

_SURROGATE = re.compile("[\ud800-\udfff]")


def page_data(
    curve: Curve, certificate: Certificate, draws: Draws, features: Sequence[Feature]
) -> dict[str, Any]:
    """Return the page's data, ready for JSON; levels are in the order of beta.

    A list along the levels has an entry for each level. `log_beta` and `survivors` (how many draws
    have alpha > beta) are exact; the others are rounded for display. `doubts_at` holds indices
    into `doubts`.
    """
    order = np.argsort(curve.log_betas, kind="stable")
    log_betas = curve.log_betas[order]
    at = list(curve)
    certificates = [at[i] for i in order]
    alphas = np.sort(draws.log_alpha)
    colours = hues([*(feature.name for feature in features), *curve.moments])
    doubts: dict[str, int] = {}
    return {
        "draws": len(draws),
        "shown": SHOWN,
        "chosen": _nearest(log_betas, certificate.log_beta),
        "chosen_rate": _above_0(certificate.acceptance_rate.value),
        "log_beta": log_betas.tolist(),
        "beta": [beta_text(log_beta) for log_beta in log_betas.tolist()],
        "rate": [_above_0(one.acceptance_rate.value) for one in certificates],
        "accepted": [rate_phrase(one.acceptance_rate).main for one in certificates],
        "accepted_rest": [rate_phrase(one.acceptance_rate).rest for one in certificates],
        "survivors": (len(alphas) - np.searchsorted(alphas, log_betas, side="right")).tolist(),
        "doubts_at": [
            [doubts.setdefault(doubt, len(doubts)) for doubt in one.doubts] for one in certificates
        ],
        "doubts": list(doubts),
        "features": [
            {
                "name": feature.name,
                "colour": colours[feature.name][0],
                "coloured": feature.spans is not None,
            }
            for feature in features
        ],
        "panels": panels(curve, order, colours),
        "texts": shown_texts(draws, log_betas, features),
    }


def _nearest(log_betas: Array, log_beta: float) -> int:
    """Return the index of the level closest to log_beta; of equals, the first.

    Examples
    --------
    >>> _nearest(np.array([0.0, 1.0, 2.0]), 1.2)
    1
    """
    return int(np.argmin(np.abs(log_betas - log_beta)))


def as_json(data: Any) -> str:
    r"""Return JSON that is safe inside a script element and can be encoded in UTF-8.

    Examples
    --------
    >>> as_json("</script>")
    '"\\u003c/script>"'
    """
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    text = text.replace("<", "\\u003c")
    return _SURROGATE.sub(lambda lone: f"\\u{ord(lone[0]):04x}", text)


def _above_0(rate: float) -> float | None:
    return rate if rate > 0 and math.isfinite(rate) else None
