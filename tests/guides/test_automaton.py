"""The automaton of words against the features that look for them, on every text."""

import itertools

import numpy as np
import pytest

import quasir as qr
from quasir.guides.automaton import DONE, Automaton
from quasir.guides.vocabulary import Vocabulary
from quasir.targets.feature import WordGroup
from tests.guides.small import byte_tokenizer

PIECES = ("a", "b", " ", "ab", " a", " b", " ab", ".", "c")
MERGES = [("a", "b"), (" ", "a"), (" ", "b"), (" ", "ab"), (" a", "b")]


def vocabulary():
    tokenizer = byte_tokenizer(PIECES, MERGES[:3])
    return Vocabulary(tokenizer, len(tokenizer), 0)


def walked(automaton, ids, kinds):
    state = 0
    for token in ids:
        inner = automaton.states[state]
        edge = inner.edges.get(token)
        state = inner.otherwise[kinds[token]] if edge is None else edge[0]
    return state


def canonical(known, length):
    """Yield the texts that the tokenizer spells as it would."""
    for ids in itertools.product(range(1, known.size), repeat=length):
        text = known.decoded(list(ids))
        if known.spelled(text) == ids and text == known.decoded(list(ids)):
            yield ids, text


@pytest.mark.parametrize(
    ("group", "feature"),
    [
        (WordGroup(("ab",)), qr.features.words(["ab"])),
        (WordGroup(("ab", "ba")), qr.features.words(["ab", "ba"])),
        (WordGroup(("abc", "b")), qr.features.words(["abc", "b"])),
        (WordGroup(("ab",), whole=False, case=True), qr.features.contains("ab", case=True)),
    ],
    ids=str,
)
def test_the_word_is_there_when_the_feature_says_so(group, feature):
    """A complete word at the end of a text counts too: nothing follows it."""
    known = vocabulary()
    automaton = Automaton(group, known)
    texts = [pair for n in range(1, 5) for pair in canonical(known, n)]
    assert len(texts) > 300
    wanted = feature([text for _, text in texts])
    found = np.array([walked(automaton, ids, known.kinds) for ids, _ in texts])
    pending = {
        state
        for state, inner in enumerate(automaton.states)
        if state != DONE and inner.otherwise[0] == DONE
    }
    there = (found == DONE) | np.isin(found, list(pending))
    np.testing.assert_array_equal(there, wanted)
    assert 10 < wanted.sum() < len(wanted) - 10


def test_boosted_tokens_lead_to_the_word():
    known = vocabulary()
    automaton = Automaton(WordGroup(("abc",)), known)
    pieces = known.pieces
    begins = {pieces[t]: name for t, (_, name) in automaton.states[1].edges.items()}
    assert begins == {" ": "rare begin  ", " ab": "rare begin  ab"}
    done = automaton.states[DONE]
    assert done.edges == {}
    assert set(done.otherwise) == {DONE}


def test_kinds_of_tokens():
    known = vocabulary()
    kinds = dict(zip(known.pieces, known.kinds.tolist(), strict=True))
    assert [kinds[p] for p in ("a", " ", " a", ".", "ab")] == [3, 0, 2, 0, 3]


def test_pieces_of_a_tokenizer_of_whole_words():
    """A tokenizer that puts spaces between its tokens."""
    from tests.text.tiny import tokenizer

    tok = tokenizer(("a", "b"), bos="<e>", eos="<e>")
    known = Vocabulary(tok, len(tok) + 1, tok.eos_token_id)
    assert known.pieces[1:3] == [" a", " b"]
    assert known.pieces[-1] == ""
    assert known.spelled("b") == (2,)
    automaton = Automaton(WordGroup(("b",)), known)
    assert 2 in automaton.states[0].edges
    assert 2 in automaton.states[1].edges


def test_features_say_their_words():
    f = qr.features
    assert f.words(["b", "a"]).word_groups == (WordGroup(("b", "a")),)
    assert f.contains("a b").word_groups == (WordGroup(("a b",), whole=False, case=True),)
    assert f.female.word_groups[0].words == ("she", "her", "herself")
    assert f.female.word_groups[1].words == ("he", "him", "himself")
    assert f.length().word_groups == ()
    both = qr.guides.boost((f.science & f.female) | ~f.sports)
    assert len(both.groups) == 4
