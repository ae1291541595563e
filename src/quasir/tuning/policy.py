"""The policy pi_theta: the tuned network, which starts as a copy of the base, and its files."""

from __future__ import annotations

import copy
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from transformers.pytorch_utils import Conv1D

from quasir.core.files import write_with
from quasir.core.streams import Purpose, stream
from quasir.core.types import Array
from quasir.errors import InputError
from quasir.text.causal import CausalLM
from quasir.text.language_model import scored_tokens
from quasir.text.texts import Texts

__all__ = ["Policy"]

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from quasir.tuning.rounds import Minibatches

Weights = dict[str, Tensor]

UNCUT: dict[str, Any] = {"top_k": None, "top_p": None}  # to draw all that the target allows
WARMUP, WEIGHT_DECAY, LARGEST_NORM = 20, 0.01, 1.0
AVERAGING = 0.98  # the share of itself that the running average of the weights keeps per step


class Policy:
    """A copy of a base model of which all weights, or those of a LoRA adapter, are tuned."""

    def __init__(self, base: CausalLM, lora: int | None, seed: int) -> None:
        self.base = base
        model = copy.deepcopy(base.model).requires_grad_(False)
        if model.dtype in (torch.float16, torch.bfloat16):
            model = model.float()  # steps of AdamW are lost in half precision
        self.adapted: Any = None
        if lora is not None:
            devices = [model.device] if model.device.type == "cuda" else []
            with torch.random.fork_rng(devices=devices):
                torch.manual_seed(seed % 2**63)  # torch takes 63 bits
                self.adapted = add_adapter(model, lora, base.name)
            model = self.adapted.get_base_model()
        else:
            model.requires_grad_(True)
        self.model = model.eval()  # without dropout
        self.lm = self._as_proposal(model)

    @property
    def parameters(self) -> dict[str, Tensor]:
        """The tuned parameters, by name."""
        return {name: p for name, p in self.model.named_parameters() if p.requires_grad}

    @property
    def weights(self) -> Weights:
        """A copy of the tuned weights."""
        return copied_weights(self.parameters)

    @torch.no_grad()
    def load(self, weights: Mapping[str, Tensor]) -> None:
        """Set the tuned weights."""
        for name, parameter in self.parameters.items():
            parameter.copy_(weights[name])

    @torch.no_grad()
    def copied(self, weights: Mapping[str, Tensor]) -> Any:
        """Return a copy of the network, with its adapter if it has one, with the given weights."""
        other = copy.deepcopy(self.model if self.adapted is None else self.adapted)
        model = other if self.adapted is None else other.get_base_model()
        for name, parameter in model.named_parameters():
            if name in weights:
                parameter.copy_(weights[name])
        return other

    def frozen(self, weights: Mapping[str, Tensor]) -> CausalLM:
        """Return a copy with the given weights as a proposal, with the adapter merged."""
        other = self.copied(weights)
        model = other if self.adapted is None else other.merge_and_unload()
        return self._as_proposal(model.requires_grad_(False).eval())

    def _as_proposal(self, model: Any) -> CausalLM:
        settings = self.base.settings | UNCUT
        return CausalLM(model=model, tokenizer=self.base.tokenizer, **settings)

    def log_probs(self, texts: Texts) -> Tensor:
        """Return log pi(x) of each text as a tensor with a gradient."""
        lm, n = self.lm, len(texts)
        asked, scored = scored_tokens(texts, lm.end, lm.max_tokens)
        tokens, keep = (torch.from_numpy(each).to(lm.device) for each in (asked, scored))
        logits = lm.logits(tokens[:, :-1], keep)
        logits = logits if logits.dtype == torch.float64 else logits.float()
        each = -functional.cross_entropy(
            logits / lm.warp.temperature, tokens[keep], reduction="none"
        )
        owner = torch.from_numpy(np.repeat(np.arange(n), scored.sum(axis=1))).to(lm.device)
        return torch.zeros(n, dtype=each.dtype, device=each.device).index_add(0, owner, each)


def add_adapter(model: Any, rank: int, name: str | None) -> Any:
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


class Diverged(Exception):
    """The run cannot continue; `DPG.run` turns this into the error that the user sees."""


