"""The split of the questions: nothing that judges a model was seen in training."""

import gzip
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "training"))
pytest.importorskip("torch")

from held_out import held_out
from splitting import Pair, key_of, read_pairs, split_by, split_questions


def made(seed=0, questions=3000, pairs=1500):
    """Return questions and pairs that connect some of them, in chains too."""
    rng = np.random.default_rng(seed)
    texts = [f"What is the number {i} of this list?" for i in range(questions)]
    ends = rng.integers(questions, size=(pairs, 2))
    return texts, [Pair(texts[a], texts[b], bool(rng.random() < 0.8)) for a, b in ends if a != b]


def crossing(parts, pairs):
    """Return the pairs with questions in two of the parts."""
    where = {key_of(text): i for i, part in enumerate(parts) for text in part}
    return [pair for pair in pairs if where[key_of(pair.first)] != where[key_of(pair.second)]]


def test_no_held_out_question_is_in_training():
    texts, pairs = made()
    split = split_questions(texts, pairs)
    seen = {key_of(text) for text in split.questions.training}
    seen |= {key_of(text) for pair in split.pairs.training for text in pair[:2]}
    for part in (1, 2):
        unseen = {key_of(text) for text in split.questions[part]}
        unseen |= {key_of(text) for pair in split.pairs[part] for text in pair[:2]}
        assert len(unseen) > 20
        assert not unseen & seen
    assert not crossing(split.questions, pairs)
    assert sum(map(len, split.questions)) == len(texts)
    assert sum(map(len, split.pairs)) == len(pairs)


def test_a_split_of_each_question_by_itself_would_fail_this():
    texts, pairs = made()
    assert crossing(split_by(texts, key_of, 0.02, 0.08), pairs)


def test_the_same_words_are_the_same_question():
    texts = [f"Is {i} odd?" for i in range(500)]
    again = [text.lower().replace("?", " ?!") for text in texts]
    split = split_questions(texts + again, [])
    for part in split.questions:
        assert {key_of(t) for t in part if t in texts} == {key_of(t) for t in part if t in again}


def test_the_order_of_the_file_does_not_matter_and_the_shares_are_met():
    texts, pairs = made(questions=20_000, pairs=2000)
    once, again = (
        split_questions(t, p).questions for t, p in ((texts, pairs), (texts[::-1], pairs[::-1]))
    )
    assert [sorted(part) for part in once] == [sorted(part) for part in again]
    assert len(once.judgement) / len(texts) == pytest.approx(0.08, abs=0.01)
    assert len(once.choice) / len(texts) == pytest.approx(0.02, abs=0.006)


def test_a_line_that_is_no_pair_is_named(tmp_path):
    path = tmp_path / "pairs.tsv.gz"
    with gzip.open(path, "wt") as file:
        file.write("a?\tb?\t1\na?\tc?\t0\n")
    assert read_pairs(path) == [Pair("a?", "b?", True), Pair("a?", "c?", False)]
    with gzip.open(path, "at") as file:
        file.write("a?\tb?\t2\n")
    with pytest.raises(SystemExit, match="line 3"):
        read_pairs(path)


def test_the_questions_of_the_paraphrases_are_held_out_and_one_a_group():
    texts, pairs = made()
    found, again = (
        held_out(split_questions(texts, p), 12, words=20) for p in (pairs, [*pairs, pairs[0]])
    )
    assert found == again
    assert len(found) == 12
    split = split_questions(texts, pairs)
    assert not {key_of(text) for text in found} & {key_of(t) for t in split.questions.training}
    assert len({split.group[key_of(text)] for text in found}) == 12
    assert not held_out(split, 12, words=3)
