"""Language models small enough to list every text they can give."""

import itertools

import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    BertConfig,
    BertForMaskedLM,
    DistilBertConfig,
    DistilBertForMaskedLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MarianConfig,
    MarianMTModel,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaForMaskedLM,
    T5Config,
    T5ForConditionalGeneration,
)

import quasir as qr
from tests.statistical.goodness import fits


def tokenizer(words=("a", "b"), bos="<s>", eos="</s>", pad=None):
    """Return a tokenizer of single words; bos, eos and pad may be one token, or none."""
    special = [token for token in dict.fromkeys([bos, eos, pad]) if token is not None]
    vocabulary = {word: i for i, word in enumerate([*special, *words])}
    inner = Tokenizer(models.WordLevel(vocabulary, unk_token=words[0]))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=inner, bos_token=bos, eos_token=eos, pad_token=pad
    )


def masked_tokenizer(base, words=()):
    """Return the tokenizer of a masked model: the base's tokens, more words, and special ones."""
    vocabulary = {**base.get_vocab()}
    for token in [*words, "[MASK]", "[CLS]", "[SEP]", "[PAD]"]:
        vocabulary.setdefault(token, len(vocabulary))
    inner = Tokenizer(models.WordLevel(vocabulary, unk_token=next(iter(words), "a")))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    inner.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        special_tokens=[("[CLS]", vocabulary["[CLS]"]), ("[SEP]", vocabulary["[SEP]"])],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=inner,
        mask_token="[MASK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        pad_token="[PAD]",
    )


def masked(kind, vocabulary, padding, seed=0):
    """Return a masked model of random weights."""
    torch.manual_seed(seed)
    shared = {"vocab_size": vocabulary, "pad_token_id": padding, "max_position_embeddings": 24}
    plain = {
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 32,
        "initializer_range": 0.7,
    }
    if kind == "bert":
        return BertForMaskedLM(BertConfig(**shared, **plain)).eval()
    if kind == "roberta":
        return RobertaForMaskedLM(RobertaConfig(**shared, **plain)).eval()
    sizes = {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 32, "initializer_range": 0.7}
    return DistilBertForMaskedLM(DistilBertConfig(**shared, **sizes)).eval()


def gpt2(vocabulary, seed=0, scale=0.5, **changes):
    """Return a GPT-2 of random weights, far from a uniform distribution."""
    torch.manual_seed(seed)
    settings = {"n_positions": 32, "n_embd": 16, "n_layer": 2, "n_head": 2} | changes
    none = {"bos_token_id": None, "eos_token_id": None}
    config = GPT2Config(vocab_size=vocabulary, initializer_range=scale, **none, **settings)
    return GPT2LMHeadModel(config).eval()


def llama(vocabulary, seed=0, **changes):
    """Return a Llama of random weights: rotary positions, grouped heads."""
    torch.manual_seed(seed)
    settings = {
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 32,
        "initializer_range": 0.5,
    }
    return LlamaForCausalLM(LlamaConfig(vocab_size=vocabulary, **settings | changes)).eval()


def every_text(lm):
    """Return all the texts that can come out, as token ids without the end token."""
    tokens = [i for i in range(lm.model.config.vocab_size) if i != lm.end]
    texts = [
        text
        for length in range(lm.max_tokens + 1)
        for text in itertools.product(tokens, repeat=length)
        if lm.end is not None or length == lm.max_tokens
    ]
    return qr.text.Texts.of(texts, lm.tokenizer)


def by_hand(lm, ids):
    """Return log a(x) by one forward pass over one text, with no batch, cache or shortcut."""
    whole = torch.tensor([[*lm.prefix, *ids]])
    with torch.no_grad():
        logits = lm.warp(lm.model(input_ids=whole, use_cache=False).logits[0])
    log_probs = logits.double().log_softmax(-1)[len(lm.prefix) - 1 :]
    asked = list(ids) if len(ids) == lm.max_tokens else [*ids, lm.end]
    return float(sum(log_probs[i, token] for i, token in enumerate(asked)))


def distribution(lm):
    """Return the probability of every text."""
    return np.exp(lm.log_prob(every_text(lm)))


def check_draws(lm, by_hand=by_hand, n=4000):
    """Sum to 1, agree with a pass over one text, draw what is scored, with its probability."""
    texts = every_text(lm)
    log_prob = lm.log_prob(texts)
    assert abs(np.exp(log_prob).sum() - 1) < 1e-5
    hand = np.array([by_hand(lm, ids) for ids in texts.tuples()])
    np.testing.assert_allclose(log_prob, hand, atol=1e-4)
    batch = lm.sample(n, np.random.default_rng(0))
    np.testing.assert_allclose(batch.log_q, lm.log_prob(batch.items), atol=1e-4)
    assert fits(batch.items.tuples(), texts.tuples(), np.exp(log_prob))


def check_rows(lm, other, rows):
    """The batch size changes no draw and no score."""
    other._rows = rows
    a, b = (m.sample(120, np.random.default_rng(3)) for m in (lm, other))
    np.testing.assert_array_equal(a.items.ids, b.items.ids)
    np.testing.assert_array_equal(a.items.offsets, b.items.offsets)
    np.testing.assert_allclose(a.log_q, b.log_q, atol=1e-4)
    np.testing.assert_allclose(lm.log_prob(a.items), other.log_prob(a.items), atol=1e-4)


def t5(vocabulary, start, end, seed=0):
    """Return a T5 of random weights: relative positions."""
    torch.manual_seed(seed)
    config = T5Config(
        vocab_size=vocabulary,
        d_model=16,
        d_kv=8,
        d_ff=32,
        num_layers=2,
        num_heads=2,
        decoder_start_token_id=start,
        eos_token_id=end,
        pad_token_id=start,
        initializer_factor=0.5,
    )
    return T5ForConditionalGeneration(config).eval()


def marian(vocabulary, start, end, seed=0):
    """Return a Marian translation model of random weights."""
    torch.manual_seed(seed)
    config = MarianConfig(
        vocab_size=vocabulary,
        d_model=16,
        encoder_layers=1,
        decoder_layers=2,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        max_position_embeddings=32,
        decoder_start_token_id=start,
        eos_token_id=end,
        pad_token_id=start,
        forced_eos_token_id=None,
        init_std=0.7,
    )
    model = MarianMTModel(config).eval()
    model.final_logits_bias.normal_()
    return model
