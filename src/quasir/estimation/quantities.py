"""The estimated quantities: one list for intervals, certificates, tables, figures and the page.

To add a quantity, declare it here and write its formula in `quasir.estimation.formulas`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Self, TypeAlias

from quasir.core.arguments import show
from quasir.errors import InputError

__all__ = [
    "QUANTITIES",
    "WISHES",
    "Interval",
    "Key",
    "Moment",
    "Quantity",
    "heading_of",
    "meaning_of",
    "title_of",
]


class Interval(Enum):
    """How a 95 % interval is made (`quasir.estimation.intervals`)."""

    RATE = "on the log scale, within (0, 1]"
    TAIL = "on the log scale, with an upper end that allows for an unseen tail"
    LOG_Z = "normal, with an upper end computed on the draws with one more added"
    NORMAL = "normal, within the quantity's range"


class Line(NamedTuple):
    """A line of a figure: its panel, and its label in the legend."""

    panel: str
    label: str


@dataclass(frozen=True, kw_only=True)
class Quantity:
    """A quantity that is estimated at every beta.

    Attributes
    ----------
    name : str
        Its attribute of curves and certificates, column of the CSV and key of the JSON.
    symbol : str
        Its symbol in the paper.
    title, heading : str
        Its name in the text of a certificate, and on the page.
    meaning : str
        What it is, in a few words.
    equation : str
        Its equation in the paper.
    low, high : float
        Its range.
    interval : Interval
        How its interval is made.
    beyond : str or None
        The field of `Beyond` that approximates it, in units of Z, at betas far in the tail.
    upper : str or None
        The field of `Beyond` that bounds it where no draw lies above beta.
    zero_if_flat : bool
        Whether it is 0 where all ratios are equal, whatever beta is.
    wish : bool
        Whether `Curve.at` can choose beta by it.
    column : str or None
        Its heading in the short table, or None if the table leaves it out.
    line : Line or None
        Its line in the figures.
    of_base : bool
        Whether it needs log a(x) of a base.
    in_certificate : bool
        Whether the text of a certificate has a row for it.
    exponential : str or None
        For log z: the name of z.
    """

    name: str
    symbol: str
    title: str
    heading: str
    meaning: str
    equation: str
    low: float
    high: float
    interval: Interval
    beyond: str | None = None
    upper: str | None = None
    zero_if_flat: bool = False
    wish: bool = False
    column: str | None = None
    line: Line | None = None
    of_base: bool = False
    in_certificate: bool = True
    exponential: str | None = None


class _Named(NamedTuple):
    feature: str


class Moment(_Named):
    """The mean of a feature under p_beta, Eq. 8 (`eq:qrs_moment`), as a key among estimates.

    Examples
    --------
    >>> str(Moment("female"))
    'moment:female'
    """

    __slots__ = ()

    def __new__(cls, feature: str) -> Self:
        """Take the name of a feature."""
        if not isinstance(feature, str):
            raise InputError(
                f"a moment is of a feature's name, a string, not of {show(feature)}: for a "
                "Feature, give its .name."
            )
        return super().__new__(cls, feature)

    def __str__(self) -> str:
        return f"moment:{self.feature}"


Key: TypeAlias = str | Moment
"""The key of an estimate: a quantity's name, or the moment of a feature."""

_LIST = (
    Quantity(
        name="acceptance_rate",
        symbol="AR",
        title="acceptance rate",
        heading="Accepted",
        meaning="what a sample costs",
        equation="Eq. 2 (`eq:ar`)",
        low=0.0,
        high=1.0,
        interval=Interval.RATE,
        wish=True,
        column="acceptance",
    ),
    Quantity(
        name="tvd",
        symbol="TVD(p, p_β)",
        title="TVD to the target",
        heading="TVD to the target",
        meaning="0 is exact, 1 nothing in common",
        equation="Eq. 9 (`eq:qrs_tvd`)",
        low=0.0,
        high=1.0,
        interval=Interval.TAIL,
        beyond="excess",
        # TVD is at most the bound (Eq. 3), so the bound's upper end serves for it too.
        upper="mass",
        zero_if_flat=True,
        wish=True,
        column="TVD",
        line=Line("tvd", "TVD"),
    ),
    Quantity(
        name="lost",
        symbol="1 - Z_β/Z",
        title="  at most (lost)",
        heading="Mass lost",
        meaning="TVD is at most this",
        equation="not in the paper: TVD <= 1 - Z_beta/Z <= 1 - p(A_beta)",
        low=0.0,
        high=1.0,
        interval=Interval.TAIL,
        beyond="excess",
        upper="mass",
    ),
    Quantity(
        name="tvd_bound",
        symbol="1 - p(A_β)",
        title="  at most (bound)",
        heading="TVD bound",
        meaning="TVD is at most this",
        equation="Eqs. 3 and 7 (`eq:qrs_upper_bound`, `eq:p_A_beta`)",
        low=0.0,
        high=1.0,
        interval=Interval.TAIL,
        beyond="mass",
        upper="mass",
        wish=True,
        column="TVD bound",
        line=Line("tvd", "upper bound"),
    ),
    Quantity(
        name="kl",
        symbol="KL(p, p_β)",
        title="KL to the target",
        heading="KL to the target",
        meaning="in nats; 0 is exact",
        equation="Eq. 10 (`eq:qrs_kl`)",
        low=0.0,
        high=math.inf,
        interval=Interval.TAIL,
        beyond="log_excess",
        upper="log_excess",
        zero_if_flat=True,
        wish=True,
        column="KL",
        line=Line("kl", "KL"),
    ),
    Quantity(
        name="log_z",
        symbol="log Z",
        title="log Z",
        heading="log Z",
        meaning="log of the target's partition function",
        equation="Eq. 5",
        low=-math.inf,
        high=math.inf,
        interval=Interval.LOG_Z,
        in_certificate=False,
        exponential="z",
    ),
    Quantity(
        name="log_z_beta",
        symbol="log Z_β",
        title="log Z_beta",
        heading="log Z_beta",
        meaning="log of the partition function of P_beta",
        equation="Eq. 6 (`eq:zeta_beta`)",
        low=-math.inf,
        high=math.inf,
        interval=Interval.NORMAL,
        in_certificate=False,
        exponential="z_beta",
    ),
    Quantity(
        name="kl_base",
        symbol="KL(p_β, a)",
        title="KL from the base",
        heading="KL from the base",
        meaning="in nats; what the wish changes",
        equation="appendix C (`eq:qrs_kl_a`)",
        low=0.0,
        high=math.inf,
        interval=Interval.NORMAL,
        line=Line("kl_base", "KL from the base"),
        of_base=True,
    ),
)

QUANTITIES: dict[str, Quantity] = {quantity.name: quantity for quantity in _LIST}
"""Name -> quantity, in the order in which they are shown."""

WISHES = tuple(quantity.name for quantity in _LIST if quantity.wish)
"""The quantities that beta can be chosen by."""


def title_of(key: Key) -> str:
    """Return the name of an estimate in a certificate."""
    return f"mean of {key.feature}" if isinstance(key, Moment) else QUANTITIES[key].title


def heading_of(key: Key) -> str:
    """Return the name of an estimate on the page."""
    return f"Mean of {key.feature}" if isinstance(key, Moment) else QUANTITIES[key].heading


def meaning_of(key: Key) -> str:
    """Return the meaning of an estimate, in a few words."""
    return "over the samples" if isinstance(key, Moment) else QUANTITIES[key].meaning
