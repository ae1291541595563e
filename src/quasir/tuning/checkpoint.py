"""Checkpoints: the files that a tuning run is resumed from."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import torch

from quasir.core.files import write_with
from quasir.errors import InputError
from quasir.tuning.policy import Weights

__all__ = ["Checkpoints", "digest", "refuse_others"]


class Checkpoints:
    """The state of a run and the weights of its proposals, in a folder or in memory.

    Parameters
    ----------
    folder : Path or None
        With None the proposals stay in memory and no state is saved.
    identity : dict
        The options that a resumed run must share; JSON-ready.
    """

    def __init__(self, folder: Path | None, identity: dict[str, Any]) -> None:
        self.folder, self.identity = folder, identity
        self._in_memory: dict[int, Weights] = {}

    def save(self, state: dict[str, Any]) -> None:
        """Save the state, replacing the previous one."""
        if self.folder is not None:
            _save(
                self.folder / "state.pt",
                {"identity": json.dumps(self.identity), "state": _as_tensors(state)},
            )

    def load(self) -> dict[str, Any] | None:
        """Return the last saved state, or None if there is none.

        Raises
        ------
        InputError
            If the saved run has other options.
        """
        if self.folder is None or not (self.folder / "state.pt").is_file():
            return None
        saved = torch.load(self.folder / "state.pt", weights_only=True)
        refuse_others(json.loads(saved["identity"]), self.identity, self.folder.parent)
        state: dict[str, Any] = _as_arrays(saved["state"])
        return state

    def save_proposal(self, number: int, weights: Weights) -> None:
        """Save the weights of a proposal."""
        if self.folder is None:
            self._in_memory[number] = weights
        else:
            _save(self.folder / f"proposal-{number}.pt", weights)

    def proposal(self, number: int) -> Weights:
        """Return the weights of a proposal."""
        if self.folder is None:
            return self._in_memory[number]
        weights: Weights = torch.load(self.folder / f"proposal-{number}.pt", weights_only=True)
        return weights

    def clear(self) -> None:
        """Remove the folder once the run is finished."""
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)


def refuse_others(there: dict[str, Any], ours: dict[str, Any], out: Path) -> None:
    """Raise an `InputError` if the run in folder `out` has other options than ours."""
    other = [name for name in ours if there.get(name) != ours[name]]
    if other:
        shown = ", ".join(f"{name} = {there.get(name)!r}, now {ours[name]!r}" for name in other)
        raise InputError(
            f"{out} holds a run with other options: {shown}. Resuming it would mix the two: give "
            "another out, or remove the folder."
        )


def _save(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_with(path, lambda temporary: torch.save(value, temporary))


def digest(model: Any) -> str:
    """Return a fingerprint of a model's weights."""
    total = hashlib.sha256()
    for name, value in sorted(model.state_dict().items()):
        total.update(name.encode())
        total.update(value.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return total.hexdigest()[:16]


ARRAY = "__array__"
"""The key that marks a tensor in a file as an array of the state."""


def _as_tensors(state: Any) -> Any:
    """Return the state with arrays as tensors, which torch loads without running code."""
    if isinstance(state, dict):
        return {key: _as_tensors(value) for key, value in state.items()}
    if isinstance(state, list):
        return [_as_tensors(value) for value in state]
    if isinstance(state, np.ndarray):
        return {ARRAY: torch.from_numpy(np.ascontiguousarray(state))}
    return state


def _as_arrays(state: Any) -> Any:
    """Return the state with those tensors as arrays again."""
    if isinstance(state, dict):
        if ARRAY in state:
            return state[ARRAY].numpy()
        return {key: _as_arrays(value) for key, value in state.items()}
    if isinstance(state, list):
        return [_as_arrays(value) for value in state]
    return state
