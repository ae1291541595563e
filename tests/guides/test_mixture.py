"""A mixture of base, boosts and head, by enumeration: it sums to 1, is drawn, and has a ceiling."""

import math

import numpy as np
import pytest
import torch

import quasir as qr
from quasir.core.types import Request
from quasir.guides.automaton import State, StateRows
from quasir.text.guided import Part, mix_parts
from quasir.text.head import Head
from tests.guides.small import (
    all_ids,
    allowed_by,
    bytes_of,
    check,
    law_by_hand,
    llama,
    model,
    strings_of,
    texts_of,
)
from tests.statistical.goodness import fits

MERGES = [("a", "b")]
AB = qr.features.contains("ab", case=True)
ODD = qr.Feature("odd", lambda text: len(str(text)) % 2 == 1, boolean=True)


def random_head(lm, bits, seed=0, tokens=(), until=()):
    width = lm.model.get_output_embeddings().weight.shape[1]
    head = Head.zero(width, bits, 5, seed, None)
    random = torch.Generator().manual_seed(seed + 1)
    for name, value in head.layers.items():
        head.layers[name] = value + 0.7 * torch.randn(value.shape, generator=random)
    return Head(head.layers, tokens, [1.5] * len(tokens), until)


def bits_by_hand(lm, features, ids):
    """Return what every feature says of these tokens, by their text alone."""
    text = bytes_of(lm, [i if i < len(lm.tokenizer) else 5 for i in ids]).decode()
    return [bool(feature([text])[0]) if ids else False for feature in features]


@torch.no_grad()
def head_law(lm, head, features, weight=lambda ids, v: 1.0, late=False):
    """Return q(x) of every text under a head times a guide, token by token."""
    embeddings = lm.model.get_output_embeddings().weight

    def ratio(ids):
        whole = torch.tensor([[*lm.prefix, *ids]])
        h = lm.model.base_model(input_ids=whole, use_cache=False).last_hidden_state[0, -1]
        own = lm.warp((h @ embeddings.T)[None])[0].double()
        bits = bits_by_hand(lm, features, ids[:-1] if late else ids)
        read = torch.cat([(h - h.mean()) / (h.var(correction=0) + 1e-5).sqrt(), torch.tensor(bits)])
        layers = head.layers
        inner = torch.nn.functional.gelu(layers["read"] @ read + layers["bias"])
        made = (h + layers["write"] @ inner + layers["shift"]) @ embeddings.T
        made = (made / lm.warp.temperature).double()
        if not head.until or not all(bits[i] for i in head.until):
            made[head.tokens] += 1.5
        made[own == -torch.inf] = -torch.inf
        return (made.log_softmax(0) - own.log_softmax(0)).exp().nan_to_num(0.0)

    known = {}

    def times(ids, v):
        if ids not in known:
            known[ids] = ratio(ids)
        return float(known[ids][v]) * weight(ids, v)

    return law_by_hand(lm, times)


def boosted(lm, factor=6.0):
    def weight(ids, v):
        known = [i if i < len(lm.tokenizer) else 5 for i in ids]
        return factor if v == 3 and b"ab" not in bytes_of(lm, known) else 1.0

    return law_by_hand(lm, weight)


def three(lm, features=(AB, ODD), **changes):
    """Return base 0.3, boosts 0.2 and head 0.5."""
    head = random_head(lm, 2, tokens=[2], until=[0]) if "head" not in changes else changes["head"]
    parts = [Part(0.2, qr.guides.boost({AB: 6.0})), Part(0.5, None, head)]
    return mix_parts(lm, parts, features)


def by_hand(lm, q, **how):
    a = np.exp(lm.log_prob(texts_of(lm)))
    return 0.3 * a + 0.2 * boosted(lm) + 0.5 * head_law(lm, q.parts[1].head, (AB, ODD), **how)


SETTINGS = [
    {},
    {"temperature": 0.6},
    {"top_k": 3, "temperature": 1.4},
    {"prompt": "ab"},
    {"kind": llama},
    {"limit": 1},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda how: ",".join(how) or "plain")
def test_base_boosts_and_head(settings):
    """Whatever the model's settings, all three come out of one pass of the base."""
    lm = model(merges=MERGES, **settings)
    check(three(lm), by_hand(lm, three(lm)))


def test_a_head_within_a_language():
    lm, pattern = model(merges=MERGES), r"a(b|ab)*"
    head = random_head(lm, 1)
    guide = qr.guides.regex(pattern)
    q = mix_parts(lm, [Part(0.3, guide), Part(0.6, guide, head)], [AB])
    weight = allowed_by(lm, strings_of(pattern))
    a = np.exp(lm.log_prob(texts_of(lm)))
    hand = 0.3 * law_by_hand(lm, weight) + 0.6 * head_law(lm, head, [AB], weight)
    check(q, 0.1 * a + hand)
    target = lm * guide.feature
    most = q.log_most_base_ratio(lm, target)
    log_a, log_q = q.log_prob_each(texts_of(lm))
    inside = target.log_score(texts_of(lm)) > -np.inf
    assert (log_a - log_q)[inside].max() <= most + 1e-6
    assert most < math.log(1 / 0.1)  # the mask's own bound helps


