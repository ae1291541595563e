"""Numbers and estimates in words that need no legend; never a bare 0 for an unknown."""

from __future__ import annotations

import math
from dataclasses import dataclass

from quasir.core.formatting import level_text
from quasir.estimation.estimate import Estimate

__all__ = ["Phrase", "beta_text", "number_text", "phrase", "rate_phrase"]

MINUS, TIMES = "\N{MINUS SIGN}", "\N{MULTIPLICATION SIGN}"
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Phrase:
    """A text to print large, `main`, and a text to print after it, `rest`."""

    main: str
    rest: str = ""

    def __str__(self) -> str:
        return f"{self.main} ({self.rest})" if self.rest else self.main


def number_text(x: float, digits: int = 3) -> str:
    """Return a number with this many significant digits.

    Examples
    --------
    >>> number_text(0.01), number_text(12345.6)
    ('0.0100', '12,300')
    """
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


def beta_text(log_beta: float) -> str:
    """Return e^log_beta as text, also where it is too large or small for a float.

    Examples
    --------
    >>> beta_text(0.5), beta_text(800)
    ('1.649', 'e^800')
    """
    if -690 < log_beta < 700:
        return number_text(math.exp(log_beta), 4)
    return level_text(log_beta)


def phrase(part: Estimate) -> Phrase:
    """Return an estimate with its 95 % interval, or a bound where the value is unknown.

    Examples
    --------
    >>> print(phrase(Estimate(0.0035, 0.0001, 0.0033, 0.0037)))
    0.00350 (0.00330 to 0.00370)
    >>> print(phrase(Estimate(0.0, math.nan, 0.0, 0.002)))
    at most 0.00200 (0 on these draws)
    >>> print(phrase(Estimate(0.01, math.nan, 0.005, 0.02)))  # of contexts, one at 0
    0.0100 (on these draws; 0.00500 to 0.0200)
    >>> print(phrase(Estimate(math.nan, math.nan, 0.0, math.inf)))
    unknown
    """
    if not math.isfinite(part.value):
        both = math.isfinite(part.low) and math.isfinite(part.high)
        return Phrase("unknown", f"between {_ends(part, ' and ')}" if both else "")
    if math.isnan(part.se) and part.value > 0:
        return Phrase(number_text(part.value), f"on these draws; {_ends(part, ' to ')}")
    if math.isnan(part.se):
        if math.isfinite(part.high):
            return Phrase(f"at most {number_text(part.high)}", "0 on these draws")
        return Phrase("unknown", "0 on these draws, which cannot bound it")
    if not math.isfinite(part.high):
        return Phrase(number_text(part.value), f"at least {number_text(part.low)}")
    return Phrase(number_text(part.value), _ends(part, " to "))


def rate_phrase(rate: Estimate) -> Phrase:
    """Return an acceptance rate as "1 in n proposals".

    Examples
    --------
    >>> print(rate_phrase(Estimate(0.25, 0.01, 0.23, 0.27)))
    1 in 4.00 proposals (rate 0.250, 0.230 to 0.270)
    >>> print(rate_phrase(Estimate(0.0, math.nan, 0.0, 0.004)))
    fewer than 1 in 250 proposals (none was seen)
    """
    if not rate.value > 0:
        if rate.high > 0:
            return Phrase(f"fewer than 1 in {_count(1 / rate.high)} proposals", "none was seen")
        return Phrase("unknown")
    said = phrase(rate)
    rest = f"rate {said.main}, {said.rest}" if said.rest else f"rate {said.main}"
    return Phrase(f"1 in {_count(1 / rate.value)} proposals", rest)


def _count(x: float) -> str:
    return "1" if x == 1 else number_text(x)


def _ends(part: Estimate, between: str) -> str:
    return number_text(part.low) + between + number_text(part.high)
