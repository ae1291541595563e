"""What log q of a boosted model depends on: the masses of a few classes of tokens.

At each step of a text let m_0 be the mass of the tokens that are not boosted, and m_j that of the
tokens with the factor c_j. Then log q(x) is log a(x) plus, for every step, log c(x_t) - log(m_0 +
sum_j m_j c_j). The masses are found once; log q for any factors then needs no model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from scipy import sparse

from quasir.core.types import Array
from quasir.guides.automaton import BoostMachine, State
from quasir.guides.guide import Ints, Machine
from quasir.text.guided_decoding import Compiled
from quasir.text.guided_scores import Steps, guided_steps
from quasir.text.texts import Texts

if TYPE_CHECKING:
    from quasir.text.causal import CausalLM


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
