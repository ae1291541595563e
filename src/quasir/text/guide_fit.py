"""Fitting a boost: the factors, and the share of the base, that bring q close to p on a pilot.

What is minimised is Renyi's divergence D_k(p, q) = log E_p[(p/q)^(k - 1)]/(k - 1), which is KL at
k = 1. The mean under p is estimated on draws with the weights P/m, m being the mixture of the
proposals that drew them. For the guided part alone it is convex in the logs of the factors, since
-log q is. No network is asked: `Masses` has all that log q depends on.
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
"""k. Texts that q hardly ever draws cost acceptance at a small TVD, and a larger k minds them more.
Held out, the recipe `contains` accepted at TVD 0.1 68, 98, 109, 112 and 106 times as often as the
base with k = 1, 1.5, 2, 3 and 5."""
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
    """Return the factors, and the share unless it is given, that minimise D_k(p, q)."""
    counts = _counts(machine)
    masses = Masses.concatenate([r.masses for r in rounds], len(counts))
    log_b = np.concatenate([r.log_b for r in rounds])
    return minimised(masses, log_b, _log_weights(rounds, masses, log_b, counts), machine, share)


def minimised(
    masses: Masses, log_b: Array, log_weight: Array, machine: BoostMachine, share: float | None
) -> Fit:
    """Return the factors, and the share unless it is given, that minimise D_k(p, q).

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
    groups, to_atoms = _groups(machine), _counts(machine)
    names, means = groups.shape
    # A prior as strong as one draw of p; it decides on words that no draw has.
    narrow, wide = SPREAD**-2.0 / ess, WIDE**-2.0 / ess

    def loss(x: Array, log_share: Array) -> tuple[float, Array, float]:
        """Return D_k, its gradient, and the part of q that is the base's, tilted as D_k is."""
        own, mean = x[:names], x[names:]
        log_factors = to_atoms @ own
        log_guided = log_share[1] + masses.log_gain(log_factors)
        log_q = np.logaddexp(log_share[0], log_guided)  # over a
        terms = log_weight + (ORDER - 1) * (log_b - log_q)
        total = np.logaddexp.reduce(terms)
        tilted, part = np.exp(terms - total), np.exp(log_guided - log_q)
        off = own - groups @ mean
        value = total / (ORDER - 1) + narrow / 2 * off @ off + wide / 2 * mean @ mean
        up = to_atoms.T @ masses.gradient(log_factors, tilted * part)
        gradient = np.append(narrow * off - up, wide * mean - narrow * groups.T @ off)
        return float(value), gradient, float(tilted @ (1.0 - part))

    def at_share(x: Array, s: float) -> tuple[float, Array]:
        with np.errstate(divide="ignore"):
            value, gradient, _ = loss(x, np.log([s, 1.0 - s]))
        return value, gradient

    def jointly(z: Array) -> tuple[float, Array]:
        s = float(expit(z[-1]))
        value, gradient, own = loss(z[:-1], np.log([s, 1.0 - s]))
        return value, np.append(gradient, s - own)

    start = np.zeros(names + means)
    bounds = _bounds(machine) + [(None, None)] * means
    how = {"jac": True, "method": "L-BFGS-B"}
    begun = minimize(at_share, start, args=(share or 0.0,), bounds=bounds, **how).x
    if share is not None:
        return Fit(begun[:names], share, ess)
    bounds.append((logit(LEAST_SHARE), logit(MOST_SHARE)))
    z = minimize(jointly, np.append(begun, logit(0.2)), bounds=bounds, **how).x
    return Fit(z[:names], float(expit(z[-1])), ess)


def _bounds(machine: BoostMachine) -> list[tuple[float | None, float | None]]:
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


def _groups(machine: BoostMachine) -> Array:
    """Return which names share a mean: those of a group of words and of a kind; (names, groups)."""
    keys = [tuple(name.split(" ", 3)[:3]) for name in machine.names]
    distinct = sorted(set(keys))
    return np.array([[float(key == other) for other in distinct] for key in keys])


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
