"""What is wrong with the estimates, in words, with numbers and advice."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from quasir.core.formatting import level_text
from quasir.draws.ceiling import RatioBounds
from quasir.estimation.betting import acceptance_rate_at_least, acceptance_rate_at_most
from quasir.estimation.binned_draws import BinnedDraws
from quasir.estimation.intervals import zero_hit_bound

if TYPE_CHECKING:
    from quasir.certificates.evaluator import Evaluator

MIN_ESS = 100  # with fewer effective draws than this, the relative error of a mean is above 10 %
MAX_PARETO_K = 0.7
"""Above this shape importance sampling converges too slowly (Vehtari et al. 2024)."""
MIN_ACCEPTED = 100
"""With fewer accepted draws than this, the standard error of a share may be above 5 %."""
TOO_RARE = 1e-6  # below this many accepted draws, no number of further draws is worth naming
MIN_ABOVE = 20  # with fewer draws than this above beta, these few decide TVD, KL and the bound
FALSE_ALARM = 1e-6
"""Chance that what a disagreement says is false, over all numbers of draws at once."""
ROUNDING = 1e-4  # a relative difference from Z below this may come from scores in float32


def warnings_about(
    e: Evaluator,
    log_beta: float = 0.0,
    n_above: float = math.inf,
    accepted: float = math.inf,
    *,
    guaranteed: bool = False,
    chosen: bool = False,
) -> list[str]:
    """Return what is wrong at a beta with so many draws above it, and accepted on average."""
    if e.n_possible == 0:
        return [
            f"None of the {e.n:,} draws had P(x) > 0, so all that is known is that q gives the "
            f"support of P a mass below {zero_hit_bound(e.n):.2g} (97.5 %). Use a proposal that "
            "reaches the target's support, loosen the target, or draw more."
        ]
    warnings = []
    if not guaranteed:
        warnings = [*_about_the_tail(e, log_beta, n_above), *_about_its_shape(e, chosen)]
    if e.ess < MIN_ESS:
        warnings.append(
            f"The {e.n:,} draws are worth only {e.ess:.3g} from the target (ESS below {MIN_ESS}): "
            f"draw about {_factor(MIN_ESS / max(e.ess, 1))} times as many, or use a better "
            "proposal."
        )
    if accepted < MIN_ACCEPTED:
        more = "Instead, "
        if accepted > TOO_RARE:
            more = f"Draw about {_factor(MIN_ACCEPTED / accepted)} times as many, or "
        warnings.append(
            f"Only about {accepted:.3g} of {e.n:,} draws are accepted at beta = "
            f"{level_text(log_beta)}: the moments are those of few samples. {more}choose a "
            "smaller beta."
        )
    return warnings


def _about_its_shape(e: Evaluator, chosen: bool) -> list[str]:
    """Return the warnings about a tail that is heavy, may be heavy, or is unknown."""
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
    if chosen and e.tail.fitted and e.tail.heavier.k > MAX_PARETO_K:
        return [
            f"beta was chosen by an estimate, and the tail may be heavy: Pareto k is {k:.2f}, and "
            f"may be {e.tail.heavier.k:.2f} (95 %; above {MAX_PARETO_K} no estimate should be "
            "trusted). The true distance may be far above the request. Draw more, or mix the "
            "proposal with the base, so that the choice can be guaranteed."
        ]
    return []


def _about_the_tail(e: Evaluator, log_beta: float, n_above: float) -> list[str]:
    """Return the warnings about the draws above beta, if they are few or none."""
    if e.tail.exceeds_all(log_beta) or n_above >= MIN_ABOVE:
        return []
    beta, largest, k = level_text(log_beta), level_text(e.tail.log_max), e.tail.k
    if n_above > 0:
        return [
            f"Only {n_above:.0f} of {e.n:,} draws have a ratio above beta = {beta}: TVD, KL and "
            "the bound rest on them, and their intervals may be too narrow. "
            "Draw more, or choose a smaller beta."
        ]
    if k == -math.inf:
        how = f"an item of a larger ratio has a q-mass below {zero_hit_bound(e.n):.2g} (97.5 %)"
    elif e.tail.log_ceiling < math.inf:
        how = f"no ratio exceeds {level_text(e.tail.log_ceiling)}, which limits their upper ends"
    elif k < 1:
        how = f"their upper ends are from a fitted generalised Pareto tail (k = {k:.2f})"
    else:
        how = f"the tail cannot be extrapolated (k = {k:.2f}), so no number can be given"
    return [
        f"The tail has not been seen: beta = {beta} is not below the largest of the {e.n:,} "
        f"ratios, {largest}, so TVD, KL and the bound are 0 on these draws; {how}. "
        f"Draw more, or choose a beta below {largest}."
    ]


def _factor(ratio: float) -> str:
    return f"{ratio:,.0f}" if ratio >= 10 else f"{math.ceil(10 * ratio) / 10:g}"


@dataclass(frozen=True)
class Disagreement:
    """The draws disagree with the known Z; `impossible` if what is known contradicts itself."""

    text: str
    impossible: bool


def find_disagreement(
    binned: BinnedDraws, known: RatioBounds, estimate: str
) -> Disagreement | None:
    """Return what the draws show against the known Z, or None; `estimate` says theirs in words."""
    # min(w, beta) is bounded, so the draws bound its mean Z_beta, whatever the tail: above Z, or
    # below it at a ceiling, is a contradiction (docs/records/proofs.md). The level is the ceiling,
    # or the first Z 2^k that no ratio drawn exceeds, with the share 6/(pi (k + 1))^2 of alarms.
    if known.log_z is None or not math.isfinite(binned.log_top):
        return None
    k = max(0, math.ceil((binned.log_top - known.log_z) / math.log(2)))
    level, share = known.log_z + k * math.log(2), 6 / (math.pi * (k + 1)) ** 2
    at_ceiling = binned.log_top <= known.log_ceiling <= level
    if at_ceiling:
        level, share = known.log_ceiling, 1.0
    beta, alpha = np.array([level]), FALSE_ALARM / 4 * share  # 2 bounds, 2 kinds of levels
    least, most = (
        math.exp(level - known.log_z) * float(bound(binned, beta, alpha=alpha)[0])  # in units of Z
        for bound in (acceptance_rate_at_least, acceptance_rate_at_most)
    )
    says = f"times what is known (this is false in at most {FALSE_ALARM:g} of all runs)"
    start = f"Z is known to be {level_text(known.log_z)}, but the draws give {estimate}, and at"
    wrong = (
        "which cannot be. The Z that the target declares, the ceiling, or the proposal's log q is "
        "wrong. No number here can be trusted until that is found."
    )
    if least > 1 + ROUNDING:
        return Disagreement(f"{start} least {_down(least):g} {says}, {wrong}", impossible=True)
    lacking = _down(1 - most)
    if not lacking > 0:
        return None
    start = f"{start} most {1 - lacking:g} {says}"
    if at_ceiling:
        but = f"although no ratio exceeds {level_text(level)}"
        return Disagreement(f"{start}, {but}, {wrong}", impossible=True)
    return Disagreement(
        f"{start}. So at least {lacking:g} of the target's mass is where q(x) = 0 or P(x)/q(x) is "
        f"above {level_text(level)}, and no draw was there: the proposal does not reach all of "
        "the target, or has too light a tail (or the Z that the target declares is wrong). TVD, "
        "KL, truncated mass and the moments leave that mass out: where q(x) = 0, TVD is at least "
        f"{lacking:g} at every beta. Mix in a proposal that reaches the target (qr.Mixture).",
        impossible=False,
    )


def _down(share: float) -> float:
    # "At least" is then true of what is said.
    return math.floor(share / ROUNDING) * ROUNDING
