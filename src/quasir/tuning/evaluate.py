"""How far the policy is from the target, on draws that it was not trained on.

All estimates are by importance sampling from the mixture m of the proposals: w = P/m, v = pi/m.
Z may rest on more draws than the rest, since the draws that were trained on are as good for it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from quasir.estimate import Z95, Estimate
from quasir.tuning.replay import Pool
from quasir.typing import Array

__all__ = ["Evaluation", "better_by", "evaluate", "partition"]


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


@dataclass(frozen=True)
class Partition:
    """log Z and what is needed of the draws behind it: N, and the sum of (w/Z - 1)^2."""

    log_z: float
    n: int
    squares: float

    @property
    def estimate(self) -> Estimate:
        """Log Z with its standard error."""
        return _estimate(self.log_z, math.sqrt(self.squares) / self.n)


def partition(*pools: Pool) -> Partition:
    """Return the running estimate of log Z, from all draws of some pools."""
    log_w = np.concatenate([pool.log_weight[pool.possible] for pool in pools])
    times = np.concatenate([pool.stands_for[pool.possible] for pool in pools])
    n = sum(pool.n for pool in pools)
    log_z = float(np.logaddexp.reduce(log_w + np.log(times))) - math.log(n)
    squares = float(times @ (np.exp(log_w - log_z) - 1.0) ** 2) + (n - float(times.sum()))
    return Partition(log_z, n, squares)


def evaluate(held_out: Pool, log_pi: Array, z: Partition) -> Evaluation:
    """Estimate KL(p, pi), TVD(p, pi) and the moments of pi from draws that were held out.

    Parameters
    ----------
    held_out : Pool
    log_pi : array
        log pi(x) of each of its draws.
    z : Partition
        From all draws, these among them.

    Notes
    -----
    Standard errors are by the delta method: each draw's influence on the estimate is that through
    its own term, 1/n of the draws held out, and that through Z, 1/N of all draws. Draws of
    different proposals count as draws of their mixture, which if anything makes the errors larger.
    """
    n, kept = held_out.n, held_out.possible
    times = held_out.stands_for[kept]
    log_w = held_out.log_weight[kept] - z.log_z
    w, v = np.exp(log_w), np.exp(log_pi[kept] - held_out.log_m[kept])
    log_ratio = held_out.log_p[kept] - z.log_z - log_pi[kept]
    mass = times * w
    kl = float(mass @ log_ratio / mass.sum())
    own = w * (log_ratio - kl) * (n / mass.sum())
    kl_part = _estimate(kl, _standard_error(own, 0.0, n, w, times, -1.0, z))
    gap = np.maximum(w - v, 0.0)
    tvd = float(times @ gap / n)
    through_z = -float(mass[w > v].sum() / n)
    tvd_se = _standard_error(gap - tvd, -tvd, n, w, times, through_z, z)
    tvd_part = _estimate(min(tvd, 1.0), tvd_se, least=0.0, most=1.0)
    with np.errstate(over="ignore"):
        # p^2/(pi m): the mean square of the ratios of draws from pi, over that of their mean.
        second = float(times @ np.exp(2 * log_w - (log_pi - held_out.log_m)[kept]) / n)
    return Evaluation(
        kl_part,
        tvd_part,
        z.estimate,
        _moments(held_out, log_pi),
        float(mass.sum() ** 2 / (times @ w**2)),
        1.0 / second,
    )


def better_by(held_out: Pool, new: Array, old: Array, z: Partition, by: str) -> Estimate:
    """Return by how much a new log pi is closer to p than an old one, on the same draws.

    The two share their draws, so that the difference is known better than either distance.

    Parameters
    ----------
    by : {"kl", "tvd"}
    """
    n, kept = held_out.n, held_out.possible
    w, times = np.exp(held_out.log_weight[kept] - z.log_z), held_out.stands_for[kept]
    if by == "kl":
        mass, gain = times * w, new[kept] - old[kept]
        value = float(mass @ gain / mass.sum())
        if math.isinf(value):  # the old one cannot give a text that the target allows
            return Estimate(value, 0.0, value, value)
        spread = math.sqrt(float(times @ (w * (gain - value)) ** 2)) / float(mass.sum())
        return _estimate(value, spread)
    log_m = held_out.log_m[kept]
    terms = np.maximum(w - np.exp(old[kept] - log_m), 0.0)
    terms = terms - np.maximum(w - np.exp(new[kept] - log_m), 0.0)
    value = float(times @ terms / n)
    spread = float(times @ (terms - value) ** 2) + (n - float(times.sum())) * value**2
    return _estimate(value, math.sqrt(spread) / n)


def _standard_error(
    own: Array, own_at_zero: float, n: int, w: Array, times: Array, through_z: float, z: Partition
) -> float:
    """Return the root of the sum of squared influences.

    A draw that is held out has own/n + through_z (w/Z - 1)/N, w/Z = 0 for the impossible ones; one
    that was trained on has the second term alone.
    """
    inside = own / n + through_z * (w - 1.0) / z.n
    outside = own_at_zero / n - through_z / z.n
    impossible = n - float(times.sum())
    ours = float(times @ inside**2) + impossible * outside**2
    squares_here = float(times @ (w - 1.0) ** 2) + impossible
    others = max(z.squares - squares_here, 0.0) * (through_z / z.n) ** 2
    return math.sqrt(ours + others)


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