def test_tokens_that_are_boosted_until_the_constraint_is_met():
    """Without layers a head needs no second output matrix."""
    lm = model(merges=MERGES)
    head = Head(None, [3], [math.log(9.0)], until=[0])

    def weight(ids, v):
        return 9.0 if v == 3 and b"ab" not in bytes_of(lm, ids) else 1.0

    check(mix_parts(lm, [Part(1.0, None, head)], [AB]), law_by_hand(lm, weight))


def test_the_ceiling_holds_and_certifies():
    """No ratio P/q exceeds b_max/share, and at that beta samples are exact."""
    lm = model(merges=MERGES)
    q, target = three(lm), lm * AB * qr.tilt(ODD, 1.2)
    texts = texts_of(lm)
    log_p = target.log_score(texts)
    ceiling = 1.2 - math.log(0.3)
    assert (log_p - q.log_prob(texts)).max() <= ceiling + 1e-6
    draws = qr.draw(target, q, 3000, seed=0)
    assert draws.known.log_ceiling == pytest.approx(ceiling)
    samples = qr.QRS(target, q, log_beta=ceiling).sample(1500, seed=1)
    p = np.exp(log_p)
    assert fits(samples.items.tuples(), all_ids(lm), p / p.sum())


@pytest.mark.parametrize("rows", [3, 64])
def test_law_5_the_batch_changes_no_draw(rows):
    """Slow features may be asked every few tokens; the draws depend on the seed alone."""
    lm = model(merges=MERGES)
    q = mix_parts(lm, three(lm).parts, (AB, ODD), every=2)
    a = q.sample_scored(300, np.random.default_rng(5))
    lm._rows = rows
    b = q.sample_scored(300, np.random.default_rng(5))
    assert a[0].tuples() == b[0].tuples()
    np.testing.assert_allclose(a[1], b[1], atol=1e-4)
    np.testing.assert_allclose(a[1], q.log_prob(a[0]), atol=1e-4)
    assert np.exp(q.log_prob(texts_of(lm))).sum() == pytest.approx(1, abs=1e-5)


def test_prompts_are_drawn_together():
    lm = model(merges=MERGES)
    head = random_head(lm, 2)
    models = [three(lm.prompted(prompt), head=head) for prompt in ("a", "ab", " ")]
    requests = [Request(np.random.default_rng(i), 0, 40) for i in range(3)]
    for i, part in enumerate(models[0].sample_together(models, requests)):
        items, log_q, log_a = models[i].sample_scored(40, np.random.default_rng(i))
        assert part.items.tuples() == items.tuples()
        np.testing.assert_allclose(part.log_q, log_q, atol=1e-4)
        np.testing.assert_allclose(part.log_base, log_a, atol=1e-4)


def test_the_state_follows_the_text():
    """By the automaton of words or by asking, a state is what the features say of the text."""
    lm = model(merges=MERGES)
    state = State([AB, ODD], mix_parts(lm, []).vocabulary)
    for ids in all_ids(lm)[:400]:
        rows = state.begin(1)
        for i, token in enumerate(ids, start=1):
            rows.advance(np.array([token]))
            assert rows.bits[0].tolist() == bits_by_hand(lm, [AB, ODD], ids[:i])


def test_a_head_for_another_model_is_refused():
    lm = model(merges=MERGES)
    with pytest.raises(qr.errors.InputError, match="another model or target"):
        three(lm, features=[AB], head=random_head(lm, 2))


# Controls: what is wrong must fail.


def test_a_wrong_normaliser_fails(monkeypatch):
    """A head whose logits are read as if the base's sum were theirs does not sum to 1."""
    from quasir.text import guided_decoding, guided_scores

    lm = model(merges=MERGES)
    q, inner = three(lm), guided_decoding.weigh

    def unnormalised(lm, part, below, mass, *rest):
        found = inner(lm, part, below, mass, *rest)
        if part.head is None:
            return found
        return found._replace(log_mass=mass.sum(dim=-1).double().log())

    monkeypatch.setattr(guided_decoding, "weigh", unnormalised)
    monkeypatch.setattr(guided_scores, "weigh", unnormalised)
    with pytest.raises(AssertionError):
        check(q, by_hand(lm, q))


def test_a_state_one_token_late_fails(monkeypatch):
    lm = model(merges=MERGES)
    q = three(lm)
    right, late = by_hand(lm, q), by_hand(lm, q, late=True)
    inner = StateRows.advance

    def advance(self, tokens):
        before = getattr(self, "now", np.zeros_like(self.bits))
        inner(self, tokens)
        self.now, self.bits = self.bits.copy(), before[: len(self.bits)]

    monkeypatch.setattr(StateRows, "advance", advance)
    check(three(model(merges=MERGES)), late, n=100)  # exact, but another q
    with pytest.raises(AssertionError):
        check(three(model(merges=MERGES)), right)


def test_the_mean_of_heads_shifts_by_the_mean_of_theirs():
    """As far as float16 keeps it; a head that is left out, or counted twice, is seen."""
    lm = model(merges=MERGES)
    heads = [random_head(lm, 2, seed) for seed in (0, 7, 14)]
    random = torch.Generator().manual_seed(0)
    h = torch.randn(9, lm.model.get_output_embeddings().weight.shape[1], generator=random)
    bits = torch.rand(9, 2, generator=random) < 0.5
    each = torch.stack([head.shifted(h, bits) for head in heads])
    got = Head.mean(heads).shifted(h, bits)
    torch.testing.assert_close(got, each.mean(0), atol=0.02, rtol=0)
    assert (got - each[:2].mean(0)).abs().max() > 0.2
