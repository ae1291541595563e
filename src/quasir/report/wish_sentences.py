"""A wish in words: what was wished, what the target has, what TVD allows, what the samples have."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from quasir.certificates.check import Check
from quasir.report.phrases import number_text

if TYPE_CHECKING:
    from quasir.certificates.wished import Wished
    from quasir.estimation.estimate import Estimate

__all__ = ["sentences"]


def sentences(wished: Wished, observed: Check | None = None) -> list[str]:
    """Return the sentences about one wish, in the order of the chain from wish to samples.

    Examples
    --------
    >>> from quasir.certificates.wished import Wished
    >>> from quasir.estimation.estimate import Estimate
    >>> target, at_beta = Estimate(0.49, 0.01, 0.47, 0.51), Estimate(0.44, 0.01, 0.42, 0.46)
    >>> tvd = Estimate(0.1, 0.01, 0.08, 0.12)
    >>> one = Wished(name="she", wish=0.5, target=target, at_beta=at_beta, tvd=tvd)
    >>> for sentence in sentences(one):
    ...     print(sentence)
    Wished: a mean of 0.500.
    The target has 0.490 ± 0.010.
    At the chosen β the mean may differ from the target's by at most TVD, 0.100 (0.0800 to 0.120); \
it is 0.440 ± 0.010.
    """
    said = [
        f"Wished: a mean of {number_text(wished.wish)}.",
        f"The target has {_with_error(wished.target)}"
        + (", which is not what was wished." if wished.doubt is not None else "."),
    ]
    at_beta = _with_error(wished.at_beta)
    if wished.tvd is None:
        said.append(
            f"At the chosen β the mean is {at_beta}; TVD does not bound how far the mean of a "
            "number may differ from the target's."
        )
    elif math.isnan(wished.tvd.se):
        # TVD was 0 on these draws: only its upper end is known.
        said.append(
            f"At the chosen β the mean may differ from the target's by at most TVD, which is below "
            f"{number_text(wished.tvd.high)}; it is {at_beta}."
        )
    else:
        tvd = wished.tvd
        ends = f"{number_text(tvd.low)} to {number_text(tvd.high)}"
        said.append(
            f"At the chosen β the mean may differ from the target's by at most TVD, "
            f"{number_text(tvd.value)} ({ends}); it is {at_beta}."
        )
    if observed is not None and math.isfinite(observed.observed):
        error = f" ± {number_text(observed.observed_se, 2)}"
        known = math.isfinite(observed.observed_se)
        said.append(f"The samples have {number_text(observed.observed)}{error if known else ''}.")
    return said


def _with_error(part: Estimate) -> str:
    if not math.isfinite(part.value):
        return "an unknown mean"
    error = f" ± {number_text(part.se, 2)}" if math.isfinite(part.se) and part.se else ""
    return number_text(part.value) + error
