"""Fitting a boost: the factors, and the share of the base, that bring q closest to p on a pilot.

What is minimised is Renyi's divergence D_k(p, q) = log E_p[(p/q)^(k - 1)]/(k - 1), which is KL at
k = 1. It is convex in the logs of the factors if the base has no share, since -log q then is. Means
under p are estimated on draws with the weights P/m, m being the mixture of the proposals that drew
them. No network is asked: `Masses` has all that log q depends on. The pilot has a few rounds of
draws, each from what the earlier ones gave.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import expit, logit

from quasir.core.arguments import check_count
from quasir.core.items import take
from quasir.core.progress import Progress
from quasir.core.streams import Purpose, derived_seed, root_seed
from quasir.core.types import Array, Seed, Target
from quasir.draws.draw import draw
from quasir.draws.draws import Draws
from quasir.errors import InputError, TuningError
from quasir.guides.automaton import BoostMachine, State
from quasir.guides.boost import LARGEST, Boost
from quasir.guides.guide import Ints, Machine
from quasir.guides.product import Both, BothMachine
from quasir.targets.product import Product
from quasir.text.fingerprints import find_setting
from quasir.text.guided_decoding import Compiled
from quasir.text.guided_scores import Steps, guided_steps
from quasir.text.texts import Texts, as_texts

if TYPE_CHECKING:
    from quasir.text.causal import CausalLM
    from quasir.text.guided import Guided

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
"""Shares of the base that are considered. The ceiling of the ratios is b_max/share, and guarantees
need a low one; a share of 0.1 instead of 0.02 costs 3 % of the acceptance of `scientists`."""
ROUNDS = (0.15, 0.15, 0.2, 0.5)
"""Parts of the pilot. The first ones may be far from the best factors."""
START = 10.0
"""Factor of the first round where none is given."""
RARE_GO_ON = ("rare", "go-on")
"""In the names of those factors."""
FEW = 20
"""With fewer possible draws in a round, its factors are raised instead of fitted."""


@dataclass(frozen=True, eq=False)
class PilotRound:
    """The draws of one round that the target allows, and the proposal that drew them."""

    n: int  # draws of the round, with those that the target forbids
    log_b: Array  # log P - log a of the others
    masses: Masses
    log_factors: Array  # by name
    share: float  # of the base


class Fit(NamedTuple):
    """Fitted log factors, by name, and the share of the base."""

    log_factors: Array
    share: float


def fit_guide(
    q: Guided,
    target: Target,
    n: int,
    seed: Seed,
    progress: Progress,
    make: Callable[[Guided, int], list[tuple[Guided, Draws]]] | None = None,
) -> Guided:
    """Return q with fitted factors; see `Guided.fit`. A search makes the draws itself."""
    check_count("n", n, least=64)
    boosts = [part for part in q.guide.parts if isinstance(part, Boost)]
    if not boosts:
        raise InputError(f"{q.guide!r} has no factors to fit: fit is for boosts.")
    if not isinstance(target, Product) or target.base is not q.base:
        raise InputError(
            f"the target must be made of this very base, as base * feature, not {target!r}: the "
            "fit needs log a and log q of one pass."
        )
    begun = replace(boosts[0], factors=tuple(c or START for c in boosts[0].factors))
    machine = BoostMachine(begun, q.vocabulary, watched=True)
    root, share, log_factors = root_seed(seed), q.share, machine.log_factors
    rounds: list[PilotRound] = []
    # Tokens that go on with a rare spelling are tried in every round.
    goes_on = np.array([parts[1:3] == RARE_GO_ON for parts in machine.name_parts])
    sizes = np.diff(np.rint(np.cumsum([0.0, *ROUNDS]) * n)).astype(int)
    for number, size in enumerate(sizes.tolist()):
        tried = np.minimum(log_factors, np.log(LARGEST))
        tried = np.where(goes_on, np.maximum(tried, np.log(RARE)), tried)
        now = _with_factors(q, machine, tried, share)
        if make is not None:
            made = make(now, size)
        else:
            streams = derived_seed(root, Purpose.GUIDE, number)
            made = [(now, draw(target, now, size, streams, progress=progress))]
        rounds += [_round(*one, machine, tried) for one in made]
        found = sum(len(r.log_b) for r in rounds)
        if found < FEW and number + 1 < len(sizes):
            log_factors = log_factors + np.log(START) * _not_given(boosts[0], machine)
            continue
        if found == 0:
            raise TuningError(
                f"none of the pilot's {n:,} draws is possible under the target, so no factor can "
                "be fitted. Give a larger n, or factors to begin with: boost({'word': 100.0})."
            )
        joined, free = _joined(rounds, _counts(machine)), None if q.share else 0.0
        log_factors, share = minimise_distance(*joined, machine, free)
    return _with_factors(q, machine, log_factors, share)


def _not_given(boost: Boost, machine: BoostMachine) -> NDArray[np.bool_]:
    """Return which factors the boost leaves to the fit; all of them if it leaves none."""
    left = np.array([boost.factors[int(group)] is None for group, *_ in machine.name_parts])
    return left if left.any() else ~left


def _with_factors(q: Guided, machine: BoostMachine, log_factors: Array, share: float) -> Guided:
    """Return q with other factors and another share."""
    named = dict(zip(machine.names, np.exp(log_factors).tolist(), strict=True))
    setting = find_setting(q.base, q.languages)
    parts = [
        part.with_factors(named, setting) if isinstance(part, Boost) else part
        for part in q.guide.parts
    ]
    return type(q)(q.base, Both.of(parts), share)


def _round(now: Guided, draws: Draws, machine: BoostMachine, log_factors: Array) -> PilotRound:
    """Return what the fit needs of a round's draws: those that the target allows, in one pass."""
    assert draws.log_base is not None
    possible = np.flatnonzero(draws.log_p > -np.inf)
    texts = as_texts(take(draws.items, possible), now.tokenizer)
    others = [part for part in now.guide.parts if not isinstance(part, Boost)]
    rest = BothMachine([part.compile(now.vocabulary) for part in others])
    masses = Masses.of(now.base, texts, rest, all(part.below_one for part in others), machine)
    log_b = (draws.log_p - draws.log_base)[possible]
    return PilotRound(len(draws), log_b, masses, log_factors, now.share)


