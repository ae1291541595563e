"""`qr.choose` on models small enough to list every text."""

import numpy as np
import pytest

import quasir as qr
from quasir.text.choices import choose
from tests.guides.small import LETTERS, all_ids, bytes_of, model


def by_hand(lm, prompt, answer, end):
    """Return the mass of an answer, by the listing of all texts of up to six tokens."""
    longer = lm.varied(prompt=prompt, max_tokens=6)
    wanted = f"{answer}{end or ''}".encode()
    known = len(lm.tokenizer)  # a token that the tokenizer does not know spells nothing
    ids = [one for one in all_ids(longer) if all(i < known for i in one)]
    spelled = [bytes_of(longer, one) for one in ids]
    if end is None:  # a text of six tokens may have been cut
        fits = [text == wanted and len(one) < 6 for text, one in zip(spelled, ids, strict=True)]
    else:
        fits = [text.startswith(wanted) for text in spelled]
    chosen = [one for one, fit in zip(ids, fits, strict=True) if fit]
    return np.exp(longer.log_prob(qr.text.Texts.of(chosen, longer.tokenizer))).sum()


@pytest.mark.parametrize("end", [None, " "])
def test_every_spelling_of_an_answer_counts(end):
    lm = model(LETTERS, limit=2, seed=7)
    answers = ["a", "ab", "aba"]
    found = choose(lm, "b ", answers, end=end)
    exact = [by_hand(lm, "b ", answer, end) for answer in answers]
    np.testing.assert_allclose(found.probabilities, exact, atol=1e-6)
    assert found.outside == pytest.approx(1 - sum(exact), abs=1e-6)
    assert found.uncounted < 1e-6
    canonical = lm.varied(prompt="b ", max_tokens=6)
    alone = np.exp(canonical.log_prob(canonical.encode(answers)))
    if end is None:  # the tokenizer's own spellings alone would miss some of it
        assert found.probabilities.sum() > alone.sum() * 1.05


def test_a_space_before_the_answer_and_other_tokens_than_the_tokenizers():
    lm = model(LETTERS, limit=2, spare=3)
    found = choose(lm, "b", ["a"])
    assert found.probabilities[0] == pytest.approx(by_hand(lm, "b", " a", None), abs=1e-6)


def test_shares_and_text():
    found = qr.text.Choices(("yes", "no"), np.array([0.3, 0.1]), 0.6, 0.0)
    assert found.shares.tolist() == pytest.approx([0.75, 0.25])
    assert found.to_dict()["probabilities"] == {"yes": 0.3, "no": 0.1}
    with pytest.raises(qr.errors.InputError, match="no shares"):
        _ = qr.text.Choices(("yes",), np.zeros(1), 1.0, 0.0).shares


@pytest.mark.parametrize(
    ("answers", "settings", "words"),
    [
        ("yes", {}, "must be a list"),
        ([], {}, "must be a list"),
        (["a", "a"], {}, "no two of them"),
        ([""], {}, "must be a list"),
        (["a"], {"top_k": 2}, "leave out top_k"),
        (["a", "aba"], {}, "another answer begins with 'ab'"),
    ],
)
def test_what_cannot_be_chosen(answers, settings, words):
    with pytest.raises(qr.errors.InputError, match=words):
        choose(model(LETTERS, limit=2, **settings), "b", answers, end="b")
