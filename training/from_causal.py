"""A masked language model that starts from the weights of a causal one.

MegatronBERT has the same blocks as GPT-2, with layer norms before attention and MLP. The only
differences are that its attention sees both sides and that a small head precedes the output
embeddings. So each matrix of a GPT-2 can be copied, and training continues from there.
"""

from __future__ import annotations

import torch
from torch import nn
from transformers import GPT2LMHeadModel, MegatronBertConfig, MegatronBertForMaskedLM

__all__ = ["build_masked"]


def build_masked(
    causal: GPT2LMHeadModel, tokens: int, hidden: int, dropout: float, seed: int
) -> MegatronBertForMaskedLM:
    """Build a masked model of a causal one's width and depth, with its weights.

    Parameters
    ----------
    causal : GPT2LMHeadModel
    tokens : int
        Size of the vocabulary: the causal model's tokens, then new ones.
    hidden : int
        Units of each MLP: those of the causal model with the largest weights.
    dropout : float
    seed : int
        Seed of the new weights: the head before the output embeddings.

    Returns
    -------
    MegatronBertForMaskedLM
    """
    torch.manual_seed(seed)
    shape = causal.config
    config = MegatronBertConfig(
        vocab_size=tokens,
        hidden_size=shape.n_embd,
        num_hidden_layers=shape.n_layer,
        num_attention_heads=shape.n_head,
        intermediate_size=hidden,
        hidden_act="gelu_pytorch_tanh",
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=0.0,
        # As many tokens as the causal model, plus one that begins and one that ends a text.
        max_position_embeddings=shape.n_positions + 2,
        type_vocab_size=1,
        layer_norm_eps=shape.layer_norm_epsilon,
        # The padding token also begins and ends a text, so it must be trained.
        pad_token_id=None,
    )
    model = MegatronBertForMaskedLM(config)
    with torch.no_grad():
        _embeddings(model, causal)
        for layer, block in zip(model.bert.encoder.layer, causal.transformer.h, strict=True):
            _block(layer, block, hidden)
        _copy(model.bert.encoder.ln, causal.transformer.ln_f)
    return model


def _embeddings(model: MegatronBertForMaskedLM, causal: GPT2LMHeadModel) -> None:
    """Copy the embeddings; new tokens start at the mean of all, new positions at the last one."""
    words, positions = causal.transformer.wte.weight, causal.transformer.wpe.weight
    ours = model.bert.embeddings
    ours.word_embeddings.weight[: len(words)] = words
    ours.word_embeddings.weight[len(words) :] = words.mean(dim=0)
    ours.position_embeddings.weight[: len(positions)] = positions
    ours.position_embeddings.weight[len(positions) :] = positions[-1]
    ours.token_type_embeddings.weight.zero_()


def _block(layer: nn.Module, block: nn.Module, hidden: int) -> None:
    """Copy a block; GPT-2 stores matrices transposed, and query, key and value as one."""
    _copy(layer.attention.ln, block.ln_1)
    _copy(layer.ln, block.ln_2)
    attention = layer.attention.self
    weights, biases = block.attn.c_attn.weight.chunk(3, 1), block.attn.c_attn.bias.chunk(3)
    for ours, weight, bias in zip(
        (attention.query, attention.key, attention.value), weights, biases, strict=True
    ):
        _linear(ours, weight, bias)
    _linear(layer.attention.output.dense, block.attn.c_proj.weight, block.attn.c_proj.bias)
    rise, fall = block.mlp.c_fc, block.mlp.c_proj
    strength = rise.weight.norm(dim=0) * fall.weight.norm(dim=1)
    kept = strength.topk(hidden).indices.sort().values
    _linear(layer.intermediate.dense, rise.weight[:, kept], rise.bias[kept])
    _linear(layer.output.dense, fall.weight[kept], fall.bias)


def _linear(ours: nn.Linear, weight: torch.Tensor, bias: torch.Tensor) -> None:
    ours.weight.copy_(weight.T)
    ours.bias.copy_(bias)


def _copy(ours: nn.LayerNorm, theirs: nn.LayerNorm) -> None:
    ours.weight.copy_(theirs.weight)
    ours.bias.copy_(theirs.bias)