def minimise_distance(
    masses: Masses, log_b: Array, log_weight: Array, machine: BoostMachine, share: float | None
) -> Fit:
    """Return the factors, and the share unless it is given, that bring q closest to p."""
    ess = float(np.exp(-np.logaddexp.reduce(2 * log_weight)))  # Kish's, of weights that sum to 1
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
    return Fit(z[:-1], float(expit(z[-1])) if share is None else share)


class Prior:
    """Log factors are normal about the mean of their group, and that mean about its centre."""

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
    return [
        (0.0 if kind == "rare" else math.log(LEAST), math.log(LARGEST))
        for _, kind, *_ in machine.name_parts
    ]


def _counts(machine: BoostMachine) -> Array:
    """Return how often each named factor is in each atom: (atoms, names)."""
    counts = np.zeros((len(machine.atoms), len(machine.names)))
    for atom, names in enumerate(machine.atoms):
        np.add.at(counts[atom], list(names), 1.0)
    return counts


def _groups(machine: BoostMachine) -> tuple[Array, Array]:
    """Return which names share a mean, (names, groups), and where the prior of each mean is."""
    keys = [parts[:3] for parts in machine.name_parts]
    distinct = sorted(set(keys))
    centre = [math.log(RARE) if key[1:] == RARE_GO_ON else 0.0 for key in distinct]
    shared = np.array([[float(key == other) for other in distinct] for key in keys])
    return shared, np.array(centre)


def _joined(rounds: Sequence[PilotRound], counts: Array) -> tuple[Masses, Array, Array]:
    """Return all draws, their log b, and log P/m, m mixing all rounds; the weights sum to 1."""
    masses = Masses.concatenate([r.masses for r in rounds], len(counts))
    log_b, total = np.concatenate([r.log_b for r in rounds]), sum(r.n for r in rounds)
    log_m = np.full(len(log_b), -np.inf)
    for r in rounds:
        gain = masses.log_gain(counts @ r.log_factors)
        with np.errstate(divide="ignore"):
            log_q = np.logaddexp(np.log(r.share), np.log1p(-r.share) + gain)
        log_m = np.logaddexp(log_m, np.log(r.n / total) + log_q)
    log_w = log_b - log_m
    return masses, log_b, log_w - np.logaddexp.reduce(log_w)


