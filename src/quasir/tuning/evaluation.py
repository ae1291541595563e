"""How far the policy is from the target, on draws that it was not trained on.

All estimates are by importance sampling from the mixture m of the proposals: w = p/m, v = pi/m.
Not even Z takes draws that were trained on. A proposal that was fitted to a draw gives it too much
probability, so that its P/m is too small: on 200 draws of the built-in model, fitted for 60 steps,
by a factor of 2.7, and Z from all draws was a third too low.
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


@dataclass(frozen=True)
class Evaluation:
    """What is known of pi at one step.

    Attributes
    ----------
    kl, tvd : Estimate
        KL(p, pi) in nats, and TVD(p, pi).
    log_z : Estimate
    moments : dict of Estimate
        The mean of each feature under pi. ``possible`` is the share of pi with P(x) > 0: the
        highest acceptance rate it can have as a proposal.
    ess : float
        Kish's effective sample size of the ratios P/m: how many draws from p these estimates rest
        on.
    efficiency : float
        The effective sample size of a draw from pi, as a proposal: 1/E_p[p/pi].
    """

    kl: Estimate
    tvd: Estimate
    log_z: Estimate
    moments: dict[str, Estimate]
    ess: float
    efficiency: float

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready dictionary; what is not finite is None."""
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
    """Estimate KL(p, pi), TVD(p, pi), Z and the moments of pi from draws that were held out.

    Parameters
    ----------
    held_out : Pool
    log_pi : array
        log pi(x) of each of its draws.

    Notes
    -----
    Standard errors are by the delta method: the influence of a draw is that of its own term and
    that of its part in Z. Draws of different proposals count as draws of their mixture, which if
    anything makes the errors larger. Intervals are value +- 1.96 se: on a small space, with an
    effective 30 draws 92 % of those of KL held the exact value, with 120 93 %, with 500 95 %.
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
        # E_p[p/pi]: the mean square of the ratios of draws from pi, in units of their mean's.
        second = float(times @ np.exp(2 * log_w - log_v) / n)
    return Evaluation(
        _estimate(kl, kl_se),
        _estimate(min(tvd, 1.0), tvd_se, least=0.0, most=1.0),
        _estimate(log_z, _standard_error(w - 1.0, -1.0, times, n)),
        _moments(held_out, log_pi),
        n**2 / float(times @ w**2),
        1.0 / second,
    )


def better_by(held_out: Pool, new: Array, old: Array, by: str) -> Estimate:
    """Return by how much a new log pi is closer to p than an old one, on the same draws.

    The two share their draws, so that the difference is known better than either distance.

    Parameters
    ----------
    held_out : Pool
    new, old : array
        log pi(x) of each of its draws.
    by : {"kl", "tvd"}
    """
    n, kept = held_out.n, held_out.possible
    times = held_out.stands_for[kept]
    w = np.exp(held_out.log_weight[kept] - log_partition(held_out))
    if by == "kl":
        gain = new[kept] - old[kept]
        value = float(times @ (w * gain) / n)
        if math.isinf(value):  # the old one cannot give a text that the target allows
            return Estimate(value, 0.0, value, value)
        return _estimate(value, _standard_error(w * (gain - value), 0.0, times, n))
    v_new, v_old = (np.exp((log_pi - held_out.log_m)[kept]) for log_pi in (new, old))
    terms = np.maximum(w - v_old, 0.0) - np.maximum(w - v_new, 0.0)
    value = float(times @ terms / n)
    through_z = -float(times @ (w * (w > v_old)) - times @ (w * (w > v_new))) / n
    own = terms - value + through_z * (w - 1.0)
    return _estimate(value, _standard_error(own, -value - through_z, times, n))


def _standard_error(influence: Array, impossible: float, times: Array, n: int) -> float:
    """Return the standard error of a mean of n influences, that of impossible draws being equal."""
    squares = float(times @ influence**2) + (n - float(times.sum())) * impossible**2
    return math.sqrt(squares) / n


def _moments(held_out: Pool, log_pi: Array) -> dict[str, Estimate]:
    """Return the means under pi of the features that every draw has."""
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
