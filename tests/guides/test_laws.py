"""q of every guide, by enumeration: it sums to 1, is drawn, and log a comes with it."""

import math

import numpy as np
import pytest
import torch

import quasir as qr
from quasir.core.types import Request
from tests.guides.small import (
    BYTES,
    JSON,
    LETTERS,
    all_ids,
    allowed_by,
    bytes_of,
    check,
    law_by_hand,
    llama,
    model,
    next_law,
    strings_of,
    texts_of,
)

PATTERNS = [r"a(b|ab)*", r"(ab| a)+", r"[ab]{3}", r"( ?a)*b", r"abab"]


def mixed(lm, share, guided):
    return share * np.exp(lm.log_prob(texts_of(lm))) + (1 - share) * guided


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("share", [0.0, 0.3])
def test_a_regular_expression(pattern, share):
    lm = model()
    hand = law_by_hand(lm, allowed_by(lm, strings_of(pattern)))
    check(lm.guided(qr.guides.regex(pattern), share), mixed(lm, share, hand))


@pytest.mark.parametrize(
    "settings",
    [
        {"temperature": 0.6},
        {"top_k": 2},
        {"top_k": 3, "temperature": 1.4},
        {"prompt": "ab"},
        {"kind": llama},
        {"limit": 1},
        {"limit": 2, "spare": 3},
    ],
    ids=lambda how: ",".join(how),
)
@pytest.mark.parametrize("share", [0.0, 0.4])
def test_any_model(settings, share):
    """With top-k the guide may allow none of the tokens that are left."""
    lm = model(**settings)
    strings = strings_of(r"a(b|ab)*")
    hand = law_by_hand(lm, allowed_by(lm, strings))
    check(lm.guided(qr.guides.regex(r"a(b|ab)*"), share), mixed(lm, share, hand))


@pytest.mark.parametrize("share", [0.0, 0.3])
@pytest.mark.parametrize("guide", ["choice", "trie", "boost"])
def test_a_guide_that_allows_no_first_token(share, guide):
    """Top-k leaves none that the language allows: texts go on as the model does, and q is a."""
    lm = model(top_k=2)
    first = [LETTERS[i - 1] for i in np.flatnonzero(next_law(lm, ()))]
    options = [piece for piece in LETTERS if not piece.startswith(tuple(first))]
    language = qr.guides.choice(options[:1])
    parts = {"choice": language, "boost": language * qr.guides.boost({"a": 3.0})}
    if guide == "trie":
        parts["trie"] = lm.guided(language).learn(lm.encode(["a", "b"])).guide
    q = lm.guided(parts[guide], share)
    hand = law_by_hand(lm, allowed_by(lm, [options[0].encode()]))
    np.testing.assert_allclose(hand, np.exp(lm.log_prob(texts_of(lm))), atol=1e-6)
    check(q, hand)
    target = lm * language.feature
    assert (target.log_score(texts_of(lm)) == -np.inf).all()
    if share or guide != "boost":
        assert q.log_most_base_ratio(lm, target) == pytest.approx(
            0 if guide != "boost" else -math.log(share)
        )
    draws = qr.draw(target, q, 50, seed=0)
    assert (draws.log_p == -np.inf).all()


def test_prompts_of_which_one_allows_no_first_token():
    """Drawn together, each prompt keeps its own law; another guide is not drawn with them."""
    lm = model(top_k=2)
    guide = qr.guides.regex("b(a|b)*")
    models = [lm.varied(prompt=p, top_k=2).guided(guide, 0.2) for p in ("a", "b", "ab", "ba", " ")]
    free = [not next_law(q.base, ())[2] for q in models]
    assert True in free
    assert False in free
    requests = [Request(np.random.default_rng(i), 0, 40) for i in range(len(models))]
    together = models[0].sample_together(models, requests)
    for i, (q, part) in enumerate(zip(models, together, strict=True)):
        items, log_q, _ = q.sample_scored(40, np.random.default_rng(i))
        assert part.items.tuples() == items.tuples()
        np.testing.assert_allclose(part.log_q, log_q, atol=1e-4)
        np.testing.assert_allclose(part.log_q, q.log_prob(items), atol=1e-4)
        hand = law_by_hand(q.base, allowed_by(q.base, strings_of("b(a|b)*")))
        check(q, mixed(q.base, 0.2, hand), n=200)
    other = [*models[:-1], models[-1].base.guided(qr.guides.boost({"b": 4.0}), share=0.2)]
    assert models[0].sample_together(other, requests) is None


