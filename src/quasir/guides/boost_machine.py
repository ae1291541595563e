"""The automata of a boost's groups, run together.

A state of the boost is a state of each group's automaton. Such joint states are made when a text
first gets there, so many groups cost no more than the states that texts reach.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from quasir.core.arguments import show
from quasir.errors import InputError
from quasir.guides.automaton import OPEN, Automaton
from quasir.guides.boost import Boost
from quasir.guides.machine import Entries, Ints, NumberedRows
from quasir.guides.vocabulary import Vocabulary

__all__ = ["BoostMachine"]


class BoostMachine:
    """A boost for a model's tokens.

    Attributes
    ----------
    names : list of str
        The factors, by name.
    atoms : list of tuple of int
        What an entry's weight is the product of: places in `names`.
    watched : bool
        Whether factors of 1 are listed too, because their masses are wanted.
    """

    def __init__(self, boost: Boost, vocabulary: Vocabulary, watched: bool = False) -> None:
        self.watched = watched
        self.kinds = vocabulary.kinds
        self.automata = [Automaton(group, vocabulary) for group in boost.groups]
        self.names = [
            f"{k} {name}" for k, automaton in enumerate(self.automata) for name in automaton.factors
        ]
        self._place = {name: i for i, name in enumerate(self.names)}
        self.log_factors = self._log_factors(boost)
        self.atoms: list[tuple[int, ...]] = []
        self._atom_of: dict[tuple[int, ...], int] = {}
        self._values: list[float] = []
        self._joint: list[tuple[int, ...]] = []
        self._id_of: dict[tuple[int, ...], int] = {}
        self._width, self._room = 1, 8
        self._tokens = np.full((self._room, 1), -1, dtype=np.int64)
        self._next = np.full((self._room, 1), -1, dtype=np.int64)
        self._atom = np.full((self._room, 1), -1, dtype=np.int64)
        self._otherwise = np.full((self._room, 4), -1, dtype=np.int64)
        self._state((OPEN,) * len(self.automata))

    @property
    def rare(self) -> NDArray[np.bool_]:
        """Which factors are those of rare spellings."""
        return np.array([name.split(" ", 2)[1] == "rare" for name in self.names])

    def _log_factors(self, boost: Boost) -> NDArray[np.float64]:
        fitted = dict(boost.fitted)
        logs = np.zeros(len(self.names))
        for i, name in enumerate(self.names):
            if fitted and name not in fitted:
                raise InputError(
                    f"the boost has no fitted factor for {show(name)}: it was fitted for a model "
                    "with other tokens. Fit it again."
                )
            group, kind = name.split(" ", 2)[:2]
            # A spelling of more tokens than needed often begins with a common token.
            given = 1.0 if kind == "rare" else boost.factors[int(group)]
            factor = fitted.get(name, given)
            logs[i] = np.nan if factor is None else np.log(factor)
        return logs

    def begin(self, n: int) -> NumberedRows:
        """Return n rows at the beginning of a text."""
        if np.isnan(self.log_factors).any():
            name = self.names[int(np.argmax(np.isnan(self.log_factors)))].split(" ", 3)[3]
            raise InputError(
                f"the boost has no factor for {show(name)}: give one, as in boost({{'word': 20}}), "
                "or fit it, as in base.guided(boost).fit(target, n=4_000, seed=0)."
            )
        return NumberedRows(self, np.zeros(n, dtype=np.int64))

    def entries(self, states: Ints) -> Entries:
        """Return the boosted tokens of rows in these states."""
        row, place = np.nonzero(self._atom[states] >= 0)
        at = states[row]
        atom = self._atom[at, place]
        value = np.array(self._values)[atom]
        if not self.watched:  # a factor of 1 changes nothing
            row, at, place, atom, value = (x[value != 1.0] for x in (row, at, place, atom, value))
        return Entries(row, self._tokens[at, place], value, atom)

    def after(self, states: Ints, tokens: Ints) -> Ints:
        """Return the states that these tokens lead to."""
        hits = self._tokens[states] == tokens[:, None]
        place, hit = hits.argmax(axis=1), hits.any(axis=1)
        kinds = self.kinds[tokens]
        found: Ints = np.where(hit, self._next[states, place], self._otherwise[states, kinds])
        for i in np.flatnonzero(found < 0):  # reached for the first time
            state, token, kind = int(states[i]), int(tokens[i]), int(kinds[i])
            reached = self._state(self._reached(state, token, kind))
            if hit[i]:
                self._next[state, place[i]] = reached
            else:
                self._otherwise[state, kind] = reached
            found[i] = reached
        return found

    def _reached(self, state: int, token: int, kind: int) -> tuple[int, ...]:
        reached = []
        for automaton, own in zip(self.automata, self._joint[state], strict=True):
            inner = automaton.states[own]
            edge = inner.edges.get(token)
            reached.append(inner.otherwise[kind] if edge is None else edge[0])
        return tuple(reached)

    def _state(self, joint: tuple[int, ...]) -> int:
        """Return the number of a joint state, which is made if it is new."""
        if joint in self._id_of:
            return self._id_of[joint]
        number = self._id_of[joint] = len(self._joint)
        self._joint.append(joint)
        factors: dict[int, list[int]] = {}
        for k, (automaton, own) in enumerate(zip(self.automata, joint, strict=True)):
            for token, (_, name) in automaton.states[own].edges.items():
                found = factors.setdefault(token, [])
                if name is not None:
                    found.append(self._place[f"{k} {name}"])
        self._make_room(number + 1, len(factors))
        for i, (token, names) in enumerate(sorted(factors.items())):
            self._tokens[number, i] = token
            self._atom[number, i] = self._atom_number(tuple(names)) if names else -1
        return number

    def _atom_number(self, names: tuple[int, ...]) -> int:
        if names not in self._atom_of:
            self._atom_of[names] = len(self.atoms)
            self.atoms.append(names)
            self._values.append(float(np.exp(self.log_factors[list(names)].sum())))
        return self._atom_of[names]

    def _make_room(self, states: int, width: int) -> None:
        self._width = max(self._width, width)
        while self._room < states:
            self._room *= 2
        for name in ("_tokens", "_next", "_atom"):
            old = getattr(self, name)
            if old.shape != (self._room, self._width):
                new = np.full((self._room, self._width), -1, dtype=np.int64)
                new[: old.shape[0], : old.shape[1]] = old
                setattr(self, name, new)
        if len(self._otherwise) < self._room:
            new = np.full((self._room, 4), -1, dtype=np.int64)
            new[: len(self._otherwise)] = self._otherwise
            self._otherwise = new
