"""Samplers: replaying stored draws, and many chains at once."""

import numpy as np
import torch
from tokenizers import Tokenizer, models
from transformers import (
    BertConfig,
    BertForMaskedLM,
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedTokenizerFast,
)

import quasir as qr
from benchmarks.show import best
from quasir.samplers import IMH, RWMH
from quasir.text.loading import with_fused_gelu

DRAWS = 10**6
CHAINS, STEPS = 128, 20
WORDS = 1000
NO_ENDS = {"bos_token_id": None, "eos_token_id": None}


def rows():
    rng = np.random.default_rng(0)
    for spread, how in (
        (0.3, "nearly all accepted"),
        (1.0, "half accepted"),
        (4.0, "few accepted"),
    ):
        log_w = spread * rng.normal(size=DRAWS)
        yield replay_row(qr.Draws.from_arrays(log_w, np.zeros(DRAWS)), how)
    yield chains_row()


def replay_row(draws, how):
    anything = qr.Table({"a": 1.0})
    sampler = IMH(anything, anything)
    ours = best(lambda: sampler.replay(draws))
    bare = best(lambda: bare_pass(draws))
    rate = sampler.replay(draws).move_rate
    return (
        f"IMH: replay over a bare pass, {how}",
        ours / bare,
        "<= 5",
        f"{len(draws):,} draws: {ours:.3f} s against {bare:.3f} s; {rate:.0%} of steps move",
    )


def bare_pass(draws):
    """Run Algorithm 3 as a plain loop over lists, the fastest way in pure Python."""
    log_alpha, log_w = draws.log_alpha.tolist(), draws.log_ratio.tolist()
    here, states, weight = -1, [], -np.inf
    for j, alpha in enumerate(log_alpha):
        if alpha > weight:
            here, weight = j, log_w[j]
        states.append(here)
    return states


def chains_row():
    sampler = random_walk()
    batched = best(lambda: sampler.sample(CHAINS, seed=0, batch_size=CHAINS), 2)
    in_turn = best(lambda: sampler.sample(CHAINS, seed=0, batch_size=1), 1)
    return (
        "RWMH: chains at once, times as fast as one after another",
        in_turn / batched,
        ">= 8",
        f"{CHAINS} chains of {STEPS} steps: {batched:.2f} s against {in_turn:.2f} s; random "
        "weights, 2 layers of 64, texts of up to 20 tokens",
    )


def random_walk():
    """Return a sampler with one chain per sample, on a small causal and a small masked model."""
    torch.manual_seed(0)
    causal = GPT2Config(vocab_size=WORDS, n_embd=64, n_layer=2, n_head=4, n_positions=32, **NO_ENDS)
    masked = BertConfig(
        vocab_size=WORDS + 3,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=256,
        max_position_embeddings=32,
    )
    lm = qr.text.CausalLM(
        model=with_fused_gelu(GPT2LMHeadModel(causal).eval()),
        tokenizer=made_up(WORDS),
        max_tokens=20,
    )
    editor = qr.text.MaskedLM(
        model=BertForMaskedLM(masked).eval(), tokenizer=made_up(WORDS + 3), base=lm
    )
    return RWMH(lm, lm, editor, reset=STEPS + 1)


def made_up(size):
    """Return a tokenizer of made-up words; ids from `WORDS` on are special tokens."""
    inner = Tokenizer(models.WordLevel({f"t{i}": i for i in range(size)}, unk_token="t1"))
    special = {"bos_token": "t0", "eos_token": "t0", "pad_token": "t0"}
    if size > WORDS:
        special |= {"mask_token": f"t{WORDS}", "cls_token": f"t{WORDS + 1}"}
    return PreTrainedTokenizerFast(tokenizer_object=inner, **special)