@dataclass(frozen=True, eq=False)
class Masses:
    """The steps of some texts at which a boost does something."""

    texts: int  # their number
    owner: Ints  # the text that each step belongs to
    atom: Ints  # the atom of the token at each step; -1 if it is not boosted
    rest: Array  # the mass of the tokens that are not boosted
    mass: Any  # sparse (steps, atoms): of most atoms no token is possible at a step
    fixed: Array  # of each text, the part of log q - log a that does not depend on the factors

    @classmethod
    @torch.inference_mode()
    def of(
        cls, lm: CausalLM, texts: Texts, machine: Machine, below_one: bool, boost: BoostMachine
    ) -> Masses:
        """Find the masses in one scoring pass; `machine` has all guides but the boost."""
        fixed = np.full(len(texts), -np.inf)
        parts: list[tuple[Ints, Ints, Array, Any]] = []
        nothing = State([], boost.vocabulary)
        for (steps,) in guided_steps(lm, texts, [Compiled(machine, below_one)], nothing, boost):
            fixed[steps.part] = 0.0
            parts.append(_boosted(steps, fixed))
        return cls._join(len(texts), parts, fixed, len(boost.atoms))

    @classmethod
    def _join(
        cls, n: int, parts: list[tuple[Ints, Ints, Array, Any]], fixed: Array, atoms: int
    ) -> Masses:
        none = np.zeros(0, dtype=np.int64)
        parts = parts or [(none, none, np.zeros(0), sparse.csr_array((0, atoms)))]
        owner, atom, rest, masses = zip(*parts, strict=True)
        for mass in masses:
            mass.resize(mass.shape[0], atoms)
        columns = np.concatenate(owner), np.concatenate(atom), np.concatenate(rest)
        return cls(n, *columns, sparse.vstack(masses, format="csr"), fixed)

    @classmethod
    def concatenate(cls, parts: Sequence[Masses], atoms: int) -> Masses:
        """Join the masses of several sets of texts."""
        starts = np.cumsum([0, *(part.texts for part in parts)])
        moved = [
            (part.owner + start, part.atom, part.rest, part.mass.copy())
            for part, start in zip(parts, starts[:-1], strict=True)
        ]
        fixed = np.concatenate([part.fixed for part in parts])
        return cls._join(int(starts[-1]), moved, fixed, atoms)

    def log_gain(self, log_factors: Array) -> Array:
        """Return log q - log a of each text, given the log factor of each atom."""
        return self.log_gain_and_gradient(log_factors)[0]

    def log_gain_and_gradient(self, log_factors: Array) -> tuple[Array, Callable[[Array], Array]]:
        """Return `log_gain`, and what gives the gradient of its sum with any weights."""
        factors, chosen = np.exp(log_factors), self.atom >= 0
        total = self.rest + self.mass @ factors
        own = np.where(chosen, np.append(log_factors, 0.0)[self.atom], 0.0)
        gain = self.fixed + np.bincount(self.owner, own - np.log(total), minlength=self.texts)

        def gradient(weight: Array) -> Array:
            each = weight[self.owner]
            up = np.bincount(self.atom[chosen], each[chosen], minlength=len(factors))
            slope: Array = up - factors * (self.mass.T @ (each / total))
            return slope

        return gain, gradient

    def shares(self, weight: Array) -> Array:
        """Return how often each atom is drawn by the base in the weighted texts, and chosen."""
        each, chosen = weight[self.owner], self.atom >= 0
        found = np.bincount(self.atom[chosen], each[chosen], minlength=self.mass.shape[1])
        expected: Array = self.mass.T @ (each / (self.rest + self.mass.sum(axis=1)))
        return found + expected


def _boosted(steps: Steps, fixed: Array) -> tuple[Ints, Ints, Array, Any]:
    """Return the steps that the boost changes; add all others to `fixed`."""
    guided = steps.guided()
    some = guided & (steps.atom_mass.any(axis=1) | (steps.atom >= 0))
    with np.errstate(invalid="ignore"):
        gain = np.where(guided, steps.log_g, 0.0) - np.where(guided & ~some, steps.log_mass, 0.0)
    fixed[steps.part] += np.bincount(steps.owner, gain, minlength=len(steps.part))
    mass = steps.atom_mass[some]
    rest = np.maximum(np.exp(steps.log_mass[some]) - mass.sum(axis=1), 0.0)
    owner = steps.part[steps.owner[some]]
    return owner, steps.atom[some], rest, sparse.csr_array(mass)
