"""The automaton of a group of words, over a model's tokens: how far the text is in spelling one.

Its states are the two ends that a text can have (after a letter or digit, or not), the inner nodes
of the trie of the words' tokens, a word that is complete if no letter follows, and "the word is
there", where nothing is boosted any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from quasir.core.arguments import show
from quasir.errors import InputError
from quasir.guides.vocabulary import Vocabulary
from quasir.targets.word_group import WordGroup

__all__ = ["OPEN", "Automaton", "State"]

OPEN, INSIDE, DONE = 0, 1, 2
"""The text ends with no letter or digit (or is empty); it ends with one; the word is there."""

BEGINS, ENDS = 1, 2
"""Bits of a token's kind: its text begins, or ends, with a letter or digit."""


Edges = dict[int, tuple[int, str | None]]


@dataclass
class State:
    """A state: what the tokens that matter lead to, and where any other token leads.

    Attributes
    ----------
    edges : dict
        token -> (next state, name of its factor or None).
    otherwise : list of int
        The next state after any other token, by its kind.
    """

    edges: Edges = field(default_factory=dict)
    otherwise: list[int] = field(default_factory=lambda: [OPEN, OPEN, INSIDE, INSIDE])


class Automaton:
    """The automaton of one group of words.

    Parameters
    ----------
    group : WordGroup
    vocabulary : Vocabulary

    Attributes
    ----------
    states : list of State
    factors : list of str
        The names of the factors, one for each token of each spelling: "usual" if the spelling has
        the fewest tokens of its word's, else "rare"; "begin" or "go-on"; and the tokens so far.
    """

    def __init__(self, group: WordGroup, vocabulary: Vocabulary) -> None:
        self.group, self.vocabulary = group, vocabulary
        self.states = [State(), State(), State(otherwise=[DONE] * 4)]
        self._whole: set[tuple[int, ...]] = set()
        usual: set[tuple[int, ...]] = set()
        for word in group.words:
            sequences = set(self._spellings(word))
            if not sequences:
                raise InputError(
                    f"no sequence of this model's tokens spells {show(word)}, so it cannot be "
                    "boosted: correct the word, or leave it out."
                )
            fewest = min(map(len, sequences))
            usual.update(_prefixes(ids for ids in sequences if len(ids) == fewest))
            self._whole.update(sequences, self._other_spellings(word))
        self._names = {
            ids: f"{'usual' if ids in usual else 'rare'} {'begin' if len(ids) == 1 else 'go-on'} "
            + "|".join(vocabulary.pieces[i] for i in ids)
            for ids in _prefixes(self._whole)
        }
        self._node = {ids: self._new_state(ids) for ids in sorted(self._names)}
        self._connect()
        self.factors = sorted(set(self._names.values()))

    def _forms(self, word: str) -> list[str]:
        """Return the ways to write a word, with and without a space before it."""
        forms = {word}
        if not self.group.case:
            forms |= {word.lower(), word[:1].upper() + word[1:]}
        return [text for form in sorted(forms) for text in (form, f" {form}")]

    def _spellings(self, word: str) -> Iterator[tuple[int, ...]]:
        """Yield the tokens that the tokenizer spells a word with."""
        for text in self._forms(word):
            if ids := self.vocabulary.spelled(text):
                yield ids
            if not self.group.whole:  # a longer token may contain it
                yield from ((i,) for i, piece in enumerate(self.vocabulary.pieces) if text in piece)

    def _other_spellings(self, word: str) -> Iterator[tuple[int, ...]]:
        """Yield spellings that no tokenizer gives, but that a model sometimes draws."""
        for text in self._forms(word):
            yield from self.vocabulary.split(text)

    def _new_state(self, ids: tuple[int, ...]) -> int:
        complete = ids in self._whole
        if complete and not self.group.whole:
            return DONE
        # A complete word that a letter follows was another word.
        otherwise = [DONE, OPEN, DONE, INSIDE] if complete else [OPEN, OPEN, INSIDE, INSIDE]
        self.states.append(State(otherwise=otherwise))
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
