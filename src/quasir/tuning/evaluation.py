"""The distance between policy and target, estimated on held-out draws.

All estimates use importance sampling from the mixture m of the proposals: w = p/m, v = pi/m. No
estimate, not even that of Z, uses draws that were trained on. A proposal fitted to a draw gives it
too much probability, so its P/m is too small: after 60 steps on 200 draws of the built-in model
P/m was too small by a factor of 2.7, and Z from all draws was a third too low.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from quasir.core.types import Array
from quasir.estimation.estimate import Z95, Estimate
from quasir.tuning.pool import Pool

__all__ = ["Evaluation", "better_by", "evaluate", "log_partition"]


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Estimates for the policy pi at one step.

    Attributes
    ----------
    kl, tvd : Estimate
        KL(p, pi) in nats, and TVD(p, pi).
    log_z : Estimate
    moments : dict of Estimate
        The mean of each feature under pi. ``possible`` is the mass of pi on P(x) > 0: the highest
        acceptance rate that pi can have as a proposal.
    ess : float
        Kish's effective sample size of the ratios P/m: these estimates are as precise as if from
        that many draws of p.
    efficiency : float
        Effective sample size per draw of pi as a proposal: 1/E_p[p/pi].
    """

    kl: Estimate
    tvd: Estimate
    log_z: Estimate
    moments: dict[str, Estimate]
    ess: float
    efficiency: float

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready dictionary; values that are not finite are None."""
        return {
            "kl": self.kl.to_dict(),
            "tvd": self.tvd.to_dict(),
            "log_z": self.log_z.to_dict(),
            "moments": {name: part.to_dict() for name, part in self.moments.items()},
            "ess": self.ess,
            "efficiency": self.efficiency if math.isfinite(self.efficiency) else None,
        }


def log_partition(held_out: Pool) -> float:
    """Return the running estimate of log Z = log E_m[P/m]."""
    kept = held_out.possible
    log_w = held_out.log_weight[kept] + np.log(held_out.stands_for[kept])
    return float(np.logaddexp.reduce(log_w)) - math.log(held_out.n)


def evaluate(held_out: Pool, log_pi: Array) -> Evaluation:
    """Estimate KL(p, pi), TVD(p, pi), Z and the moments of pi from held-out draws.

    Parameters
    ----------
    held_out : Pool
    log_pi : array
        log pi(x) of each held-out draw.

    Notes
    -----
    Standard errors are by the delta method: a draw influences an estimate by its own term and by
    its part in Z. Draws of different proposals count as draws of their mixture, which can only
    make the errors larger. Intervals are value +- 1.96 se. On a small space the intervals of KL
    covered the exact value in 92 % of cases with an effective 30 draws, in 93 % with 120 and in
    95 % with 500.
    """
    n, kept = held_out.n, held_out.possible
    times = held_out.stands_for[kept]
    log_z = log_partition(held_out)
    log_w, log_v = held_out.log_weight[kept] - log_z, (log_pi - held_out.log_m)[kept]
    w, v = np.exp(log_w), np.exp(log_v)
    kl = float(times @ (w * (log_w - log_v)) / n)
    kl_se = _standard_error(w * (log_w - log_v - kl) - (w - 1.0), 1.0, times, n)
    gap = np.maximum(w - v, 0.0)
    tvd = float(times @ gap / n)
    through_z = -float(times @ (w * (w > v)) / n)
    tvd_se = _standard_error(gap - tvd + through_z * (w - 1.0), -tvd - through_z, times, n)
    with np.errstate(over="ignore"):
        # E_p[p/pi]: the mean square of the ratios p/pi of draws from pi, whose mean is 1.
        second = float(times @ np.exp(2 * log_w - log_v) / n)
    return Evaluation(
        kl=_estimate(kl, kl_se),
        tvd=_estimate(min(tvd, 1.0), tvd_se, least=0.0, most=1.0),
        log_z=_estimate(log_z, _standard_error(w - 1.0, -1.0, times, n)),
        moments=_moments(held_out, log_pi),
        ess=n**2 / float(times @ w**2),
        efficiency=1.0 / second,
    )


def better_by(held_out: Pool, new: Array, old: Array, by: str) -> Estimate:
    """Return how much closer to p a new log pi is than an old one, on the same draws.

    Both use the same draws, so the difference is known more precisely than either distance.

    Parameters
    ----------
    held_out : Pool
    new, old : array
        log pi(x) of each held-out draw.
    by : {"kl", "tvd"}
    """
    n, kept = held_out.n, held_out.possible
    times = held_out.stands_for[kept]
    w = np.exp(held_out.log_weight[kept] - log_partition(held_out))
    if by == "kl":
        gain = new[kept] - old[kept]
        value = float(times @ (w * gain) / n)
        if math.isinf(value):  # the old one cannot draw a text that the target allows
            return Estimate(value, 0.0, value, value)
        return _estimate(value, _standard_error(w * (gain - value), 0.0, times, n))
    v_new, v_old = (np.exp((log_pi - held_out.log_m)[kept]) for log_pi in (new, old))
    terms = np.maximum(w - v_old, 0.0) - np.maximum(w - v_new, 0.0)
    value = float(times @ terms / n)
    through_z = -float(times @ (w * (w > v_old)) - times @ (w * (w > v_new))) / n
    own = terms - value + through_z * (w - 1.0)
    return _estimate(value, _standard_error(own, -value - through_z, times, n))


def _standard_error(influence: Array, impossible: float, times: Array, n: int) -> float:
    """Return the standard error of a mean of n influences; impossible draws all have the same."""
    squares = float(times @ influence**2) + (n - float(times.sum())) * impossible**2
    return math.sqrt(squares) / n


def _moments(held_out: Pool, log_pi: Array) -> dict[str, Estimate]:
    """Return the means under pi of the features that are finite for every draw."""
    share = held_out.stands_for * np.exp(log_pi - held_out.log_m)
    share = share / share.sum()
    columns = {"possible": held_out.possible} | held_out.features
    moments = {}
    for name, column in columns.items():
        phi = column.astype(np.float64)
        if np.isfinite(phi).all():
            mean = float(share @ phi)
            moments[name] = _estimate(mean, math.sqrt(float(share**2 @ (phi - mean) ** 2)))
    return moments


def _estimate(
    value: float, se: float, least: float = -math.inf, most: float = math.inf
) -> Estimate:
    return Estimate(value, se, max(value - Z95 * se, least), min(value + Z95 * se, most))