@pytest.mark.parametrize("spare", [1, 2, 40])
@pytest.mark.parametrize("share", [0.3, 0.0])
def test_a_model_with_more_tokens_than_its_tokenizer(spare, share):
    """A text with such a token is in no language; it is scored all the same."""
    lm = model(("a", "b"), limit=2, spare=spare)
    texts, strings = texts_of(lm), strings_of("a(b|ab)*")
    guide = qr.guides.regex("a(b|ab)*")
    target = lm * guide.feature
    known = [ids for ids in all_ids(lm) if max(ids, default=0) < len(lm.tokenizer)]
    inside = [ids in known and bytes_of(lm, ids) in strings for ids in all_ids(lm)]
    np.testing.assert_array_equal(target.log_score(texts) > -np.inf, inside)
    q = lm.guided(guide, share)
    check(q, mixed(lm, share, law_by_hand(lm, allowed_by(lm, strings))))
    draws = qr.draw(target, q, 300, seed=0)
    odd = np.array([max(ids, default=0) >= len(lm.tokenizer) for ids in draws.items.tuples()])
    assert odd.any() == (share > 0)
    assert (draws.log_p[odd] == -np.inf).all()
    learnt = q.learn(draws)
    ratio = np.subtract(*learnt.log_prob_each(texts))[inside]
    assert ratio.max() <= learnt.log_most_base_ratio(lm, target) + 1e-9
    assert (qr.draw(target, lm, 300, seed=0).log_p > -np.inf).any()


def test_choices_and_bytes_that_split_a_letter():
    lm = model(BYTES, limit=4)
    options = ["é", "aé", "éa"]
    hand = law_by_hand(lm, allowed_by(lm, [option.encode() for option in options]))
    check(lm.guided(qr.guides.choice(options)), hand)
    # Both spellings of the letter are there: one token, or its two bytes.
    spelled = {ids for ids, p in zip(all_ids(lm), hand, strict=True) if p > 0}
    assert {(1,), (2, 3)} <= spelled


@pytest.mark.parametrize(
    ("guide", "strings"),
    [
        (qr.guides.json_schema({"enum": ["a", "ab"]}), [b'"a"', b'"ab"']),
        (
            qr.guides.grammar('start: "[" start "]" | "a"'),
            [b"[" * n + b"a" + b"]" * n for n in range(6)],
        ),
    ],
    ids=["schema", "grammar"],
)
def test_a_schema_and_a_grammar(guide, strings):
    """Every way to spell the strings is drawn."""
    lm = model(JSON, limit=4)
    check(lm.guided(guide), law_by_hand(lm, allowed_by(lm, strings)))


def test_a_product_of_two_languages():
    lm = model()
    both = strings_of(r"a(b|ab)*") & strings_of(r"[ab]{3}")
    guide = qr.guides.regex(r"a(b|ab)*") * qr.guides.regex(r"[ab]{3}")
    one, two = (allowed_by(lm, strings_of(p)) for p in (r"a(b|ab)*", r"[ab]{3}"))
    hand = law_by_hand(lm, lambda ids, v: one(ids, v) * two(ids, v))
    check(lm.guided(guide, 0.2), mixed(lm, 0.2, hand))
    inside = np.array([bytes_of(lm, ids) in both for ids in all_ids(lm)])
    np.testing.assert_array_equal(guide.feature(texts_of(lm)), inside)


