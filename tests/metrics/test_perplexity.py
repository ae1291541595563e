"""Perplexity against sums by hand over one text at a time."""

import math

import numpy as np
import pytest

import quasir as qr
from quasir.metrics import perplexity

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

from tests.text.tiny import by_hand, every_text, gpt2, tokenizer  # noqa: E402


def make(limit=4, **settings):
    tok = tokenizer(("a", "b", "c"), bos="<e>", eos="<e>", pad="<e>")
    return qr.text.CausalLM(model=gpt2(len(tok)), tokenizer=tok, max_tokens=limit, **settings)


def hand(lm, sequences):
    total = sum(by_hand(lm, ids) for ids in sequences)
    tokens = sum(len(ids) if len(ids) == lm.max_tokens else len(ids) + 1 for ids in sequences)
    return math.exp(-total / tokens)


@pytest.mark.parametrize("settings", [{}, {"temperature": 0.7}, {"prompt": "a b"}], ids=str)
def test_by_hand(settings):
    lm = make(**settings)
    sequences = [[1, 2], [3], [], [2, 2, 1, 3], [1, 1, 1]]
    texts = qr.text.Texts.of(sequences, lm.tokenizer)
    want = hand(lm, sequences)
    assert perplexity(texts, lm) == pytest.approx(want, rel=1e-5)
    assert perplexity(list(texts), lm) == pytest.approx(want, rel=1e-5)
    assert perplexity(["a b", "c", "", "b b a c", "a a a"], lm) == pytest.approx(want, rel=1e-5)
    given = perplexity(texts, lm, tokens=[3, 2, 1, 4, 4])
    assert given == pytest.approx(want, rel=1e-5)
    # Without the end tokens, or with one for the text that was cut, it is another number.
    for wrong in ([2, 1, 0, 4, 3], [3, 2, 1, 5, 4]):
        assert abs(perplexity(texts, lm, tokens=wrong) - want) > 1e-2


def test_of_the_models_own_draws_it_is_the_entropy_per_token():
    lm = make()
    texts = every_text(lm)
    log_prob = lm.log_prob(texts)
    p = np.exp(log_prob)
    tokens = texts.lengths + (texts.lengths < 4)
    want = math.exp(-(p @ log_prob) / (p @ tokens))
    drawn = lm.sample(4000, np.random.default_rng(0)).items
    assert perplexity(drawn, lm) == pytest.approx(want, rel=0.05)


def test_what_the_base_cannot_give_is_infinite():
    lm = make(limit=2)
    texts = qr.text.Texts.of([[1], [1, 2, 3]], lm.tokenizer)
    with pytest.warns(qr.errors.QuasirWarning, match="1 of 2 texts have probability 0") as caught:
        assert perplexity(texts, lm) == math.inf
    assert "a b c" in str(caught[0].message)


def test_a_base_without_a_tokenizer_needs_counts():
    base = qr.Table({"a": 0.5, "b b": 0.25, "c": 0.25})
    with pytest.raises(qr.errors.InputError, match="Table has no tokenizer"):
        perplexity(["a", "b b"], base)
    words = qr.features.length()(["a", "b b"])
    assert perplexity(["a", "b b"], base, tokens=words) == pytest.approx(2)


@pytest.mark.parametrize(
    ("texts", "base", "tokens", "message"),
    [
        ([], qr.Table({"a": 1.0}), [], "no texts"),
        (["a"], lambda x: x, [1], "log_prob"),
        (["a"], qr.Table({"a": 1.0}), [1, 2], "1 counts"),
        (["a"], qr.Table({"a": 1.0}), [-1], "1 counts"),
        (["a"], qr.Table({"a": 1.0}), ["x"], "must be numbers"),
        (["a"], qr.Table({"a": 1.0}), [0], "no tokens"),
    ],
)
def test_what_is_refused(texts, base, tokens, message):
    with pytest.raises(qr.errors.InputError, match=message):
        perplexity(texts, base, tokens=tokens)
