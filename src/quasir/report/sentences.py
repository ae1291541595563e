"""Numbers, estimates, constraints and guarantees in words; never a bare 0 for an unknown."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from quasir.core.formatting import level_text, rounded_down, rounded_up
from quasir.estimation.estimate import Estimate

if TYPE_CHECKING:
    from quasir.certificates.certificate import Certificate, Check, WantedMoment
    from quasir.certificates.curve import Curve

MINUS, TIMES = "\N{MINUS SIGN}", "\N{MULTIPLICATION SIGN}"
LITTLE = 1.5  # exact samples are suggested where they take at most so many times the proposals
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Phrase:
    """A text to print large, `main`, and a text to print after it, `rest`."""

    main: str
    rest: str = ""

    def __str__(self) -> str:
        return f"{self.main} ({self.rest})" if self.rest else self.main


def number_text(x: float, digits: int = 3) -> str:
    """Return a number with this many significant digits."""
    if not math.isfinite(x):
        return "unknown" if math.isnan(x) else f"{MINUS}∞" if x < 0 else "∞"
    sign, rounded = MINUS if x < 0 else "", float(f"{abs(x):.{digits - 1}e}")
    if rounded == 0:
        return "0"
    if 1e-4 <= rounded < 1e6:
        text = f"{rounded:,.0f}" if rounded >= 1000 else f"{rounded:#.{digits}g}".rstrip(".")
        return sign + text
    mantissa, exponent = f"{rounded:.{digits - 1}e}".split("e")
    return f"{sign}{mantissa} {TIMES} 10{str(int(exponent)).translate(_SUPERSCRIPTS)}"


def short_text(x: float) -> str:
    """Return a number with up to three digits, without zeros at its end."""
    return f"{x:.3g}" if 1e-4 <= abs(x) < 1000 else number_text(x)


def beta_text(log_beta: float) -> str:
    """Return e^log_beta as text, also where it is too large or small for a float."""
    if -690 < log_beta < 700:
        return number_text(math.exp(log_beta), 4)
    return level_text(log_beta)


def phrase(part: Estimate) -> Phrase:
    """Return an estimate with its 95 % interval, or a bound where the value is unknown."""
    if not math.isfinite(part.value):
        both = math.isfinite(part.low) and math.isfinite(part.high)
        return Phrase("unknown", f"between {_ends(part, ' and ')}" if both else "")
    if math.isnan(part.se) and part.value > 0:
        return Phrase(number_text(part.value), f"on these draws; {_ends(part, ' to ')}")
    if math.isnan(part.se):
        if math.isfinite(part.high):
            return Phrase(f"at most {number_text(rounded_up(part.high))}", "0 on these draws")
        return Phrase("unknown", "0 on these draws, which cannot bound it")
    if not math.isfinite(part.high):
        return Phrase(number_text(part.value), f"at least {number_text(rounded_down(part.low))}")
    return Phrase(number_text(part.value), _ends(part, " to "))


def rate_phrase(rate: Estimate) -> Phrase:
    """Return an acceptance rate as "1 in n proposals"."""
    if not rate.value > 0:
        if rate.high > 0:
            return Phrase(
                f"fewer than 1 in {_count(rounded_down(1 / rate.high))} proposals", "none was seen"
            )
        return Phrase("unknown")
    said = phrase(rate)
    rest = f"rate {said.main}, {said.rest}" if said.rest else f"rate {said.main}"
    return Phrase(f"1 in {_count(1 / rate.value)} proposals", rest)


def _count(x: float) -> str:
    return "1" if x == 1 else number_text(x)


def _ends(part: Estimate, between: str) -> str:
    return number_text(part.low) + between + number_text(part.high)


def constraint_sentences(wanted: WantedMoment, observed: Check | None = None) -> list[str]:
    """Return the sentences about one constraint, from the constraint to the samples."""
    said = [
        f"Wanted: a mean of {number_text(wanted.moment)}.",
        f"The target has {_with_error(wanted.target)}"
        + (", which is not what was wanted." if wanted.warning is not None else "."),
    ]
    at_beta = _with_error(wanted.at_beta)
    if wanted.tvd is None:
        said.append(
            f"At the chosen β the mean is {at_beta}; TVD does not bound how far the mean of a "
            "number may differ from the target's."
        )
    elif math.isnan(wanted.tvd.se):
        # TVD was 0 on these draws: only its upper end is known.
        said.append(
            f"At the chosen β the mean may differ from the target's by at most TVD, which is below "
            f"{number_text(wanted.tvd.high)}; it is {at_beta}."
        )
    else:
        tvd = wanted.tvd
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


def expectations(wanted: Sequence[WantedMoment]) -> list[str]:
    """Return what was asked for in the mean, and what to expect instead; for all texts, nothing."""
    said = []
    for one in wanted:
        expected = one.at_beta.value
        if not math.isfinite(expected) or (expected == one.moment and one.moment in (0, 1)):
            continue
        if one.tvd is None:
            asked, mean = number_text(one.moment), number_text(expected)
            said.append(f"You asked for a mean {one.name} of {asked}; expect {mean}.")
        else:
            asked, share = f"{100 * one.moment:.3g} %", f"{100 * expected:.3g} %"
            said.append(f"You asked for {asked} {one.name}; expect {share}.")
    return said


def exactness_sentence(curve: Curve, certificate: Certificate) -> str | None:
    """Return what exact samples cost, where that is little; None if it is much, or not known."""
    if certificate.guarantee is None or certificate.guarantee.tvd == 0:
        return None
    if not curve.tail.log_ceiling < math.inf or not curve.n_possible:
        return None
    exact = curve.at(tvd=0)
    rates = certificate.acceptance_rate.value, exact.acceptance_rate.value
    if exact.guarantee is None or exact.guarantee.tvd != 0 or not min(rates) > 0:
        return None
    if rates[0] > LITTLE * rates[1]:
        return None
    now, then = (number_text(1 / float(rate), 2) for rate in rates)
    more, rest = ("nothing", "") if now == then else ("little", f" instead of {now}")
    return f"Exact samples cost {more} more here: {then} proposals per sample{rest}."


def guarantee_sentences(certificate: Certificate) -> tuple[str, list[str]]:
    """Return the headline, and the sentences below it."""
    guarantee, choice = certificate.guarantee, certificate.choice
    chosen = [] if choice is None else [choice.note]
    if guarantee is None or guarantee.tvd is None or guarantee.tvd >= 1:
        why = [] if guarantee is None else [guarantee.basis]
        return "Nothing is guaranteed; the figures below are estimates.", [*why, *chosen]
    if guarantee.tvd == 0:
        return "These are perfect samples of what was asked for.", [
            "No ratio can exceed the chosen β, so rejection sampling is exact (TVD is 0).",
            guarantee.basis,
            *chosen,
        ]
    sure, most = f"{100 * guarantee.confidence:.4g} %", rounded_up(guarantee.tvd)
    covered = choice is None or choice.covers("tvd")
    if covered:
        right = (
            "This is a guarantee, not an estimate: made in this way, it is right in at least "
            f"{sure} of all runs, however many draws there are and however often you look."
        )
    else:
        right = (
            f"For a β that was fixed in advance this is right in at least {sure} of all runs. Here "
            "the draws chose β, so it is right less often."
        )
    more = [
        f"Exchange at most this share of the samples, {short_text(most)}, and they are exactly "
        "what was asked for: that is what a total variation distance (TVD) means.",
        right,
        guarantee.basis,
        *chosen,
    ]
    headline = (
        f"TVD to the target is at most {short_text(most)} ({sure} confidence"
        f"{'' if covered else ', for a β fixed in advance'}): no property's frequency is off by "
        f"more than {short_text(100 * most)} percentage points."
    )
    return headline, more
