"""Masked models as editors: their probabilities, and chains over the texts of a causal model."""

import numpy as np
import pytest
import torch

import quasir as qr
from quasir.samplers import RWMH
from quasir.samplers.rwmh import MASK
from tests.sequences import matrix_of
from tests.statistical.goodness import fits
from tests.text.tiny import every_text, gpt2, masked, masked_tokenizer, tokenizer

KINDS = ["bert", "roberta", "distilbert"]
WORDS = ("a", "b", "c")


def causal(limit=3):
    tok = tokenizer(WORDS, bos="</s>", eos="</s>")
    return qr.text.CausalLM(model=gpt2(len(tok)), tokenizer=tok, max_tokens=limit)


def editor(lm, kind="bert", share=True, **settings):
    tok = masked_tokenizer(lm.tokenizer if share else tokenizer(("x", *WORDS)), WORDS)
    model = masked(kind, len(tok), tok.pad_token_id)
    return qr.text.MaskedLM(model=model, tokenizer=tok, base=lm if share else None, **settings)


@pytest.mark.parametrize("kind", KINDS)
def test_probabilities_are_those_of_a_plain_pass(kind):
    lm = causal()
    mlm = editor(lm, kind)
    asked = [(MASK,), (1, MASK), (2, 1, MASK, 3, 1, 2, 2), (MASK, 3, 3)]
    at = np.array([tokens.index(MASK) for tokens in asked])
    answer = mlm.log_token_probs(asked, at)
    tok = mlm.tokenizer
    allowed = [lm.tokenizer.get_vocab()[word] for word in WORDS]
    for row, tokens, i in zip(answer, asked, at, strict=True):
        ids = [tok.mask_token_id if t == MASK else t for t in tokens]
        with torch.no_grad():
            whole = mlm.model(torch.tensor([[tok.cls_token_id, *ids, tok.sep_token_id]])).logits
        expected = whole[0, i + 1, allowed].double().log_softmax(-1).numpy()
        np.testing.assert_allclose(row[allowed], expected, atol=1e-5)
        assert np.isinf(np.delete(row, allowed)).all()
    # Once their head is known, BERT and RoBERTa compute the logits of one position, not of all.
    whole_passes = []
    mlm.model.register_forward_hook(lambda *_: whole_passes.append(kind))
    np.testing.assert_allclose(mlm.log_token_probs(asked, at), answer, atol=1e-5)
    assert bool(whole_passes) == (kind == "distilbert")
    # The rest of the sequence matters: these are not four times the same row.
    assert np.abs(np.exp(answer[0]) - np.exp(answer[2])).max() > 0.01


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("boost", [None, {"b": 0.2}], ids=str)
def test_p_is_stationary_for_a_chain_over_texts(kind, boost):
    lm = causal()
    target = lm * qr.features.words(["a", "b"])
    sampler = RWMH(target, lm, editor(lm, kind), boost=boost)
    assert sampler.limits.longest == 3
    sequences = every_text(lm).tuples()
    weights = np.exp(target.log_score(qr.text.Texts.of(sequences, lm.tokenizer)))
    p = weights / weights.sum()
    # The network's float32 answers in batches of different make-up agree to about 1e-7.
    assert np.abs(p @ matrix_of(sampler, sequences, weights) - p).max() < 1e-7
    wrong = matrix_of(sampler, sequences, weights, lambda *given: (0.0, 0.0))
    assert np.abs(p @ wrong - p).max() > 1e-3


def test_a_chain_over_texts_has_the_distribution_of_its_length():
    lm = causal()
    target = lm * qr.tilt(qr.features.words(["b"], name="b"), 2.0)
    sampler = RWMH(target, lm, editor(lm), reset=6, boost={"b": 0.1})
    samples = sampler.sample(3_000, seed=0)
    texts = every_text(lm)
    sequences, drawn = texts.tuples(), samples.items.tuples()
    q, weights = np.exp(lm.log_prob(texts)), np.exp(target.log_score(texts))
    expected = q @ np.linalg.matrix_power(matrix_of(sampler, sequences, weights), 5)
    assert fits(drawn, sequences, expected)
    assert not fits(drawn, sequences, q)
    assert not fits(drawn, sequences, weights)
    np.testing.assert_allclose(samples.log_p, target.log_score(samples.items), atol=1e-4)
    np.testing.assert_array_equal(samples.features["b"], target.features[0](samples.items))
    assert samples.distinct == len(set(drawn))
    assert samples.move_rate > 0.05


def test_how_many_chains_go_through_the_network_at_once_changes_nothing():
    lm = causal(limit=6)
    sampler = RWMH(lm, lm, editor(lm), reset=25)
    one, many = (sampler.sample(20, seed=1, batch_size=size) for size in (1, 20))
    assert list(one.items) == list(many.items)
    assert one.moves == many.moves > 0


def test_where_tokenizers_differ_the_text_is_scored():
    """The states are the masked model's sequences; the target sees their text."""
    lm = causal()
    mlm = editor(lm, share=False)
    start = lm.encode(["a b"])
    assert mlm.encode(start) != [tuple(start.token_ids(0).tolist())]
    back = mlm.decode(mlm.encode(start))
    assert back[0].text == "a b"
    np.testing.assert_allclose(lm.log_prob(back), lm.log_prob(start), atol=1e-5)
    target = lm * qr.features.words(["b"])
    samples = RWMH(target, lm, mlm, chains=5).sample(50, seed=0)
    assert all("b" in item.text.split() for item in samples.items)
    np.testing.assert_allclose(samples.log_p, target.log_score(samples.items), atol=1e-4)


def test_tokens_of_other_ids_cannot_be_shared():
    lm = causal()
    tok = masked_tokenizer(tokenizer(("x", *WORDS)), WORDS)
    model = masked("bert", len(tok), tok.pad_token_id)
    with pytest.raises(qr.errors.InputError, match="Leave base out"):
        qr.text.MaskedLM(model=model, tokenizer=tok, base=lm)


def test_words_of_several_tokens_cannot_be_boosted():
    lm = causal()
    with pytest.raises(qr.errors.InputError, match="2 tokens"):
        RWMH(lm, lm, editor(lm), boost={"a b": 0.1})


def test_a_model_without_a_mask_is_refused():
    lm = causal()
    with pytest.raises(qr.errors.InputError, match="no mask token"):
        qr.text.MaskedLM(model=lm.model, tokenizer=lm.tokenizer)


def test_sequences_longer_than_the_model_are_refused():
    mlm = editor(causal())
    assert mlm.log_token_probs([(1,) * 21 + (MASK,)], np.array([21])).shape == (1, 8)
    with pytest.raises(qr.errors.InputError, match="keep max_tokens to 22"):
        mlm.log_token_probs([(1,) * 22 + (MASK,)], np.array([22]))


def test_a_folder_is_loaded(tmp_path):
    mlm = editor(causal())
    mlm.model.save_pretrained(tmp_path)
    mlm.tokenizer.save_pretrained(tmp_path)
    again = qr.text.MaskedLM(str(tmp_path), base=causal(), device="cpu")
    asked, at = [(1, MASK)], np.array([1])
    np.testing.assert_allclose(
        again.log_token_probs(asked, at), mlm.log_token_probs(asked, at), atol=1e-6
    )