class Learner:
    """A policy that is being tuned: its weights, their average, and AdamW's state."""

    def __init__(self, policy: Policy, rate: float, batch: int, seed: int) -> None:
        self.policy, self.rate, self.batch, self.seed = policy, rate, batch, seed
        parameters = policy.parameters.values()
        # Matrices have a weight decay, vectors none.
        groups = [
            {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": WEIGHT_DECAY},
            {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
        ]
        self.optimizer = torch.optim.AdamW([group for group in groups if group["params"]], lr=rate)
        self.average: Weights = policy.weights
        self.taken = 0

    def step(self, batches: Minibatches, texts: Texts, number: int, pace: float = 1.0) -> None:
        """Take step `number` of the run; its random numbers depend on (seed, number) only."""
        policy = self.policy
        index = batches.take(self.batch, stream(self.seed, Purpose.TUNE_BATCH, number))
        log_pi = policy.log_probs(texts.take(index))
        known = log_pi.detach().double().cpu().numpy()
        counts = torch.from_numpy(batches.coefficients(index, known)).to(log_pi)
        loss = -(counts * log_pi).sum() / self.batch
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        parameters = list(policy.parameters.values())
        norm = torch.nn.utils.clip_grad_norm_(parameters, LARGEST_NORM)
        if not (torch.isfinite(loss) and torch.isfinite(norm)):
            raise Diverged(
                f"at step {number} the loss was {float(loss.detach()):g} and the gradient's norm "
                f"{float(norm):g}"
            )
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate * min(1.0, number / WARMUP) * pace
        self.optimizer.step()
        self.taken += 1
        # Early in a run the average must not be dominated by the first weights.
        keep = min(AVERAGING, self.taken / (self.taken + 10))
        with torch.no_grad():
            for name, parameter in policy.parameters.items():
                self.average[name].lerp_(parameter, 1.0 - keep)

    def log_prob(self, texts: Texts) -> Array:
        if not len(texts):
            return np.empty(0)
        last = self.policy.weights
        self.policy.load(self.average)
        try:
            return self.policy.lm.log_prob(texts)
        finally:
            self.policy.load(last)

    def snapshot(self) -> dict[str, Any]:
        return {
            "weights": self.policy.weights,
            "average": copied_weights(self.average),
            "optimizer": copy.deepcopy(self.optimizer.state_dict()),
            "taken": self.taken,
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        self.policy.load(snapshot["weights"])
        self.average = copied_weights(snapshot["average"])
        self.optimizer.load_state_dict(copy.deepcopy(snapshot["optimizer"]))
        self.taken = snapshot["taken"]


def copied_weights(weights: Mapping[str, Tensor]) -> Weights:
    return {name: value.detach().clone() for name, value in weights.items()}


WEIGHTS = ("model.safetensors", "adapter_model.safetensors")
FACTS = "tuning.json"


class Checkpoints:
    """The state of a run and the weights of its proposals, in a folder or in memory."""

    def __init__(self, folder: Path | None, identity: dict[str, Any]) -> None:
        self.folder, self.identity = folder, identity
        self._in_memory: dict[int, Weights] = {}

    def save(self, state: dict[str, Any]) -> None:
        self._save("state", {"identity": json.dumps(self.identity), "state": _as_tensors(state)})

    def load(self) -> dict[str, Any] | None:
        """Return the last saved state, with tensors for arrays, or None; refuse other options."""
        if self.folder is None or not (self.folder / "state.pt").is_file():
            return None
        saved = torch.load(self.folder / "state.pt", weights_only=True)
        refuse_others(json.loads(saved["identity"]), self.identity, self.folder.parent)
        state: dict[str, Any] = saved["state"]
        return state

    def save_proposal(self, number: int, weights: Weights) -> None:
        if self.folder is None:
            self._in_memory[number] = weights
        self._save(f"proposal-{number}", weights)

    def proposal(self, number: int) -> Weights:
        if self.folder is None:
            return self._in_memory[number]
        weights: Weights = torch.load(self.folder / f"proposal-{number}.pt", weights_only=True)
        return weights

    def _save(self, name: str, value: Any) -> None:
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_with(self.folder / f"{name}.pt", lambda path: torch.save(value, path))


def refuse_others(there: dict[str, Any], ours: dict[str, Any], out: Path) -> None:
    other = [name for name in ours if there.get(name) != ours[name]]
    if other:
        shown = ", ".join(f"{name} = {there.get(name)!r}, now {ours[name]!r}" for name in other)
        raise InputError(
            f"{out} holds a run with other options: {shown}. Resuming it would mix the two: give "
            "another out, or remove the folder."
        )


def _as_tensors(state: Any) -> Any:
    """Return the state with arrays as tensors, which torch loads without running code."""
    if isinstance(state, dict):
        return {key: _as_tensors(value) for key, value in state.items()}
    if isinstance(state, np.ndarray):
        return torch.from_numpy(np.ascontiguousarray(state))
    return state


def write_result(
    out: Path, policy: Policy, weights: Weights, facts: dict[str, Any], figure: Figure | None
) -> None:
    """Write a run's result: weights and facts last, so that none is half-written."""
    out.mkdir(parents=True, exist_ok=True)
    partial = out / "partial"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    if policy.adapted is None:
        model = policy.copied(weights)
        largest = max(float(p.detach().abs().max()) for p in model.parameters())
        fits = largest < torch.finfo(torch.float16).max
        (model.half() if fits else model).save_pretrained(partial)
        policy.base.tokenizer.save_pretrained(partial)
    else:
        policy.copied(weights).save_pretrained(partial, save_embedding_layers=False)
        (partial / "README.md").unlink(missing_ok=True)  # peft's empty template
    if figure is not None:
        figure.savefig(partial / "learning.png", dpi=150)
    (partial / FACTS).write_text(json.dumps(facts, indent=2) + "\n")
    order = {name: i for i, name in enumerate((*WEIGHTS, FACTS))}
    for file in sorted(partial.iterdir(), key=lambda file: order.get(file.name, -1)):
        os.replace(file, out / file.name)
    partial.rmdir()


def load_result(out: Path, base: CausalLM) -> CausalLM:
    """Load the proposal in a folder, with the prompt, temperature and length of the base."""
    settings = base.settings | UNCUT
    if not (out / "adapter_config.json").is_file():
        return CausalLM(str(out), device=str(base.device), **settings)
    from peft import PeftModel

    adapted = PeftModel.from_pretrained(copy.deepcopy(base.model), str(out))
    model = adapted.merge_and_unload().requires_grad_(False).eval()
    tuned = CausalLM(model=model, tokenizer=base.tokenizer, **settings)
    tuned.name, tuned.revision, tuned.adapter = base.name, base.revision, str(out)
    return tuned


def is_finished(out: Path, identity: dict[str, Any]) -> bool:
    if not (out / FACTS).is_file():
        return False
    facts = json.loads((out / FACTS).read_text())
    refuse_others(facts["options"], identity, out)
    return bool(facts["finished"])
