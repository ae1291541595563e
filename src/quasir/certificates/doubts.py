"""What is wrong with the estimates at one beta, in words, with numbers and advice."""

from __future__ import annotations

import math
from dataclasses import dataclass

from quasir.core.formatting import level_text
from quasir.estimation.no_hits import no_hits
from quasir.estimation.tail import Tail

__all__ = ["Evidence", "doubts_about"]

MIN_ESS = 100
"""With fewer effective draws than this, the relative error of a mean is above 10 %."""
MAX_PARETO_K = 0.7
"""Above this shape importance sampling converges too slowly (Vehtari et al. 2024)."""
MIN_ACCEPTED = 100
"""With fewer accepted draws than this, the standard error of a share may be above 5 %."""
TOO_RARE = 1e-6
"""Below this many accepted draws, no number of further draws is worth naming."""
MIN_ABOVE = 20
"""With fewer draws than this above beta, these few decide TVD, KL and the bound."""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """The facts about the draws from which the doubts at one beta follow.

    Attributes
    ----------
    log_beta : float
    n, n_possible : int
        All draws, and those with P(x) > 0.
    n_above : float
        Draws with a ratio above beta.
    accepted : float
        Expected number of draws accepted at beta.
    ess : float
        Kish's effective sample size of the ratios.
    tail : Tail
    promised : bool
        Whether TVD and KL are promised, whatever the tail is.
    chosen : bool
        Whether an estimate on these draws chose this level.
    """

    log_beta: float
    n: int
    n_possible: int
    n_above: float
    accepted: float
    ess: float
    tail: Tail
    promised: bool = False
    chosen: bool = False


def doubts_about(e: Evidence) -> list[str]:
    """Return what is wrong with the estimates, each with numbers and advice."""
    beta = level_text(e.log_beta)
    if e.n_possible == 0:
        return [
            f"None of the {e.n:,} draws had P(x) > 0, so all that is known is that q gives the "
            f"support of P a mass below {no_hits(e.n):.2g} (97.5 %). Use a proposal that "
            "reaches the target's support, loosen the target, or draw more."
        ]
    # A promise holds whatever the tail is, so it settles these.
    doubts = [] if e.promised else [*_about_the_tail(e), *_about_its_shape(e)]
    if e.ess < MIN_ESS:
        doubts.append(
            f"The {e.n:,} draws are worth only {e.ess:.3g} from the target (ESS below {MIN_ESS}): "
            f"draw about {_factor(MIN_ESS / max(e.ess, 1))} times as many, or use a better "
            "proposal."
        )
    if e.accepted < MIN_ACCEPTED:
        times = MIN_ACCEPTED / e.accepted if e.accepted > TOO_RARE else math.inf
        more = (
            f"Draw about {_factor(times)} times as many, or " if times < math.inf else "Instead, "
        )
        doubts.append(
            f"Only about {e.accepted:.3g} of {e.n:,} draws are accepted at beta = {beta}: the "
            f"moments are those of few samples. {more}choose a smaller beta."
        )
    return doubts


def _about_its_shape(e: Evidence) -> list[str]:
    """Return the doubts about a tail that is heavy, may be heavy, or is unknown."""
    k = e.tail.k
    if math.isnan(k):
        return [
            f"Only {e.n_possible} of {e.n:,} draws had P(x) > 0: too few to say how heavy the "
            "tail of the ratios is. Draw more, or use a proposal closer to the target."
        ]
    if k > MAX_PARETO_K:
        return [
            f"Pareto k is {k:.2f}, above {MAX_PARETO_K}: a few draws with very large ratios "
            "decide everything, and more draws alone help slowly. Use a proposal with heavier "
            "tails, closer to the target."
        ]
    if e.chosen and e.tail.fitted and e.tail.heavier.k > MAX_PARETO_K:
        return [
            f"beta was chosen by an estimate, and the tail may be heavy: Pareto k is {k:.2f}, and "
            f"may be {e.tail.heavier.k:.2f} (95 %; above {MAX_PARETO_K} no estimate should be "
            "trusted). The true distance may be far above the wish. Draw more, or mix the "
            "proposal with the base, so that the choice can be promised."
        ]
    return []


def _about_the_tail(e: Evidence) -> list[str]:
    """Return the doubts about the draws above beta, if they are few or none."""
    beta, largest, k = level_text(e.log_beta), level_text(e.tail.log_max), e.tail.k
    if e.tail.exceeds_all(e.log_beta):
        return []
    if e.n_above == 0 and k == -math.inf:
        return [
            f"beta = {beta} is not below any of the {e.n:,} ratios, the largest of which are all "
            f"{largest}: TVD, KL and the bound are exactly 0 if no item has a larger ratio, and "
            f"any such item that was not seen has a q-mass below {no_hits(e.n):.2g} (97.5 %). "
            "More draws lower that."
        ]
    if e.n_above == 0:
        if e.tail.log_ceiling < math.inf:
            how = (
                f"since no ratio exceeds {level_text(e.tail.log_ceiling)}, the upper ends of their "
                "intervals have a limit"
            )
        elif k < 1:
            how = (
                f"a generalised Pareto tail fitted to the largest ratios (k = {k:.2f}) gives the "
                "upper ends of their intervals"
            )
        elif not math.isnan(k):
            how = (
                f"the largest ratios' tail is too heavy to extrapolate (k = {k:.2f}), so no number "
                "can be given"
            )
        else:
            how = "too few ratios were seen to extrapolate, so no number can be given"
        return [
            f"The tail has not been seen: beta = {beta} is not below the largest of the {e.n:,} "
            f"ratios, {largest}, so TVD, KL and the bound are 0 on these draws; {how}. "
            f"Draw more, or choose a beta below {largest}."
        ]
    if e.n_above < MIN_ABOVE:
        return [
            f"Only {e.n_above:.0f} of {e.n:,} draws have a ratio above beta = {beta}: TVD, KL and "
            "the bound rest on them, and their intervals may be too narrow. "
            "Draw more, or choose a smaller beta."
        ]
    return []


def _factor(ratio: float) -> str:
    """Return a factor as text, below 10 rounded up to a tenth.

    Examples
    --------
    >>> _factor(1.04), _factor(2.0), _factor(12.4)
    ('1.1', '2', '12')
    """
    return f"{ratio:,.0f}" if ratio >= 10 else f"{math.ceil(10 * ratio) / 10:g}"
