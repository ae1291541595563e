"""A certificate: the estimates at one beta, and what is wrong with them; and checks of moments."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from quasir.core.arguments import exp_or_inf
from quasir.core.formatting import html_table, level_text, short_repr, tail_text, wrapped
from quasir.errors import InputError
from quasir.estimation.estimate import Estimate, Key, Moment
from quasir.estimation.guarantee import Guarantee
from quasir.estimation.quantities import QUANTITIES, Estimated, title_of

if TYPE_CHECKING:
    from quasir.certificates.curve import Curve

NOT_IID = (
    "Samples that come from the draws that chose beta are not exactly i.i.d. from p_beta: if the "
    "draws lack a rare item with a large ratio, the choice does not allow for it, and the samples "
    "lack it too. New draws at this beta (another seed, --beta) are i.i.d. from p_beta."
)


@dataclass(frozen=True)
class Choice:
    """The request by which the draws chose a beta: `name`, such as ``tvd``, is to be `wanted`.

    Where `guaranteed`, what was asked for is guaranteed at that beta; else its estimate decided.

    Examples
    --------
    >>> import quasir as qr
    >>> base = qr.Table({"she": 0.1, "he": 0.9})
    >>> draws = qr.draw(base * qr.tilt(qr.features.female, 1.0), base, 10_000, seed=0)
    >>> qr.tradeoff(draws).at(tvd=0.1, confidence=0.95).choice
    Choice(name='tvd', wanted=0.1, guaranteed=True)
    """

    name: str
    wanted: float
    guaranteed: bool

    def covers(self, quantity: str) -> bool:
        """Return whether the guarantee about a quantity holds for the chosen beta."""
        return self.guaranteed and quantity == self.name

    @property
    def note(self) -> str:
        """What the choice means for samples from the same draws."""
        return f"The draws chose this beta, by {self.name} = {self.wanted:g}. {NOT_IID}"


@dataclass(frozen=True, kw_only=True)
class Certificate(Estimated):
    """What QRS costs and gives at one beta, by importance sampling from the draws.

    Every quantity of `quasir.estimation.quantities` is an attribute: `acceptance_rate`, `tvd`,
    `tvd_bound`, `kl`, `log_z`, `log_z_beta`, and `kl_base` (None where no base is known). Each is
    an `Estimate` with ``.value``, ``.se``, ``.low`` and ``.high`` (95 %).

    Attributes
    ----------
    name : str
        The distribution that is certified: ``p_beta``, or a limit of it, ``q`` or ``q_proj``.
    log_beta : float
        The level; -inf for q and q_proj, the limits beta -> 0.
    n : int
        Draws behind the estimates.
    estimates : dict of Estimate
        Keyed by the name of the quantity, or by `Moment` for the mean of a feature.
    ess : float
        Kish's effective sample size of the ratios: how many draws from p these are worth.
    pareto_k : float
        Shape of the ratios' tail; above 0.7 no estimate should be trusted.
    warnings : tuple of str
        What is wrong with these estimates, in words. Empty is good.
    guarantee : Guarantee or None
        Anytime-valid upper confidence bounds (a confidence sequence, by betting): they hold with
        the stated confidence at any number of draws (docs/records/proofs.md). None for q.
    cost : tuple (str, Estimate) or None
        Where beta was chosen by an estimate: the request, such as ``tvd = 0.1``, and the acceptance
        rate at the beta that truly meets it.
    choice : Choice or None
        Where the draws chose beta: by which request. Their samples are then not exactly i.i.d.

    Notes
    -----
    Z, Z_beta and the acceptance rate are unbiased; TVD, KL, the bound and the moments are
    self-normalised, with a bias of order 1/N. All are restricted to the support of q: draws from
    q cannot show the mass that p has outside it (`eq:qrs_conv_in_the_limit_generalized`).

    Examples
    --------
    >>> import quasir as qr
    >>> from scipy import stats
    >>> p, q = qr.from_scipy(stats.poisson(11)), qr.from_scipy(stats.poisson(10))
    >>> cert = qr.tradeoff(qr.draw(p, q, 100_000, seed=0)).at(beta=2.0)
    >>> bool(cert.acceptance_rate.low < 0.498182 < cert.acceptance_rate.high), cert.warnings
    (True, ())
    """

    name: str
    log_beta: float
    n: int
    estimates: Mapping[Key, Estimate]
    ess: float
    pareto_k: float
    warnings: tuple[str, ...] = ()
    guarantee: Guarantee | None = None
    cost: tuple[str, Estimate] | None = None
    choice: Choice | None = None

    @property
    def beta(self) -> float:
        """The level beta; if it is out of a float's range, see `log_beta`."""
        return exp_or_inf(self.log_beta)

    @property
    def z(self) -> Estimate:
        """Z, Eq. 5; if it is out of a float's range, see `log_z`."""
        return _exp(self.log_z)

    @property
    def z_beta(self) -> Estimate:
        """Z_beta, Eq. 6 (`eq:zeta_beta`); if it is out of range, see `log_z_beta`."""
        return _exp(self.log_z_beta)

    def estimate(self, name: str) -> Estimate:
        """Return an estimate by its name: a quantity, ``moment:FEATURE``, or a feature."""
        by_name = {str(key): part for key, part in self.estimates.items()}
        known = {**self.moments, **by_name}
        if not isinstance(name, str) or name not in known:
            raise InputError(f"no estimate {short_repr(name)}: there are {', '.join(by_name)}.")
        return known[name]

    def with_warnings(self, *warnings: str) -> Certificate:
        """Return the same certificate with more warnings."""
        return replace(self, warnings=(*self.warnings, *warnings))

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready dictionary; a number that is not finite becomes None."""
        known = {k: e.to_dict() for k, e in self.estimates.items() if isinstance(k, str)}
        for quantity in QUANTITIES.values():
            if quantity.exponential is not None:
                known[quantity.exponential] = getattr(self, quantity.exponential).to_dict()
        return {
            "name": self.name,
            "beta": _finite(self.beta),
            "log_beta": _finite(self.log_beta),
            "n": self.n,
            **known,
            "moments": {name: part.to_dict() for name, part in self.moments.items()},
            "ess": _finite(self.ess),
            "pareto_k": _finite(self.pareto_k),
            "guarantee": self.guarantee and self.guarantee.to_dict(),
            "cost": self.cost and {self.cost[0]: self.cost[1].to_dict()},
            "choice": self.choice and {**asdict(self.choice), "note": self.choice.note},
            "warnings": list(self.warnings),
        }

    def rows(self) -> list[tuple[Key, Estimate]]:
        """Return the estimates that the text of a certificate shows, in order."""
        shown = {key for key, quantity in QUANTITIES.items() if quantity.in_certificate}
        parts = self.estimates.items()
        return [(key, part) for key, part in parts if isinstance(key, Moment) or key in shown]

    def _lines(self) -> list[tuple[str, str]]:
        lines = [(title_of(key), str(part)) for key, part in self.rows()]
        if self.cost is not None:
            request, rate = self.cost
            said = f"{rate.value:.4g} [{rate.low:.4g}, {rate.high:.4g}]"
            lines.insert(1, (f"  where {request}", said))
        if self.guarantee is not None:
            lines.append((f"guaranteed, {self.guarantee.confidence:.4g}", str(self.guarantee)))
        return lines

    def _named(self) -> str:
        level = f" at beta = {level_text(self.log_beta)}" if self.name == "p_beta" else ""
        return f"{self.name}{level}"

    def _title(self) -> str:
        draws = f"{self.n:,} draws (ESS {self.ess:,.0f}, {tail_text(self.pareto_k)})"
        return f"{self._named()}, from {draws}"

    def __repr__(self) -> str:
        found = f"acceptance {self.acceptance_rate.value:.4g}, TVD {self.tvd.value:.4g}"
        if count := len(self.warnings):
            found += f", {count} warning{'s' * (count > 1)}"
        return f"<Certificate of {self._named()}: {found}>"

    def __str__(self) -> str:
        lines = [self._title(), *(f"  {title:<19} {part}" for title, part in self._lines())]
        if self.guarantee is not None:
            lines += wrapped(self.guarantee.basis, "    ", "    ")
        if self.choice is not None:
            lines += wrapped(self.choice.note, "  ", "    ")
        for warning in self.warnings:
            lines += wrapped(f"! {warning}", "  ", "    ")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        notes = [] if self.choice is None else [self.choice.note]
        return html_table(self._title(), None, self._lines(), [*notes, *self.warnings])


def _exp(log: Estimate) -> Estimate:
    value = exp_or_inf(log.value)
    return Estimate(value, value * log.se, exp_or_inf(log.low), exp_or_inf(log.high))


def _finite(x: float) -> float | None:
    return float(x) if math.isfinite(x) else None


MAX_Z = 4.0  # a larger |z| comes by chance once in 16,000 checks, so the two moments disagree


@dataclass(frozen=True, kw_only=True)
class Check:
    """One moment, observed and predicted, each with its standard error.

    Examples
    --------
    >>> from dataclasses import replace
    >>> good = Check(name="female", observed=0.49, observed_se=0.01, predicted=0.50,
    ...              predicted_se=0.01, z=-0.7)
    >>> good.suspicious, replace(good, observed=0.42, z=-5.7).suspicious
    (False, True)
    """

    name: str
    observed: float
    observed_se: float
    predicted: float
    predicted_se: float
    z: float

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready dictionary; a number that is not finite becomes None."""
        return {
            key: value if isinstance(value, str) or math.isfinite(value) else None
            for key, value in asdict(self).items()
        }

    @property
    def suspicious(self) -> bool:
        """Whether the two moments disagree by more than chance explains."""
        return abs(self.z) > MAX_Z


