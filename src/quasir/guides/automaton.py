"""How far a text is in spelling the words of a boost: automata over a model's tokens."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from quasir.core.formatting import short_repr
from quasir.core.types import Array
from quasir.errors import InputError
from quasir.guides.boost import Boost, feature_words
from quasir.guides.guide import Entries, Ints, Machine, Rows
from quasir.guides.vocabulary import Vocabulary
from quasir.targets.feature import Feature, WordGroup

OPEN, INSIDE, DONE = 0, 1, 2
"""The text ends with no letter or digit (or is empty); it ends with one; the word is there."""

BEGINS, ENDS = 1, 2
"""Bits of a token's kind: its text begins, or ends, with a letter or digit."""

Bits = NDArray[np.bool_]
Edges = dict[int, tuple[int, str | None]]
"""token -> (next state, name of its factor or None)."""


@dataclass
class Node:
    """A state of a group: where the tokens that matter lead, and any other token by its kind."""

    edges: Edges = field(default_factory=dict)
    otherwise: list[int] = field(default_factory=lambda: [OPEN, OPEN, INSIDE, INSIDE])


class Automaton:
    """The automaton of one group of words; each token of each spelling has a named factor."""

    def __init__(self, group: WordGroup, vocabulary: Vocabulary) -> None:
        self.group, self.vocabulary = group, vocabulary
        self.states = [Node(), Node(), Node(otherwise=[DONE] * 4)]
        self._whole: set[tuple[int, ...]] = set()
        usual: set[tuple[int, ...]] = set()
        for word in group.words:
            forms = {word} if group.case else {word, word.lower(), word[:1].upper() + word[1:]}
            texts = [text for form in sorted(forms) for text in (form, f" {form}")]
            sequences = {ids for text in texts if (ids := vocabulary.spelled(text))}
            if not group.whole:  # a longer token may contain it
                pieces = enumerate(vocabulary.pieces)
                sequences |= {(i,) for i, piece in pieces if any(t in piece for t in texts)}
            if not sequences:
                raise InputError(
                    f"no sequence of this model's tokens spells {short_repr(word)}, so it cannot "
                    "be boosted: correct the word, or leave it out."
                )
            fewest = min(map(len, sequences))
            usual.update(_prefixes(ids for ids in sequences if len(ids) == fewest))
            # Some spellings no tokenizer gives, but a model sometimes draws them.
            self._whole.update(sequences, *(vocabulary.split(text) for text in texts))
        # "usual" where the spelling has the fewest tokens of its word's.
        self._names = {
            ids: f"{'usual' if ids in usual else 'rare'} {'begin' if len(ids) == 1 else 'go-on'} "
            + "|".join(vocabulary.pieces[i] for i in ids)
            for ids in _prefixes(self._whole)
        }
        self._node = {ids: self._new_state(ids) for ids in sorted(self._names)}
        self._connect()
        self.factors = sorted(set(self._names.values()))

    def _new_state(self, ids: tuple[int, ...]) -> int:
        complete = ids in self._whole
        if complete and not self.group.whole:
            return DONE
        # A complete word that a letter follows was another word.
        otherwise = [DONE, OPEN, DONE, INSIDE] if complete else [OPEN, OPEN, INSIDE, INSIDE]
        self.states.append(Node(otherwise=otherwise))
        return len(self.states) - 1

    def _connect(self) -> None:
        kinds = self.vocabulary.kinds
        for ids, node in self._node.items():
            if len(ids) == 1:
                at_any_place = not self.group.whole or not kinds[ids[0]] & BEGINS
                for state in (OPEN, INSIDE) if at_any_place else (OPEN,):
                    self.states[state].edges[ids[0]] = node, self._names[ids]
            else:
                parent = self._node[ids[:-1]]
                if parent != DONE:
                    there = ids[:-1] in self._whole  # going on is no better than stopping
                    name = None if there else self._names[ids]
                    self.states[parent].edges[ids[-1]] = node, name
        for ids, node in self._node.items():
            if node != DONE and ids not in self._whole:
                begin = self.states[INSIDE if kinds[ids[-1]] & ENDS else OPEN].edges
                self.states[node].edges = _merged(begin, self.states[node].edges)


def _merged(begin: Edges, go_on: Edges) -> Edges:
    """Return both; a token that goes on with a rare spelling may begin a usual one as well."""
    merged = begin | go_on
    for token in begin.keys() & go_on.keys():
        first, second = begin[token][1], go_on[token][1]
        usual = first is not None and first.startswith("usual")
        merged[token] = go_on[token][0], first if usual else second
    return merged


def _prefixes(sequences: Iterable[tuple[int, ...]]) -> set[tuple[int, ...]]:
    """Return all beginnings of some sequences of tokens, the empty one excepted."""
    return {ids[:stop] for ids in sequences for stop in range(1, len(ids) + 1)}


