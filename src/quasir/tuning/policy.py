"""The policy pi_theta: the tuned network, which starts as a copy of the base."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from transformers.pytorch_utils import Conv1D

from quasir.text.causal import CausalLM
from quasir.text.texts import Texts
from quasir.tuning.torch_seed import seeded

__all__ = ["Policy", "Weights"]

Weights = dict[str, Tensor]


class Policy:
    """A copy of a base model of which all weights, or those of a LoRA adapter, are tuned.

    The policy has the base's prompt and temperature, but no top-k or top-p, so that it can draw
    every text that the target allows.

    Parameters
    ----------
    base : CausalLM
        The model to copy; its own weights are not changed.
    lora : int or None
        Rank of the adapter on all linear layers of the blocks; None tunes every weight.
    seed : int
        Seed of the adapter's initial weights.
    dropout : float
        Rate of every dropout module of the network during a step.

    Attributes
    ----------
    lm : CausalLM
        The policy as a proposal: it draws and scores with the current weights.
    """

    def __init__(self, base: CausalLM, lora: int | None, seed: int, dropout: float = 0.0) -> None:
        self.base, self.lora = base, lora
        model = copy.deepcopy(base.model).requires_grad_(False)
        if model.dtype in (torch.float16, torch.bfloat16):
            model = model.float()  # steps of AdamW are lost in half precision
        self.adapted: Any = None
        if lora is not None:
            with seeded(model.device, seed):
                self.adapted = with_adapter(model, lora, base.name)
            model = self.adapted.get_base_model()
        else:
            model.requires_grad_(True)
        for module in model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = dropout
        self.model = model.eval()
        self.lm = self._as_proposal(model)

    @property
    def parameters(self) -> dict[str, Tensor]:
        """The tuned parameters, by name."""
        return {name: p for name, p in self.model.named_parameters() if p.requires_grad}

    @property
    def weights(self) -> Weights:
        """A copy of the tuned weights."""
        return {name: p.detach().clone() for name, p in self.parameters.items()}

    @torch.no_grad()
    def load(self, weights: Mapping[str, Tensor]) -> None:
        """Set the tuned weights."""
        for name, parameter in self.parameters.items():
            parameter.copy_(weights[name])

    @property
    def has_dropout(self) -> bool:
        """Whether a pass in training mode is random."""
        return any(isinstance(m, torch.nn.Dropout) and m.p > 0 for m in self.model.modules())

    def frozen(self, weights: Mapping[str, Tensor]) -> CausalLM:
        """Return a copy with the given weights as a proposal, with the adapter merged."""
        other = copy.deepcopy(self.model if self.adapted is None else self.adapted)
        model = other if self.adapted is None else other.get_base_model()
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if name in weights:
                    parameter.copy_(weights[name])
        if self.adapted is not None:
            model = other.merge_and_unload()
        return self._as_proposal(model.requires_grad_(False).eval())

    def _as_proposal(self, model: Any) -> CausalLM:
        base = self.base
        return CausalLM(
            model=model,
            tokenizer=base.tokenizer,
            max_tokens=base.max_tokens,
            prompt=base.prompt,
            chat=base.chat,
            temperature=base.warp.temperature,
        )

    def log_probs(self, texts: Texts) -> Tensor:
        """Return log pi(x) of each text as a tensor with a gradient.

        The texts must be ones that can be drawn. The precision is that of the weights.
        """
        lm, lengths, n = self.lm, texts.lengths, len(texts)
        longest = int(lengths.max(initial=0))
        place = np.arange(longest + 1)
        asked = np.zeros((n, longest + 1), dtype=np.int64)
        asked[place < lengths[:, None]] = texts.ids
        # A text of the full length was cut, and has no end token.
        ended = (lengths < lm.max_tokens)[:, None] & (place == lengths[:, None])
        asked[ended] = 0 if lm.end is None else lm.end
        scored = (place < lengths[:, None]) | ended
        tokens = torch.from_numpy(asked).to(lm.device)
        keep = torch.from_numpy(scored).to(lm.device)
        logits = lm.logits(tokens[:, :longest], keep)
        logits = (logits if logits.dtype == torch.float64 else logits.float()) / (
            lm.warp.temperature
        )
        each = -functional.cross_entropy(logits, tokens[keep], reduction="none")
        owner = torch.from_numpy(np.repeat(np.arange(n), scored.sum(axis=1))).to(lm.device)
        return torch.zeros(n, dtype=each.dtype, device=each.device).index_add(0, owner, each)


def with_adapter(model: Any, rank: int, name: str | None) -> Any:
    """Add a LoRA of this rank to all linear layers but the head; at first it changes nothing."""
    from peft import LoraConfig, get_peft_model

    # GPT-2 stores its matrices transposed, and peft needs that information.
    transposed = any(isinstance(module, Conv1D) for module in model.modules())
    config = LoraConfig(
        r=rank,
        lora_alpha=2 * rank,
        target_modules="all-linear",
        fan_in_fan_out=transposed,
        task_type="CAUSAL_LM",
    )
    adapted = get_peft_model(model, config)
    # The base's name, not the local folder that it was loaded from.
    adapted.peft_config["default"].base_model_name_or_path = name
    return adapted
