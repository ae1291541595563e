"""Models whose tokens have bytes, small enough to list every text, and their laws by hand."""

import functools
import itertools
import re

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

import quasir as qr
from tests.statistical.goodness import fits
from tests.text.tiny import gpt2, llama

END = "</s>"
LETTERS = ("a", "b", "ab", " a", " ")
JSON = ('"', "a", "b", '"a', 'b"', "[", "]", ",")
BYTES = ("é", "Ã", "©", "a")
"""The first is one letter of two bytes; the two others are those bytes, as byte-level tokens."""


def byte_tokenizer(pieces=LETTERS, merges=()):
    """Return a byte-level tokenizer of these tokens and an end token, which is the first."""
    vocabulary = {END: 0}
    for piece in pieces:
        raw = piece if piece in ("Ã", "©") else "".join(map(_shown, piece.encode()))
        vocabulary[raw] = len(vocabulary)
    pairs = [tuple("".join(map(_shown, part.encode())) for part in pair) for pair in merges]
    inner = Tokenizer(models.BPE(vocab=vocabulary, merges=pairs))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    inner.decoder = decoders.ByteLevel()
    inner.add_special_tokens([END])
    return PreTrainedTokenizerFast(tokenizer_object=inner, bos_token=END, eos_token=END)


def _shown(byte):
    """Return the letter that stands for a byte in byte-level tokens."""
    return "Ġ" if byte == 32 else "Ċ" if byte == 10 else chr(byte)


def model(pieces=LETTERS, limit=4, kind=gpt2, seed=0, merges=(), spare=0, **settings):
    """Return a small model; `spare` tokens of the model are unknown to the tokenizer."""
    tokenizer = byte_tokenizer(pieces, merges)
    network = kind(len(tokenizer) + spare, seed=seed)
    return qr.text.CausalLM(model=network, tokenizer=tokenizer, max_tokens=limit, **settings)


def all_ids(lm):
    """Return the token ids of every text that the model can give."""
    tokens = [i for i in range(lm.model.config.vocab_size) if i != lm.end]
    lengths = range(lm.max_tokens + 1)
    return [ids for n in lengths for ids in itertools.product(tokens, repeat=n)]


def texts_of(lm):
    return qr.text.Texts.of(all_ids(lm), lm.tokenizer)


@torch.no_grad()
def next_law(lm, ids):
    """Return a(v | ids) for every token, by one plain pass over one text."""
    whole = torch.tensor([[*lm.prefix, *ids]])
    logits = lm.warp(lm.model(input_ids=whole, use_cache=False).logits[0, -1][None])[0]
    return logits.double().softmax(-1).numpy()


def law_by_hand(lm, weight):
    """Return q(x) of every text, q(v | s) being a(v | s) weight(s, v)/G, by enumeration.

    `weight` maps (ids before, token) to g. Where all weights are 0, the model goes on alone.
    """
    law = {}

    def walk(ids, mass, free):
        if len(ids) == lm.max_tokens:
            law[ids] = mass
            return
        a = next_law(lm, ids)
        g = np.array([1.0 if free else weight(ids, v) for v in range(len(a))])
        if (a * g).sum() == 0:
            g, free = np.ones(len(a)), True
        q = a * g / (a * g).sum()
        for v in range(len(a)):
            if v == lm.end:
                law[ids] = mass * q[v]
            elif q[v] > 0:
                walk((*ids, v), mass * q[v], free)

    walk((), 1.0, False)
    return np.array([law.get(ids, 0.0) for ids in all_ids(lm)])


def bytes_of(lm, ids):
    """Return the bytes of some tokens."""
    tokens = lm.tokenizer.convert_ids_to_tokens(list(ids))
    return b"".join(
        bytes([32 if c == "Ġ" else 10 if c == "Ċ" else ord(c)]) for t in tokens if t for c in t
    )


def allowed_by(lm, strings):
    """Return the 0/1 weights of a language that is given by all its strings (as bytes)."""
    strings = set(strings)
    prefixes = {string[:i] for string in strings for i in range(len(string) + 1)}

    def weight(ids, v):
        if v >= len(lm.tokenizer):
            return 0.0
        before = bytes_of(lm, ids)
        return float(before in strings if v == lm.end else before + bytes_of(lm, [v]) in prefixes)

    return weight


@functools.cache
def strings_of(pattern, alphabet="ab ", longest=10):
    """Return all strings of a regular expression up to a length, as bytes."""
    found = re.compile(pattern)
    every = ("".join(s) for n in range(longest + 1) for s in itertools.product(alphabet, repeat=n))
    return {string.encode() for string in every if found.fullmatch(string)}


def check(q, by_hand, n=4000):
    """The law is the one by hand, sums to 1, is drawn, and log a is the base's own."""
    lm, texts = q.base, texts_of(q.base)
    log_a, log_q = q.log_prob_each(texts)
    assert np.exp(log_q).sum() == pytest.approx(1, abs=1e-5)
    np.testing.assert_allclose(np.exp(log_q), by_hand, atol=1e-5)
    some = by_hand > 1e-9
    np.testing.assert_allclose(log_q[some], np.log(by_hand[some]), atol=1e-4)
    np.testing.assert_allclose(log_a, lm.log_prob(texts), atol=1e-4)
    items, log_drawn, log_base = q.sample_scored(n, np.random.default_rng(0))
    np.testing.assert_allclose(log_drawn, q.log_prob(items), atol=1e-4)
    np.testing.assert_allclose(log_base, lm.log_prob(items), atol=1e-4)
    assert fits(items.tuples(), all_ids(lm), by_hand)


__all__ = ["gpt2", "llama"]
