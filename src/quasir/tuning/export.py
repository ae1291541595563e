"""The tuned proposal as a folder that `CausalLM` loads; no file in it is half-written."""

from __future__ import annotations

import copy
import json
import os
import shutil
from pathlib import Path
from typing import Any

import torch

from quasir.text.causal import CausalLM
from quasir.tuning.checkpoint import refuse_others
from quasir.tuning.figure import plot_learning
from quasir.tuning.policy import Policy, Weights

__all__ = ["finished", "load_result", "write_result"]

WEIGHTS = ("model.safetensors", "adapter_model.safetensors")
FACTS = "tuning.json"


def write_result(
    out: Path, policy: Policy, weights: Weights, facts: dict[str, Any], rows: list[dict[str, Any]]
) -> None:
    """Write the weights, the tokenizer, the figure and the facts of a run.

    Everything is written to a temporary folder and then moved into `out`: the weights and then
    the facts come last, so that an incomplete `out` is never taken for a finished model.
    """
    out.mkdir(parents=True, exist_ok=True)
    beside = out / "partial"
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir()
    if policy.adapted is None:
        model = policy.frozen(weights).model
        in_half(model).save_pretrained(beside)
        policy.base.tokenizer.save_pretrained(beside)
    else:
        adapted = copy.deepcopy(policy.adapted)
        with torch.no_grad():
            for name, parameter in adapted.get_base_model().named_parameters():
                if name in weights:
                    parameter.copy_(weights[name])
        adapted.save_pretrained(beside, save_embedding_layers=False)
        (beside / "README.md").unlink(missing_ok=True)  # peft's empty template
    if rows:
        plot_learning(rows).savefig(beside / "learning.png", dpi=150)
    (beside / FACTS).write_text(json.dumps(facts, indent=2) + "\n")
    last = [*WEIGHTS, FACTS]
    order = {name: i for i, name in enumerate(last)}
    for file in sorted(beside.iterdir(), key=lambda file: order.get(file.name, -1)):
        os.replace(file, out / file.name)
    beside.rmdir()


def in_half(model: Any) -> Any:
    """Return the model in float16, or unchanged if a weight is out of float16's range."""
    largest = max(float(p.detach().abs().max()) for p in model.parameters())
    return model.half() if largest < torch.finfo(torch.float16).max else model


def load_result(out: Path, base: CausalLM) -> CausalLM:
    """Load the proposal in a folder, with the prompt, temperature and length of the base."""
    settings = {
        "max_tokens": base.max_tokens,
        "prompt": base.prompt,
        "chat": base.chat,
        "temperature": base.warp.temperature,
    }
    if not (out / "adapter_config.json").is_file():
        return CausalLM(str(out), device=str(base.device), **settings)  # type: ignore[arg-type]
    from peft import PeftModel

    adapted = PeftModel.from_pretrained(copy.deepcopy(base.model), str(out))
    model = adapted.merge_and_unload().requires_grad_(False).eval()
    tuned = CausalLM(model=model, tokenizer=base.tokenizer, **settings)  # type: ignore[arg-type]
    tuned.name, tuned.revision, tuned.adapter = base.name, base.revision, str(out)
    return tuned


def finished(out: Path, identity: dict[str, Any]) -> bool:
    """Tell whether a run with these options has already written its result here."""
    if not (out / FACTS).is_file():
        return False
    facts = json.loads((out / FACTS).read_text())
    refuse_others(facts["options"], identity, out)
    return bool(facts["finished"])
