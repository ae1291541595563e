"""A certificate: the estimates at one beta, their uncertainty, and what is wrong with them."""

from __future__ import annotations

import html
import math
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from quasir.core.formatting import level_text, tail_text
from quasir.estimation.estimate import Estimate

__all__ = ["Certificate"]


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


def _exp(x: float) -> float:
    return math.exp(x) if x < 709.7 else math.inf


def _exp_estimate(log: Estimate) -> Estimate:
    value = _exp(log.value)
    return Estimate(value, value * log.se, _exp(log.low), _exp(log.high))


def _finite(x: float) -> float | None:
    return float(x) if math.isfinite(x) else None
