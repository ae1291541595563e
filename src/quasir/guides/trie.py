"""The frozen trie: what draws have shown of the mass that a language keeps.

Park et al., Grammar-aligned decoding (ASAp, NeurIPS 2024); CARS, arXiv 2510.01902.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quasir.core.types import Array
from quasir.guides.guide import FACTS, Entries, Guide, Ints, Machine, Setting
from quasir.guides.vocabulary import Vocabulary

COLUMNS = ("parent", "token", "probability", "mass", "cut")
"""What is known of every node."""
SLACK = 1e-5
"""Part of a node's mass that stays unexplored: float32 sums are off by less, so c(s) is a bound."""


class Trie(Guide):
    """A frozen trie of prefixes. Node 0 is the empty prefix; a parent comes before its children.

    For a prefix s, c(s) bounds the mass of its completions in the language, given s: 1 where
    nothing is known, and at a visited prefix the sum of a(v | s) c(sv). The token v has the weight
    c(sv), so q(x) = a(x) c(x)/c(root), and no ratio a/q of a text in the language exceeds c(root).

    Attributes
    ----------
    parent, token : array of int
        The node that each node follows, and by which token; -1 for the root.
    probability : array of float
        The model's probability of that token.
    mass : array of float
        The mass of the tokens that the language allows next. For a text that was cut, 1 if it is
        in the language and 0 if not.
    cut : array of bool
        Whether the node is a text that was cut.
    setting : Setting or None
        Where it was learned. No other model or language can use it, and none can if it is None.

    Examples
    --------
    >>> import quasir as qr
    >>> base = qr.text.CausalLM("quasir/biographies", max_tokens=6)
    >>> q = base.guided(qr.guides.choice(["He was", "She was"]))
    >>> draws = qr.draw(base * q.guide.feature, q, 50, seed=0)
    >>> isinstance(q.learn(draws).guide.parts[-1], Trie)
    True
    """

    forbids = True

    def __init__(
        self,
        parent: ArrayLike,
        token: ArrayLike,
        probability: ArrayLike,
        mass: ArrayLike,
        cut: ArrayLike,
        setting: Setting | None = None,
    ) -> None:
        self.parent: Ints = np.array(parent, dtype=np.int64)
        self.token: Ints = np.array(token, dtype=np.int64)
        self.probability: Array = np.array(probability, dtype=np.float64)
        self.mass: Array = np.array(mass, dtype=np.float64)
        self.cut: NDArray[np.bool_] = np.array(cut, dtype=bool)
        self.setting = setting

    @property
    def depends_on(self) -> tuple[str, ...]:
        """All facts: c(s) is true nowhere else."""
        return FACTS

    def __len__(self) -> int:
        return len(self.parent)

    @cached_property
    def bound(self) -> Array:
        """c(s) of every node, summed from the leaves up."""
        c = np.where(self.cut, self.mass, self.mass * (1 + SLACK))
        least = np.where(self.cut, 0.0, SLACK * self.mass)
        for node in range(len(c) - 1, -1, -1):
            c[node] = min(max(c[node], least[node]), 1.0)
            if node:
                c[self.parent[node]] -= self.probability[node] * (1.0 - c[node])
        return c

    def compile(self, vocabulary: Vocabulary) -> TrieMachine:
        """Return the trie as a machine."""
        return TrieMachine(self, vocabulary.size)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready dictionary."""
        return {
            "guide": "trie",
            **{name: getattr(self, name).tolist() for name in COLUMNS},
            "setting": None if self.setting is None else self.setting.to_dict(),
        }

    @cached_property
    def fingerprint(self) -> str:
        """A hash of all that the weights depend on; found once, since a trie may be large."""
        return super().fingerprint

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Trie) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        return f"<trie of {len(self):,} prefixes, c(root) = {self.bound[0]:.4g}>"


class TrieBuilder:
    """Grows a trie. A prefix that is known already is not counted again."""

    def __init__(self, trie: Trie | None = None) -> None:
        columns = [] if trie is None else [getattr(trie, name).tolist() for name in COLUMNS]
        self._nodes: list[tuple[Any, ...]] = list(zip(*columns, strict=True))
        self._number = {node[:2]: i for i, node in enumerate(self._nodes)}

    def visit(self, parent: int, token: int, probability: float, mass: float, cut: bool) -> int:
        """Return the node of a prefix, which is made if it is new; -1 as parent makes the root."""
        number = self._number.setdefault((parent, token), len(self._nodes))
        if number == len(self._nodes):
            self._nodes.append((parent, token, probability, mass, cut))
        return number

    def freeze(self, setting: Setting | None = None) -> Trie:
        """Return what is known, as a guide for this setting."""
        columns: Any = zip(*self._nodes, strict=True) if self._nodes else [()] * len(COLUMNS)
        return Trie(**dict(zip(COLUMNS, columns, strict=True)), setting=setting)


class TrieMachine(Machine):
    """A trie for a model's tokens; the state after its last node is "off the trie"."""

    def __init__(self, trie: Trie, vocabulary: int) -> None:
        nodes = len(trie)
        self.off, self.vocabulary = nodes, vocabulary
        child = np.arange(1, nodes)
        key = trie.parent[child] * vocabulary + trie.token[child]
        order = np.argsort(key)
        self._child, self._key = child[order], key[order]
        self._token, self._value = trie.token[self._child], trie.bound[self._child]
        self._offsets = np.searchsorted(trie.parent[self._child], np.arange(nodes + 2))

    def entries(self, states: Ints) -> Entries:
        """Return the weights of the tokens that lead to known prefixes."""
        starts = self._offsets[states]
        lengths = self._offsets[states + 1] - starts
        row = np.repeat(np.arange(len(states)), lengths)
        # Entry j of a state stands at the state's start plus j.
        place = np.arange(len(row)) - np.repeat(np.cumsum(lengths) - lengths - starts, lengths)
        return Entries(row, self._token[place], self._value[place], np.full(len(row), -1))

    def after(self, states: Ints, tokens: Ints) -> Ints:
        """Return the nodes that these tokens lead to."""
        if not len(self._key):
            return np.full(len(states), self.off)
        key = states * self.vocabulary + tokens
        place = np.minimum(np.searchsorted(self._key, key), len(self._key) - 1)
        found: Ints = np.where(self._key[place] == key, self._child[place], self.off)
        return found
