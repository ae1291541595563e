"""Encoder-decoder models: draws have the probability that is scored; and round trips."""

import numpy as np
import pytest
import torch

import quasir as qr
from tests.text.tiny import check_draws, check_rows, every_text, marian, t5, tokenizer

MODELS = {"t5": t5, "marian": marian}
WARPS = [{}, {"top_k": 2}, {"temperature": 1.5, "top_p": 0.9}]


def make(kind, source="a b b", limit=4, seed=0, **settings):
    tok = tokenizer(("a", "b"), bos=None, eos="</s>", pad="<p>")
    model = MODELS[kind](len(tok), tok.pad_token_id, tok.eos_token_id, seed)
    return qr.text.Seq2SeqLM(
        model=model, tokenizer=tok, source=source, max_tokens=limit, **settings
    )


def by_hand(lm, ids):
    given = lm.tokenizer([lm.source], return_tensors="pt")
    fed = torch.tensor([[lm.model.config.decoder_start_token_id, *ids]])
    with torch.no_grad():
        logits = lm.model(**given, decoder_input_ids=fed, use_cache=False).logits[0]
    log_probs = lm.warp(logits).double().log_softmax(-1)
    asked = list(ids) if len(ids) == lm.max_tokens else [*ids, lm.end]
    return float(sum(log_probs[i, token] for i, token in enumerate(asked)))


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("settings", WARPS, ids=str)
def test_draws_under_every_setting(kind, settings):
    check_draws(make(kind, **settings), by_hand, n=3000)


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("rows", [1, 7])
def test_the_batch_size_changes_no_draw_and_no_score(kind, rows):
    check_rows(make(kind), make(kind), rows)


@pytest.mark.parametrize("kind", MODELS)
def test_the_source_matters(kind):
    lm = make(kind)
    other = lm.given("b")
    texts = every_text(lm)
    assert np.abs(np.exp(lm.log_prob(texts)) - np.exp(other.log_prob(texts))).max() > 1e-4
    assert other.source == "b"
    with pytest.raises(qr.errors.InputError, match="source"):
        lm.given("")


def test_what_is_longer_than_the_positions_is_refused():
    positions = make("marian").model.config.max_position_embeddings
    assert make("marian", limit=positions - 1).log_prob(["a " * (positions - 1)])[0] < 0
    with pytest.raises(qr.errors.InputError, match=f"set max_tokens to at most {positions - 1}"):
        make("marian", limit=positions)
    longest = "a " * positions
    make("marian", source=longest).sample(2, np.random.default_rng(0))
    with pytest.raises(qr.errors.InputError, match=f"the source has {positions + 1} tokens"):
        make("marian", source=longest + "a")
    make("t5", source=longest + "a", limit=positions)  # relative positions have no end


def test_a_round_trip_is_the_way_back_from_the_beams_translation():
    there, back = make("marian", seed=2), make("marian", seed=1)
    there.model.final_logits_bias[:, there.end] -= 3  # a translation of more than nothing
    trip = qr.text.RoundTrip(
        (there.model, there.tokenizer),
        (back.model, back.tokenizer),
        "a b",
        beams=3,
        top_k=3,
        max_tokens=3,
    )
    assert set(trip.source.split()) <= {"a", "b"}
    texts = every_text(trip)
    assert np.exp(trip.log_prob(texts)).sum() == pytest.approx(1, abs=1e-5)
    expected = qr.text.Seq2SeqLM(
        model=back.model, tokenizer=back.tokenizer, source=trip.source, max_tokens=3, top_k=3
    )
    np.testing.assert_allclose(trip.log_prob(texts), expected.log_prob(texts))
    batch = trip.sample(200, np.random.default_rng(0))
    np.testing.assert_allclose(batch.log_q, trip.log_prob(batch.items), atol=1e-4)
