"""Batches that mix prompts: every draw is the one that its own prompt would give alone."""

import numpy as np
import pytest
import torch

import quasir as qr
from quasir.core.types import Request
from quasir.text.causal_decoding import Prompts, decode, decode_together
from tests.statistical.goodness import fits
from tests.text import tiny

PROMPTS = ["a", "b a b", "a a", "b b a a b a", "b"]


def models(make, top_k=None, temperature=1.0, limit=4):
    tokens = tiny.tokenizer()
    network = make(len(tokens))
    lm = qr.text.CausalLM(model=network, tokenizer=tokens, max_tokens=limit)
    return [lm.varied(prompt=text, top_k=top_k, temperature=temperature) for text in PROMPTS]


def rngs(n, seed=0):
    return [np.random.default_rng([seed, i]) for i in range(n)]


def drawn(lms, start=0, stop=60):
    requests = [Request(rng, start, stop) for rng in rngs(len(lms))]
    return lms[0].sample_together(lms, requests)


@pytest.mark.parametrize("make", [tiny.gpt2, tiny.llama])
@pytest.mark.parametrize("rows", [512, 7])
def test_every_draw_is_that_of_its_own_prompt(make, rows):
    lms = models(make, temperature=1.3)
    lms[0]._rows = rows
    for lm, part, rng in zip(lms, drawn(lms), rngs(len(lms)), strict=True):
        items, log_q = lm.sample(60, rng)
        assert [x.token_ids for x in part.items] == [x.token_ids for x in items]
        np.testing.assert_allclose(part.log_q, log_q, atol=1e-5)
        np.testing.assert_allclose(part.log_q, lm.log_prob(part.items), atol=1e-5)


def test_rows_of_a_block_are_those_of_the_whole_block():
    lms = models(tiny.gpt2)
    whole = drawn(lms)
    for part, cut in zip(whole, drawn(lms, 13, 41), strict=True):
        assert [x.token_ids for x in cut.items] == [x.token_ids for x in part.items][13:41]


@pytest.mark.parametrize("make", [tiny.gpt2, tiny.llama])
def test_the_distribution_of_mixed_batches_is_exact(make):
    lms = models(make)
    for lm, part in zip(lms, drawn(lms, 0, 1024), strict=True):
        texts = tiny.every_text(lm)
        expected = np.exp([tiny.by_hand(lm, text.token_ids) for text in texts])
        assert abs(expected.sum() - 1) < 1e-5
        support = [text.token_ids for text in texts]
        assert fits([x.token_ids for x in part.items], support, expected)
        other = np.exp([tiny.by_hand(lms[0] if lm is lms[3] else lms[3], x) for x in support])
        assert not fits([x.token_ids for x in part.items], support, other)


@torch.inference_mode()
def test_a_mask_that_shows_the_padding_fails():
    """The control: rows that attend to the padding of their prompt draw something else."""
    lms = models(tiny.llama)
    prompts = Prompts.of(lms[0], [lm.prefix for lm in lms])
    uniforms = np.random.default_rng(0).random((50, lms[0].max_tokens))
    which = torch.zeros(50, dtype=torch.int64)
    right = decode(lms[0], prompts, uniforms, 16, prompt=which)
    whole = Prompts(torch.full_like(prompts.lengths, 7), prompts.layers, prompts.states)
    wrong = decode(lms[0], whole, uniforms, 16, prompt=which)
    alone = decode(lms[0], lms[0]._prompt(), uniforms, 16)
    torch.testing.assert_close(right[2], alone[2], atol=1e-5, rtol=0)
    assert (wrong[2] - right[2]).abs().max() > 1e-3


def test_prompts_in_several_groups(monkeypatch):
    lms = models(tiny.gpt2)
    one = drawn(lms)
    monkeypatch.setattr("quasir.text.causal_decoding.PROMPT_TOKENS", 6)
    for a, b in zip(one, drawn(lms), strict=True):
        assert [x.token_ids for x in a.items] == [x.token_ids for x in b.items]


def test_a_model_without_draws_among_others():
    lms = models(tiny.gpt2)
    uniforms = [rng.random((n, 4)) for n, rng in zip([3, 0, 2, 0, 1], rngs(5), strict=True)]
    assert [len(texts) for texts, _, _ in decode_together(lms, uniforms)] == [3, 0, 2, 0, 1]


def test_a_forgotten_prompt_is_read_again():
    lm = models(tiny.gpt2)[1]
    first = lm.sample(20, np.random.default_rng(0))
    kept = lm._prompt()
    assert lm._prompt() is kept
    lm.forget_prompt()
    np.testing.assert_array_equal(lm.sample(20, np.random.default_rng(0)).log_q, first.log_q)
    assert lm._prompt() is not kept


def test_other_settings_are_not_mixed():
    lms = models(tiny.gpt2)
    other = lms[1].varied(temperature=0.5)
    assert lms[0].sample_together([lms[0], other], []) is None
    assert lms[0].sample_together([lms[0], qr.Table({"a": 1.0})], []) is None
