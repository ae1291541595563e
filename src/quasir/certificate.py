"""A certificate: the estimates at one beta, their uncertainty, and what is wrong with them."""

from __future__ import annotations

import html
import math
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from quasir.estimate import Estimate
from quasir.tail import Tail

__all__ = ["Certificate", "Evidence", "doubts_about", "level_text", "tail_text"]

MIN_ESS = 100
"""Below this many effective draws even a mean is a guess: its relative error is above 10 %."""
MAX_PARETO_K = 0.7
"""Above this shape importance sampling converges too slowly to trust (Vehtari et al. 2024)."""
MIN_ACCEPTED = 100
"""Fewer accepted draws than this give a moment to no better than 5 points in 100."""
MIN_ABOVE = 20
"""Where fewer draws than this lie above beta, what they are decides TVD, KL and the bound."""


@dataclass(frozen=True)
class Certificate:
    """What QRS costs and gives at one beta, by importance sampling from the draws.

    Every estimate has ``.value``, ``.se``, ``.low`` and ``.high`` (95 %).

    Attributes
    ----------
    name : str
        What is certified: ``p_beta``, or ``q`` or ``q_proj`` for the proposals themselves.
    log_beta : float
        The level; -inf for q and q_proj, the limit beta -> 0.
    n : int
        Draws behind the estimates.
    acceptance_rate : Estimate
        Share of proposals that are accepted, Eq. 2 (`eq:ar`).
    tvd, kl : Estimate
        TVD(p, p_beta), Eq. 9 (`eq:qrs_tvd`), and KL(p, p_beta), Eq. 10 (`eq:qrs_kl`), in nats.
    tvd_bound : Estimate
        1 - p(A_beta), which bounds TVD: Eq. 3 (`eq:qrs_upper_bound`) by Eq. 7 (`eq:p_A_beta`).
    log_z, log_z_beta : Estimate
        Logs of the partition functions of P and of P_beta, Eqs. 5 and 6.
    kl_base : Estimate or None
        KL(p_beta, a) to the base model, appendix C (`eq:qrs_kl_a`), where log_base is known.
    moments : dict of Estimate
        Mean of each feature under p_beta, Eq. 8 (`eq:qrs_moment`).
    ess : float
        Kish's effective sample size of the ratios: how many draws from p these are worth.
    pareto_k : float
        Shape of the ratios' tail; above 0.7 no estimate is to be trusted.
    doubts : list of str
        What is wrong with these estimates, in words. Empty is good.

    Notes
    -----
    Z, Z_beta and the acceptance rate are unbiased; TVD, KL, the bound and the moments are
    self-normalised, with a bias of order 1/N. All speak of the support of q: the mass that p
    has where q has none cannot be seen in draws from q.
    """

    name: str
    log_beta: float
    n: int
    acceptance_rate: Estimate
    tvd: Estimate
    tvd_bound: Estimate
    kl: Estimate
    log_z: Estimate
    log_z_beta: Estimate
    kl_base: Estimate | None
    moments: Mapping[str, Estimate]
    ess: float
    pareto_k: float
    doubts: list[str] = field(default_factory=list)

    @property
    def beta(self) -> float:
        """The level beta; where it is out of a float's range, see `log_beta`."""
        return _exp(self.log_beta)

    @property
    def z(self) -> Estimate:
        """Z, Eq. 5; where it is out of a float's range, see `log_z`."""
        return _exp_estimate(self.log_z)

    @property
    def z_beta(self) -> Estimate:
        """Z_beta, Eq. 6 (`eq:zeta_beta`); where it is out of range, see `log_z_beta`."""
        return _exp_estimate(self.log_z_beta)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready dictionary; what is not finite is None."""
        return {
            "name": self.name,
            "beta": _finite(self.beta),
            "log_beta": _finite(self.log_beta),
            "n": self.n,
            **{name: part.to_dict() for name, part in self._parts().items()},
            "moments": {name: part.to_dict() for name, part in self.moments.items()},
            "ess": _finite(self.ess),
            "pareto_k": _finite(self.pareto_k),
            "doubts": list(self.doubts),
        }

    def _parts(self) -> dict[str, Estimate]:
        parts = {
            "acceptance_rate": self.acceptance_rate,
            "tvd": self.tvd,
            "tvd_bound": self.tvd_bound,
            "kl": self.kl,
            "z": self.z,
            "z_beta": self.z_beta,
            "log_z": self.log_z,
            "log_z_beta": self.log_z_beta,
        }
        if self.kl_base is not None:
            parts["kl_base"] = self.kl_base
        return parts

    def _rows(self) -> list[tuple[str, Estimate]]:
        rows = [
            ("acceptance rate", self.acceptance_rate),
            ("TVD to the target", self.tvd),
            ("  at most (bound)", self.tvd_bound),
            ("KL to the target", self.kl),
        ]
        if self.kl_base is not None:
            rows.append(("KL from the base", self.kl_base))
        return rows + [(f"mean of {name}", part) for name, part in self.moments.items()]

    def _title(self) -> str:
        level = f" at beta = {level_text(self.log_beta)}" if self.name == "p_beta" else ""
        tail = tail_text(self.pareto_k)
        return f"{self.name}{level}, from {self.n:,} draws (ESS {self.ess:,.0f}, {tail})"

    def __str__(self) -> str:
        lines = [self._title(), *(f"  {name:<19} {part}" for name, part in self._rows())]
        for doubt in self.doubts:
            lines += textwrap.wrap(f"! {doubt}", 79, initial_indent="  ", subsequent_indent="    ")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{html.escape(name)}</td><td>{html.escape(str(part))}</td></tr>"
            for name, part in self._rows()
        )
        doubts = "".join(f"<li>{html.escape(doubt)}</li>" for doubt in self.doubts)
        caption = f"<caption>{html.escape(self._title())}</caption>"
        return f"<table>{caption}{rows}</table>" + (f"<ul>{doubts}</ul>" if doubts else "")


@dataclass(frozen=True)
class Evidence:
    """What the draws have to say in favour of the estimates at one beta."""

    log_beta: float
    n: int
    n_possible: int
    n_above: float
    accepted: float
    ess: float
    tail: Tail


def doubts_about(e: Evidence) -> list[str]:
    """Return what is wrong with the estimates, each with numbers and advice."""
    beta = level_text(e.log_beta)
    if e.n_possible == 0:
        return [
            f"None of the {e.n:,} draws had P(x) > 0, so nothing is known of p but that q gives it "
            f"a mass below {_no_hits(e.n):.2g} (97.5 %). Use a proposal that reaches the target's "
            "support, loosen the target, or draw more."
        ]
    k = e.tail.k
    doubts = _about_the_tail(e)
    if math.isnan(k):
        doubts.append(
            f"Only {e.n_possible} of {e.n:,} draws had P(x) > 0: too few to say how heavy the "
            "tail of the ratios is. Draw more, or use a proposal closer to the target."
        )
    elif k > MAX_PARETO_K:
        doubts.append(
            f"Pareto k is {k:.2f}, above {MAX_PARETO_K}: a few draws with very large ratios "
            "decide everything, and more draws alone help slowly. Use a proposal with heavier "
            "tails, closer to the target."
        )
    if e.ess < MIN_ESS:
        doubts.append(
            f"The {e.n:,} draws are worth only {e.ess:.3g} from the target (ESS below {MIN_ESS}): "
            f"draw about {_factor(MIN_ESS / max(e.ess, 1))} times as many, or use a better "
            "proposal."
        )
    if e.accepted < MIN_ACCEPTED:
        doubts.append(
            f"Only about {e.accepted:.3g} of {e.n:,} draws are accepted at beta = {beta}: the "
            f"moments are those of few samples. Draw about {_factor(MIN_ACCEPTED / e.accepted)} "
            "times as many, or choose a smaller beta."
        )
    return doubts


def _about_the_tail(e: Evidence) -> list[str]:
    """Return what is wrong with what the draws above beta say, or their absence."""
    beta, largest, k = level_text(e.log_beta), level_text(e.tail.log_max), e.tail.k
    if e.tail.exceeds_all(e.log_beta):
        return []
    if e.n_above == 0 and k == -math.inf:
        return [
            f"beta = {beta} is not below any of the {e.n:,} ratios, the largest of which are all "
            f"{largest}: TVD, KL and the bound are exactly 0 if no item has a larger ratio, and "
            f"any such item that was not seen has a q-mass below {_no_hits(e.n):.2g} (97.5 %). "
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
    """Return how many times as many, rounded up to a tenth where that matters.

    Examples
    --------
    >>> _factor(1.04), _factor(2.0), _factor(12.4)
    ('1.1', '2', '12')
    """
    return f"{ratio:,.0f}" if ratio >= 10 else f"{math.ceil(10 * ratio) / 10:g}"


def level_text(log_x: float) -> str:
    """Return e^log_x as text, also where it is no float.

    Examples
    --------
    >>> level_text(0.0), level_text(800.0)
    ('1', 'e^800')
    """
    return f"{math.exp(log_x):.4g}" if -690 < log_x < 700 else f"e^{log_x:.6g}"


def tail_text(k: float) -> str:
    """Return what Pareto k says, in a few words.

    Examples
    --------
    >>> tail_text(0.3), tail_text(-math.inf)
    ('Pareto k 0.30', 'largest ratios all equal')
    """
    if math.isnan(k):
        return "Pareto k unknown"
    return "largest ratios all equal" if k == -math.inf else f"Pareto k {k:.2f}"


def _no_hits(n: int) -> float:
    """Return the largest probability (97.5 %) that n draws without a hit allow."""
    return -math.expm1(math.log(0.025) / n)


def _exp(x: float) -> float:
    return math.exp(x) if x < 709.7 else math.inf


def _exp_estimate(log: Estimate) -> Estimate:
    value = _exp(log.value)
    return Estimate(value, value * log.se, _exp(log.low), _exp(log.high))


def _finite(x: float) -> float | None:
    return float(x) if math.isfinite(x) else None
