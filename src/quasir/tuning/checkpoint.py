"""The files of a tuning run: checkpoints to resume from, and the tuned proposal.

No file of the proposal's folder, which `CausalLM` loads, is half-written.
"""

from __future__ import annotations

import copy
import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from quasir.core.files import write_with
from quasir.errors import InputError
from quasir.text.causal import CausalLM
from quasir.tuning.policy import UNCUT, Policy, Weights

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WEIGHTS = ("model.safetensors", "adapter_model.safetensors")
FACTS = "tuning.json"


class Checkpoints:
    """The state of a run and the weights of its proposals, in a folder or in memory.

    Without a folder the proposals stay in memory and no state is saved. A resumed run must share
    the options in `identity`, which is JSON-ready.
    """

    def __init__(self, folder: Path | None, identity: dict[str, Any]) -> None:
        self.folder, self.identity = folder, identity
        self._in_memory: dict[int, Weights] = {}

    def save(self, state: dict[str, Any]) -> None:
        """Save the state, replacing the previous one."""
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
        """Save the weights of a proposal."""
        if self.folder is None:
            self._in_memory[number] = weights
        self._save(f"proposal-{number}", weights)

    def proposal(self, number: int) -> Weights:
        """Return the weights of a proposal."""
        if self.folder is None:
            return self._in_memory[number]
        weights: Weights = torch.load(self.folder / f"proposal-{number}.pt", weights_only=True)
        return weights

    def _save(self, name: str, value: Any) -> None:
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_with(self.folder / f"{name}.pt", lambda path: torch.save(value, path))


def refuse_others(there: dict[str, Any], ours: dict[str, Any], out: Path) -> None:
    """Raise an `InputError` if the run in folder `out` has other options than ours."""
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
    """Write the weights, the tokenizer, the figure and the facts of a run.

    Everything is written to a temporary folder and then moved into `out`: the weights and then
    the facts come last, so that an incomplete `out` is never taken for a finished model.
    """
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
    """Return whether a run with these options has already written its result here."""
    if not (out / FACTS).is_file():
        return False
    facts = json.loads((out / FACTS).read_text())
    refuse_others(facts["options"], identity, out)
    return bool(facts["finished"])
