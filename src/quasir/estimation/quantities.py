"""The estimated quantities: one list for intervals, certificates, tables, figures and the page.

To add one, declare it here and write its formula in `quasir.estimation.formulas`. With an `Option`
beta can be chosen by it; what is `guaranteed` has a bet in `betting.Bet`, and a row in `Guarantee`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

from quasir.core.arguments import LARGEST_LOG
from quasir.estimation.estimate import Estimate, Key, Moment


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
class Option:
    """A way to choose beta: what help says of it, what a recipe asks for by it, and its range."""

    help: str
    asks: str
    low: float = 0.0
    high: float = 1.0
    excludes_low: bool = False


@dataclass(frozen=True, kw_only=True)
class Quantity:
    """A quantity that is estimated at every beta."""

    name: str  # its attribute of curves and certificates, column of the CSV and key of the JSON
    title: str  # its name in the text of a certificate
    meaning: str  # what it is, in a few words
    heading: str = ""  # its name on the page, if not its title
    low: float = 0.0  # its range
    high: float = 1.0
    interval: Interval = Interval.NORMAL
    beyond: str | None = None  # the field of `Beyond` that approximates it, in units of Z, far out
    upper: str | None = None  # the field of `Beyond` that bounds it where no draw lies above beta
    zero_if_flat: bool = False  # whether it is 0 where all ratios are equal, whatever beta is
    option: Option | None = None  # how beta is chosen by it, if it can be
    guaranteed: bool = False  # whether a ceiling bounds it: beta can be chosen with a confidence
    column: str | None = None  # its heading in the short table, if that has it
    line: Line | None = None  # its line in the figures
    of_base: bool = False  # whether it needs log a(x) of a base
    in_certificate: bool = True  # whether the text of a certificate has a row for it
    exponential: str | None = None  # for log z: the name of z


_LIST = (
    Quantity(  # AR, Eq. 2 (`eq:ar`)
        name="acceptance_rate",
        title="acceptance rate",
        heading="Accepted",
        meaning="what a sample costs",
        interval=Interval.RATE,
        option=Option(
            help="Share of proposals to accept.",
            asks="an acceptance rate of {:g}, at the best quality",
            excludes_low=True,
        ),
        column="acceptance",
    ),
    Quantity(  # TVD(p, p_beta), Eq. 9 (`eq:qrs_tvd`)
        name="tvd",
        title="TVD to the target",
        meaning="0 is exact, 1 nothing in common",
        interval=Interval.TAIL,
        beyond="excess",
        # TVD is at most the bound (Eq. 3), so the bound's upper end serves for it too.
        upper="mass",
        zero_if_flat=True,
        option=Option(
            help="Total variation distance, at most.",
            asks="a total variation distance of at most {:g}, at the lowest cost",
        ),
        guaranteed=True,
        column="TVD",
        line=Line("tvd", "TVD"),
    ),
    Quantity(  # not in the paper: TVD <= 1 - Z_beta/Z <= 1 - p(A_beta)
        name="truncated_mass",
        title="  truncated mass",
        heading="Truncated mass",
        meaning="TVD is at most this",
        interval=Interval.TAIL,
        beyond="excess",
        upper="mass",
        option=Option(
            help="Share of the target's mass above beta q, at most; TVD is no larger.",
            asks="a share of at most {:g} of the target's mass above beta q, at the lowest cost",
        ),
        guaranteed=True,
    ),
    Quantity(  # 1 - p(A_beta), Eqs. 3 and 7 (`eq:qrs_upper_bound`, `eq:p_A_beta`): an estimate
        name="tvd_bound",
        title="  at most (bound)",
        heading="TVD bound",
        meaning="TVD is at most this",
        interval=Interval.TAIL,
        beyond="mass",
        upper="mass",
        option=Option(
            help="The paper's bound on TVD, an estimate, at most.",
            asks="a bound on the total variation distance of at most {:g}",
        ),
        column="TVD bound",
        line=Line("tvd", "upper bound"),
    ),
    Quantity(  # KL(p, p_beta), Eq. 10 (`eq:qrs_kl`)
        name="kl",
        title="KL to the target",
        meaning="in nats; 0 is exact",
        high=math.inf,
        interval=Interval.TAIL,
        beyond="log_excess",
        upper="log_excess",
        zero_if_flat=True,
        option=Option(
            help="KL divergence in nats, at most.",
            asks="a KL divergence of at most {:g} nats, at the lowest cost",
            high=math.inf,
        ),
        guaranteed=True,
        column="KL",
        line=Line("kl", "KL"),
    ),
    Quantity(  # Eq. 5
        name="log_z",
        title="log Z",
        meaning="log of the target's partition function",
        low=-math.inf,
        high=math.inf,
        interval=Interval.LOG_Z,
        in_certificate=False,
        exponential="z",
    ),
    Quantity(  # Eq. 6 (`eq:zeta_beta`)
        name="log_z_beta",
        title="log Z_beta",
        meaning="log of the partition function of P_beta",
        low=-math.inf,
        high=math.inf,
        in_certificate=False,
        exponential="z_beta",
    ),
    Quantity(  # KL(p_beta, a), appendix C (`eq:qrs_kl_a`)
        name="kl_base",
        title="KL from the base",
        meaning="in nats; what the constraint changes",
        high=math.inf,
        line=Line("kl_base", "KL from the base"),
        of_base=True,
    ),
)

QUANTITIES: dict[str, Quantity] = {quantity.name: quantity for quantity in _LIST}
"""Name -> quantity, in the order in which they are shown."""

GUARANTEED = tuple(quantity.name for quantity in _LIST if quantity.guaranteed)
"""The quantities that can be guaranteed: an upper bound by betting is known for them."""

OPTIONS: dict[str, Option] = {
    **{quantity.name: quantity.option for quantity in _LIST if quantity.option is not None},
    "beta": Option(
        help="The level beta itself.", asks="the value {:g}", high=math.inf, excludes_low=True
    ),
    "log_beta": Option(
        help="The logarithm of beta.", asks="the value e^{:g}", low=-LARGEST_LOG, high=LARGEST_LOG
    ),
}
"""Name -> the ways to choose beta."""


class Estimated:
    """Estimates by key; every quantity is an attribute, None where it is not estimated."""

    estimates: Mapping[Key, Estimate]

    def __getattr__(self, name: str) -> Any:
        if name not in QUANTITIES:
            raise AttributeError(f"there is no {name!r}: there are {', '.join(QUANTITIES)}")
        return self.estimates.get(name)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *QUANTITIES]

    @property
    def moments(self) -> dict[str, Estimate]:
        """The mean of each feature under p_beta, Eq. 8 (`eq:qrs_moment`)."""
        return {key.feature: e for key, e in self.estimates.items() if isinstance(key, Moment)}


def title_of(key: Key) -> str:
    """Return the name of an estimate in a certificate."""
    return f"mean of {key.feature}" if isinstance(key, Moment) else QUANTITIES[key].title


def heading_of(key: Key) -> str:
    """Return the name of an estimate on the page."""
    if isinstance(key, Moment):
        return f"Mean of {key.feature}"
    return QUANTITIES[key].heading or QUANTITIES[key].title


def meaning_of(key: Key) -> str:
    """Return the meaning of an estimate, in a few words."""
    return "over the samples" if isinstance(key, Moment) else QUANTITIES[key].meaning