@pytest.mark.parametrize("share", [0.0, 0.25])
@pytest.mark.parametrize("factor", [30.0, 0.1])
def test_a_boost(share, factor):
    """Tokens that contain the text are boosted until one of them is there."""
    lm = model(merges=[("a", "b")], spare=2)
    guide = qr.guides.boost({qr.features.contains("ab", case=True): factor})

    def weight(ids, v):
        # With "a" and "b" it is spelled too, which ends the boost, but is not boosted.
        return factor if v == 3 and b"ab" not in bytes_of(lm, known(ids)) else 1.0

    def known(ids):
        return [i if i < len(lm.tokenizer) else 5 for i in ids]

    check(lm.guided(guide, share), mixed(lm, share, law_by_hand(lm, weight)))


def test_a_boost_times_a_language():
    lm = model(merges=[("a", "b")])
    pattern = r"(a|b| )*"
    guide = qr.guides.regex(pattern) * qr.guides.boost({qr.features.contains("ab", case=True): 9.0})
    one = allowed_by(lm, strings_of(pattern))

    def weight(ids, v):
        return one(ids, v) * (9.0 if v == 3 and b"ab" not in bytes_of(lm, ids) else 1.0)

    check(lm.guided(guide, 0.2), mixed(lm, 0.2, law_by_hand(lm, weight)))


@pytest.mark.parametrize("rows", [1, 7, 64])
def test_law_5_the_batch_changes_no_draw(rows):
    lm = model(merges=[("a", "b")])
    guide = qr.guides.regex(r"(ab| a)+") * qr.guides.boost({"ab": 5.0})
    q = lm.guided(guide, 0.3)
    a = q.sample_scored(300, np.random.default_rng(5))
    lm._rows = rows
    b = q.sample_scored(300, np.random.default_rng(5))
    assert a[0].tuples() == b[0].tuples()
    for one, two in zip(a[1:], b[1:], strict=True):
        np.testing.assert_allclose(one, two, atol=1e-4)
    short = q.sample(40, np.random.default_rng(5))
    assert short.items.tuples() == a[0].tuples()[:40]


def test_weights_that_underflow_are_not_lost():
    """The language's only tokens have probability 1e-60: q is found all the same."""
    lm = model(LETTERS, limit=2)
    bias = torch.zeros(len(lm.tokenizer))
    bias[2] = -150.0
    inner = lm._head
    lm._head = lambda states: inner(states) + bias
    q = lm.guided(qr.guides.regex("bb"))
    log_q = q.log_prob(qr.text.Texts.of([[2, 2]], lm.tokenizer))
    assert log_q[0] == pytest.approx(0.0, abs=1e-4)
    items, log_drawn, log_base = q.sample_scored(50, np.random.default_rng(0))
    assert set(items.tuples()) == {(2, 2)}
    np.testing.assert_allclose(log_drawn, 0.0, atol=1e-4)
    assert (log_base < -200).all()


# Controls: what is wrong must fail.


@pytest.mark.parametrize(
    "wrong",
    [
        lambda mask: mask << 1,  # every bit is the next token's; the matcher itself refuses some
        lambda mask: np.where(mask & (mask - 1), mask & (mask - 1), mask),  # one token is absent
    ],
)
def test_a_mask_off_by_one_token_fails(monkeypatch, wrong):
    from quasir.guides import matcher

    lm = model()
    hand = law_by_hand(lm, allowed_by(lm, strings_of(r"a(b|ab)*")))
    inner = matcher.MatcherRows._filled
    monkeypatch.setattr(matcher.MatcherRows, "_filled", lambda self: wrong(inner(self)))
    with pytest.raises((AssertionError, qr.errors.InputError)):
        check(lm.guided(qr.guides.regex(r"a(b|ab)*")), hand)


def test_a_forced_spelling_would_fail(monkeypatch):
    """llguidance by default allows one spelling of certain bytes; q would be 0 on the others."""
    from quasir.guides import language

    lm = model()
    hand = law_by_hand(lm, allowed_by(lm, strings_of(r"abab")))
    check(lm.guided(qr.guides.regex(r"abab")), hand)
    monkeypatch.setattr(language, "PLAIN", "\n")
    again = model()  # the first one keeps the guide that it compiled
    with pytest.raises(AssertionError):
        check(again.guided(qr.guides.regex(r"abab")), hand)