class BoostMachine(Machine):
    """A boost for a model's tokens; joint states of its groups are made when a text gets there."""

    def __init__(self, boost: Boost, vocabulary: Vocabulary, watched: bool = False) -> None:
        self.watched, self.kinds, self.vocabulary = watched, vocabulary.kinds, vocabulary
        self.automata = [Automaton(group, vocabulary) for group in boost.groups]
        self.names = [
            f"{k} {name}" for k, each in enumerate(self.automata) for name in each.factors
        ]
        self._place = {name: i for i, name in enumerate(self.names)}
        self.log_factors = self._log_factors(boost)
        # An atom is what an entry's weight is the product of: places in `names`.
        self.atoms: list[tuple[int, ...]] = []
        self._atom_of: dict[tuple[int, ...], int] = {}
        self._values: list[float] = []
        self._id_of: dict[tuple[int, ...], int] = {}
        # Of every joint state: the tokens that matter, where each leads, its atom; where any other
        # token leads, by its kind. -1 where there is none, or where no text has been yet.
        self._tokens, self._next, self._atom = np.full((3, 8, 1), -1, dtype=np.int64)
        self._otherwise = np.full((8, 4), -1, dtype=np.int64)
        self.joint = np.full((8, len(self.automata)), -1, dtype=np.int64)  # a state per group
        self._state((OPEN,) * len(self.automata))

    @property
    def name_parts(self) -> list[tuple[str, ...]]:
        """Of every name: the group, usual or rare, begin or go-on, the spelling."""
        return [tuple(name.split(" ", 3)) for name in self.names]

    def _log_factors(self, boost: Boost) -> Array:
        fitted = dict(boost.fitted)
        logs = np.zeros(len(self.names))
        for i, name in enumerate(self.names):
            group, kind, *_ = self.name_parts[i]
            if fitted and name not in fitted:
                raise InputError(
                    f"the boost was fitted for other tokens, without {short_repr(name)}: fit again."
                )
            # A spelling of more tokens than needed often begins with a common token.
            given = 1.0 if kind == "rare" else boost.factors[int(group)]
            factor = fitted.get(name, given)
            logs[i] = np.nan if factor is None else np.log(factor)
        return logs

    def begin(self, n: int) -> Rows:
        """Return n rows at the beginning of a text."""
        if np.isnan(self.log_factors).any():
            name = self.name_parts[int(np.argmax(np.isnan(self.log_factors)))][3]
            raise InputError(
                f"the boost has no factor for {short_repr(name)}: give one, as in "
                "boost({'word': 20}), or fit it, as in "
                "base.guided(boost).fit(target, n=4_000, seed=0)."
            )
        return super().begin(n)

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
        inner = [each.states[i] for each, i in zip(self.automata, self.joint[state], strict=True)]
        return tuple(node.edges.get(token, (node.otherwise[kind], None))[0] for node in inner)

    def _state(self, joint: tuple[int, ...]) -> int:
        """Return the number of a joint state, which is made if it is new."""
        if joint in self._id_of:
            return self._id_of[joint]
        number = self._id_of[joint] = len(self._id_of)
        factors: dict[int, list[int]] = {}
        for k, (automaton, own) in enumerate(zip(self.automata, joint, strict=True)):
            for token, (_, name) in automaton.states[own].edges.items():
                found = factors.setdefault(token, [])
                if name is not None:
                    found.append(self._place[f"{k} {name}"])
        self._make_room(number + 1, len(factors))
        self.joint[number] = joint
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
        room = len(self._otherwise)
        while room < states:
            room *= 2
        width = max(width, self._tokens.shape[1])
        for name in ("_tokens", "_next", "_atom", "_otherwise", "joint"):
            old = getattr(self, name)
            columns = old.shape[1] if name in ("_otherwise", "joint") else width
            if old.shape != (room, columns):
                more = ((0, room - old.shape[0]), (0, columns - old.shape[1]))
                setattr(self, name, np.pad(old, more, constant_values=-1))


class State(Machine):
    """What a text says of some features so far: a bit for each word group or other feature.

    `every` is the number of tokens between two questions to a feature that names no words; `met`
    are the bits that say that a feature holds, by its name.
    """

    def __init__(self, features: Sequence[Feature], vocabulary: Vocabulary, every: int = 1) -> None:
        self.features, self.every = tuple(features), every
        self.groups: list[WordGroup] = []
        self.asked: list[Feature] = []
        self.met: dict[str, int] = {}
        for feature in self.features:
            groups = feature_words(feature)
            if len(groups) == 1 and not feature._made_of:
                self.met[feature.name] = len(self.groups)
            self.groups += groups
            self.asked += [] if groups else [feature]
        for i, feature in enumerate(self.asked):
            self.met[feature.name] = len(self.groups) + i
        boost = Boost(tuple(self.groups), (1.0,) * len(self.groups))
        self.words = BoostMachine(boost, vocabulary) if self.groups else None
        self.pieces = vocabulary.pieces if self.asked else []
        self.end = vocabulary.end

    @property
    def bits(self) -> int:
        """How many truth values a state has."""
        return len(self.groups) + len(self.asked)

    def begin(self, n: int) -> StateRows:
        """Return n rows at the beginning of a text, where no bit is set."""
        return StateRows(self, n)


class StateRows(Rows):
    """The states of the rows of a batch."""

    columns = ("bits", "places", "read", "texts")

    def __init__(self, state: State, n: int) -> None:
        self.state, self.bits = state, np.zeros((n, state.bits), dtype=bool)
        self.places = np.zeros(n, dtype=np.int64)  # in the automaton of the words
        self.read = np.zeros(n, dtype=np.int64)
        self.texts = np.full(n, "", dtype=object)

    def advance(self, tokens: Ints) -> None:
        """Move every row on by one token."""
        state = self.state
        if state.words is not None:
            self.places = state.words.after(self.places, tokens)
            self.bits[:, : len(state.groups)] = state.words.joint[self.places] == DONE
        if not state.asked:
            return
        self.read += 1
        going = tokens != state.end
        for i in np.flatnonzero(going).tolist():
            self.texts[i] += state.pieces[tokens[i]]
        now = np.flatnonzero((self.read % state.every == 0) & going)
        if len(now):
            for i, feature in enumerate(state.asked, start=len(state.groups)):
                self.bits[now, i] = feature(self.texts[now].tolist())