@dataclass(frozen=True, kw_only=True)
class WantedMoment:
    """A wanted moment, and the moments that the target and p_beta have."""

    name: str  # of the feature
    moment: float
    target: Estimate  # the moment of p itself: at the largest ratio no ratio is cut
    at_beta: Estimate  # the moment of p_beta
    # The distance of p_beta from p, which the moment of a boolean feature cannot differ by more
    # than; None for other features, whose moment it does not bound.
    tvd: Estimate | None  # of p_beta, by which a boolean feature's moment differs at most

    @property
    def z(self) -> float:
        """The target's moment less the constraint, in standard errors; NaN if it is not known."""
        difference, se = float(self.target.value) - self.moment, float(self.target.se)
        if abs(difference) <= 1e-9 * max(1.0, abs(self.moment)):
            return 0.0
        return difference / se if se else math.copysign(math.inf, difference)

    @property
    def warning(self) -> str | None:
        """The warning that the target itself misses the constraint, or None."""
        if not abs(self.z) > MAX_Z:
            return None
        far = f"{abs(self.z):.1f} of its standard errors away" if self.target.se else "exactly"
        return (
            f"{self.name} should have a mean of {self.moment:g}, but the target itself has "
            f"{self.target.value:.4g} ± {self.target.se:.2g} ({far}): even exact samples of this "
            "target miss the constraint. Fit lambda on more draws, or check a given lambda."
        )


def wanted_moments(
    curve: Curve,
    certificate: Certificate,
    constraints: Mapping[str, float],
    boolean: Collection[str] = (),
) -> tuple[WantedMoment, ...]:
    """Compare each constraint with the target's moment on the curve's draws."""
    if not curve.n_possible:
        return ()
    exact = curve.at(log_beta=curve.tail.log_max).moments
    return tuple(
        WantedMoment(
            name=name,
            moment=float(moment),
            target=exact[name],
            at_beta=certificate.moments[name],
            tvd=certificate.tvd if name in boolean else None,
        )
        for name, moment in constraints.items()
        if name in exact and name in certificate.moments
    )
