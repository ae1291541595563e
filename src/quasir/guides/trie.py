"""The frozen trie: what draws have shown of the mass that a language keeps (ASAp, CARS).

For a prefix s, c(s) bounds the mass of its completions in the language, given s. Where nothing is
known it is 1, and where a token is forbidden it is 0. At a prefix that was visited, the model's own
probabilities are known, and c(s) is the sum of a(v | s) c(sv) over the tokens v. The guide gives
the token v the weight c(sv). The normaliser at s is then c(s) itself, and the product telescopes:
q(x) = a(x) c(x)/c(root). So no ratio a/q of a text in the language is above c(root).

Park et al., Grammar-aligned decoding (NeurIPS 2024); CARS, arXiv 2510.01902.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quasir.core.types import Array
from quasir.guides.guide import Guide
from quasir.guides.machine import Entries, Ints, NumberedRows, csr_rows
from quasir.guides.vocabulary import Vocabulary

__all__ = ["Trie", "TrieBuilder"]

SLACK = 1e-5
"""Part of a node's mass that stays unexplored: float32 sums are off by less, so c(s) is a bound."""


class Trie(Guide):
    """A frozen trie of prefixes. Node 0 is the empty prefix; a parent comes before its children.

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

    Examples
    --------
    >>> import quasir as qr
    >>> base = qr.text.CausalLM("quasir/biographies", max_tokens=6)
    >>> q = base.guided(qr.guides.choice(["He was", "She was"]))
    >>> draws = qr.draw(base * q.guide.feature, q, 50, seed=0)
    >>> isinstance(q.learn(draws).guide.parts[-1], Trie)
    True
    """

    def __init__(
        self,
        parent: Ints,
        token: Ints,
        probability: Array,
        mass: Array,
        cut: NDArray[np.bool_],
    ) -> None:
        self.parent, self.token, self.probability = parent, token, probability
        self.mass, self.cut = mass, cut

    @property
    def below_one(self) -> bool:
        """True: c(s) is at most 1."""
        return True

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

    def compiled(self, vocabulary: Vocabulary) -> TrieMachine:
        """Return the trie as a machine."""
        return TrieMachine(self, vocabulary.size)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready dictionary."""
        return {
            "guide": "trie",
            "parent": self.parent.tolist(),
            "token": self.token.tolist(),
            "probability": self.probability.tolist(),
            "mass": self.mass.tolist(),
            "cut": self.cut.tolist(),
        }

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Trie) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        return f"<trie of {len(self):,} prefixes, c(root) = {self.bound[0]:.4g}>"


class TrieBuilder:
    """Grows a trie. A prefix that is known already is not counted again.

    Parameters
    ----------
    trie : Trie, optional
        What is known already.
    """

    def __init__(self, trie: Trie | None = None) -> None:
        self.parent: list[int] = []
        self.token: list[int] = []
        self.probability: list[float] = []
        self.mass: list[float] = []
        self.cut: list[bool] = []
        if trie is not None:
            self.parent, self.token = trie.parent.tolist(), trie.token.tolist()
            self.probability, self.mass = trie.probability.tolist(), trie.mass.tolist()
            self.cut = trie.cut.tolist()
        self._node = {pair: i for i, pair in enumerate(zip(self.parent, self.token, strict=True))}

    def visit(self, parent: int, token: int, probability: float, mass: float, cut: bool) -> int:
        """Return the node of a prefix, which is made if it is new; -1 as parent makes the root."""
        node = self._node.get((parent, token))
        if node is None:
            node = self._node[parent, token] = len(self.parent)
            self.parent.append(parent)
            self.token.append(token)
            self.probability.append(probability)
            self.mass.append(mass)
            self.cut.append(cut)
        return node

    def frozen(self) -> Trie:
        """Return what is known, as a guide."""
        return Trie(
            np.array(self.parent, dtype=np.int64),
            np.array(self.token, dtype=np.int64),
            np.array(self.probability),
            np.array(self.mass),
            np.array(self.cut, dtype=bool),
        )


class TrieMachine:
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

    def begin(self, n: int) -> NumberedRows:
        """Return n rows at the root."""
        return NumberedRows(self, np.zeros(n, dtype=np.int64))

    def entries(self, states: Ints) -> Entries:
        """Return the weights of the tokens that lead to known prefixes."""
        row, place = csr_rows(self._offsets, states)
        return Entries(row, self._token[place], self._value[place], np.full(len(row), -1))

    def after(self, states: Ints, tokens: Ints) -> Ints:
        """Return the nodes that these tokens lead to."""
        key = states * self.vocabulary + tokens
        place = np.minimum(np.searchsorted(self._key, key), max(len(self._key) - 1, 0))
        if not len(self._key):
            return np.full(len(states), self.off)
        found: Ints = np.where(self._key[place] == key, self._child[place], self.off)
        return found
