"""Fitting a boost: the factors, and the share of the base, that bring q closest to p on a pilot.

What is minimised is Renyi's divergence D_k(p, q) = log E_p[(p/q)^(k - 1)]/(k - 1), which is KL at
k = 1. It is convex in the logs of the factors if the base has no share, since -log q then is. Means
under p are estimated on draws with the weights P/m, m being the mixture of the proposals that drew
them. No network is asked: `Masses` has all that log q depends on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, logit

from quasir.core.types import Array
from quasir.guides.boost import LARGEST
from quasir.guides.boost_machine import BoostMachine
from quasir.text.guide_masses import Masses

__all__ = ["Fit", "PilotRound", "fitted", "minimised"]

SPREAD, WIDE = 1.5, 3.0
"""Standard deviations of log factors, as a prior: about their group's mean, and of that mean."""
ORDER = 3.0
"""k. KL, which is k = 1, minds texts that q hardly ever draws too little:
on held-out texts of `contains` it accepted 68 times as often as the base at TVD 0.1, and k = 3 112
times."""
RARE = 30.0
"""Factor of tokens that go on with a rare spelling, where no draw says otherwise. They cost little,
and without them a text so spelled has a ratio a hundred times that of the others."""
LEAST = 0.05
"""Smallest factor, for the usual spellings of words that are not wanted."""
LEAST_SHARE, MOST_SHARE = 0.1, 0.5
"""Shares of the base that are considered. The ceiling of the ratios is b_max/share, and promises
need a low one; a share of 0.1 instead of 0.02 costs 3 % of the acceptance of `scientists`."""


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
    """Return the factors, and the share unless it is given, that bring q closest to p."""
    counts = _counts(machine)
    masses = Masses.concatenate([r.masses for r in rounds], len(counts))
    log_b = np.concatenate([r.log_b for r in rounds])
    return minimised(masses, log_b, _log_weights(rounds, masses, log_b, counts), machine, share)


def minimised(
    masses: Masses, log_b: Array, log_weight: Array, machine: BoostMachine, share: float | None
) -> Fit:
    """Return the factors, and the share unless it is given, that bring q closest to p.

    Parameters
    ----------
    masses : Masses
        Of some texts.
    log_b, log_weight : array
        log P - log a of each text, and the log of its weight; weights sum to 1, as under p.
    machine : BoostMachine
    share : float or None
    """
    ess = float(np.exp(-np.logaddexp.reduce(2 * log_weight)))
    prior, to_atoms = Prior(*_groups(machine), ess), _counts(machine)

    def loss(log_factors: Array, log_share: Array) -> tuple[float, Array, float]:
        """Return the loss, its gradient, and the mean part of q that is the base's."""
        gain, slope = masses.log_gain_and_gradient(to_atoms @ log_factors)
        log_guided = log_share[1] + gain
        log_q = np.logaddexp(log_share[0], log_guided)  # over a
        value, tilted = renyi(log_weight, log_b - log_q)
        part = np.exp(log_guided - log_q)
        more, against = prior(log_factors)
        gradient = against - to_atoms.T @ slope(tilted * part)
        return value + more, gradient, float(tilted @ (1.0 - part))

    # Units in which the curvature is about 1: that of a factor is how often its tokens matter.
    often = to_atoms.T @ masses.shares(np.exp(log_weight)) + prior.narrow
    unit = np.append(1.0 / np.sqrt(often), 1.0)

    def in_units(y: Array) -> tuple[float, Array]:
        z = y * unit
        s = float(expit(z[-1])) if share is None else share
        with np.errstate(divide="ignore"):
            value, gradient, own = loss(z[:-1], np.log([s, 1.0 - s]))
        return value, np.append(gradient, s - own if share is None else 0.0) * unit

    bounds = np.array([*_bounds(machine), logit([LEAST_SHARE, MOST_SHARE])]) / unit[:, None]
    begun = np.append(np.zeros(len(unit) - 1), logit(0.2))
    options = {"maxcor": 20}
    y = minimize(in_units, begun, jac=True, method="L-BFGS-B", bounds=bounds, options=options).x
    z = y * unit
    return Fit(z[:-1], float(expit(z[-1])) if share is None else share, ess)


class Prior:
    """Log factors are normal about the mean of their group, and that mean about its centre.

    It is as strong as one draw of p, and decides on words that no draw has. The means are those
    that suit given factors best.
    """

    def __init__(self, groups: Array, centre: Array, ess: float) -> None:
        self.groups, self.centre = groups, centre
        self.narrow, self.wide = SPREAD**-2.0 / ess, WIDE**-2.0 / ess

    def __call__(self, log_factors: Array) -> tuple[float, Array]:
        """Return the prior's part of the loss, and its gradient."""
        narrow, wide = self.narrow, self.wide
        sums = narrow * (self.groups.T @ log_factors) + wide * self.centre
        mean = sums / (narrow * self.groups.sum(axis=0) + wide)
        off, far = log_factors - self.groups @ mean, mean - self.centre
        return float(narrow / 2 * off @ off + wide / 2 * far @ far), narrow * off


def renyi(log_weight: Array, log_ratio: Array) -> tuple[float, Array]:
    """Return D_k(p, q) but for a constant, and its slope along each log ratio."""
    terms = log_weight + (ORDER - 1) * log_ratio
    total = np.logaddexp.reduce(terms)
    return float(total / (ORDER - 1)), np.exp(terms - total)


def _bounds(machine: BoostMachine) -> list[tuple[float, float]]:
    """Return the least and largest log factors.

    A token that few draws have must not be made rarer: no draw would then show what is lost.
    """
    return [(0.0 if rare else math.log(LEAST), math.log(LARGEST)) for rare in machine.rare]


def _counts(machine: BoostMachine) -> Array:
    """Return how often each named factor is in each atom: (atoms, names)."""
    counts = np.zeros((len(machine.atoms), len(machine.names)))
    for atom, names in enumerate(machine.atoms):
        np.add.at(counts[atom], list(names), 1.0)
    return counts


def _groups(machine: BoostMachine) -> tuple[Array, Array]:
    """Return which names share a mean, (names, groups), and where the prior of each mean is."""
    keys = [tuple(name.split(" ", 3)[:3]) for name in machine.names]
    distinct = sorted(set(keys))
    centre = [math.log(RARE) if key[1:] == ("rare", "go-on") else 0.0 for key in distinct]
    shared = np.array([[float(key == other) for other in distinct] for key in keys])
    return shared, np.array(centre)


def _log_weights(
    rounds: Sequence[PilotRound], masses: Masses, log_b: Array, counts: Array
) -> Array:
    """Return the log weights P/m of all draws, m being the mixture of all rounds; they sum to 1."""
    total = sum(r.n for r in rounds)
    log_m = np.full(len(log_b), -np.inf)
    for r in rounds:
        gain = masses.log_gain(counts @ r.log_factors)
        with np.errstate(divide="ignore"):
            log_q = np.logaddexp(np.log(r.share), np.log1p(-r.share) + gain)
        log_m = np.logaddexp(log_m, np.log(r.n / total) + log_q)
    log_w = log_b - log_m
    weights: Array = log_w - np.logaddexp.reduce(log_w)
    return weights
