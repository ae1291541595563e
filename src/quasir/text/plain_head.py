"""Whether a model's logits are its output embeddings times its last states."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

__all__ = ["has_plain_head"]


@torch.inference_mode()
def has_plain_head(model: Any, ids: Tensor) -> bool:
    """Return whether logits are the output embeddings times the last states, on some tokens.

    Models that scale or cap their logits are not plain and compute them themselves.
    """
    was_training = model.training
    model.eval()  # with dropout the two passes below would differ
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "use_cache": False}
    states = model.base_model(**inputs).last_hidden_state
    logits = model(**inputs).logits
    ours = model.get_output_embeddings()(states)
    model.train(was_training)
    return ours.shape == logits.shape and torch.allclose(ours, logits, atol=1e-3, rtol=1e-3)
