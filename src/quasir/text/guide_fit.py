"""Fitting a boost: the factors, and the share of the base, that minimise KL(p, q) on a pilot.

KL(p, q) is, but for a constant, minus the mean of log q under p. It is estimated on draws with the
weights P/m, m being the mixture of the proposals that drew them. For the guided part alone it is
convex in the logs of the factors. No network is asked: `Masses` has all that log q depends on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, logit

from quasir.core.types import Array
from quasir.guides.boost_machine import BoostMachine
from quasir.text.guide_masses import Masses

__all__ = ["Fit", "PilotRound", "fitted"]

SPREAD, WIDE = 1.5, 3.0
"""Standard deviations of log factors, as a prior: about their group's mean, and of that mean."""
LEAST_SHARE, MOST_SHARE = 0.02, 0.5
"""Shares of the base that are considered. The ceiling of the ratios is b_max/share."""


@dataclass(frozen=True, eq=False)
class PilotRound:
    """The draws of one round that the target allows.

    Attributes
    ----------
    n : int
        Draws of the round, with those that the target forbids.
    log_b : array
        log P - log a of the others.
    masses : Masses
    log_factors : array
        Log factors, by name, of the proposal of this round.
    share : float
        Share of the base in it.
    """

    n: int
    log_b: Array
    masses: Masses
    log_factors: Array
    share: float


@dataclass(frozen=True)
class Fit:
    """Fitted log factors, by name, and the share of the base."""

    log_factors: Array
    share: float
    ess: float
    """Effective number of pilot draws from p."""


def fitted(rounds: Sequence[PilotRound], machine: BoostMachine, share: float | None) -> Fit:
    """Return the factors, and the share unless it is given, that minimise KL(p, q)."""
    counts = _counts(machine)
    masses = Masses.concatenate([r.masses for r in rounds], len(counts))
    log_b = np.concatenate([r.log_b for r in rounds])
    weight = _weights(rounds, masses, log_b, counts)
    ess = 1.0 / float(weight @ weight)
    groups = _groups(machine)
    basis = np.hstack([groups, np.eye(len(machine.names))])
    to_atoms = counts @ basis
    # A prior as strong as one draw of p; it decides on words that no draw has.
    ridge = np.repeat([WIDE**-2.0, SPREAD**-2.0], [groups.shape[1], len(machine.names)]) / ess

    def loss(x: Array, log_share: Array) -> tuple[float, Array, Array]:
        log_factors = to_atoms @ x
        gain = masses.log_gain(log_factors)
        log_guided = log_share[1] + gain
        log_q = np.logaddexp(log_share[0], log_guided)
        part = np.exp(log_guided - log_q)
        down = to_atoms.T @ masses.gradient(log_factors, weight * part)
        return (
            float(-weight @ log_q + (ridge * x) @ x / 2),
            ridge * x - down,
            weight @ (1.0 - part),
        )

    def at_share(x: Array, s: float) -> tuple[float, Array]:
        with np.errstate(divide="ignore"):
            value, gradient, _ = loss(x, np.log([s, 1.0 - s]))
        return value, gradient

    def jointly(z: Array) -> tuple[float, Array]:
        s = float(expit(z[-1]))
        value, gradient, own = loss(z[:-1], np.log([s, 1.0 - s]))
        return value, np.append(gradient, s - own)

    start = np.zeros(basis.shape[1])
    begun = minimize(at_share, start, args=(share or 0.0,), jac=True, method="L-BFGS-B").x
    if share is not None:
        return Fit(basis @ begun, share, ess)
    z = np.append(begun, logit(0.2))
    bounds = [(None, None)] * len(begun) + [(logit(LEAST_SHARE), logit(MOST_SHARE))]
    z = minimize(jointly, z, jac=True, method="L-BFGS-B", bounds=bounds).x
    return Fit(basis @ z[:-1], float(expit(z[-1])), ess)


def _counts(machine: BoostMachine) -> Array:
    """Return how often each named factor is in each atom: (atoms, names)."""
    counts = np.zeros((len(machine.atoms), len(machine.names)))
    for atom, names in enumerate(machine.atoms):
        np.add.at(counts[atom], list(names), 1.0)
    return counts


def _groups(machine: BoostMachine) -> Array:
    """Return which names share a mean: those of a group of words and of a kind; (names, groups)."""
    keys = [tuple(name.split(" ", 3)[:3]) for name in machine.names]
    distinct = sorted(set(keys))
    return np.array([[float(key == other) for other in distinct] for key in keys])


def _weights(rounds: Sequence[PilotRound], masses: Masses, log_b: Array, counts: Array) -> Array:
    """Return the weights P/m of all draws, m being the mixture of all rounds; they sum to 1."""
    total = sum(r.n for r in rounds)
    log_m = np.full(len(log_b), -np.inf)
    for r in rounds:
        gain = masses.log_gain(counts @ r.log_factors)
        with np.errstate(divide="ignore"):
            log_q = np.logaddexp(np.log(r.share), np.log1p(-r.share) + gain)
        log_m = np.logaddexp(log_m, np.log(r.n / total) + log_q)
    log_w = log_b - log_m
    w = np.exp(log_w - log_w.max())
    weights: Array = w / w.sum()
    return weights
