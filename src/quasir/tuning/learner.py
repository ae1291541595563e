"""Gradient steps on the weights of a policy, and the running average of the weights."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from quasir.core.streams import Purpose, derived_seed, stream
from quasir.core.types import Array
from quasir.text.texts import Texts
from quasir.tuning.minibatches import Minibatches
from quasir.tuning.policy import Policy, Weights
from quasir.tuning.torch_seed import seeded

__all__ = ["Diverged", "Learner", "Settings"]


class Diverged(Exception):
    """The run cannot continue; `DPG.run` turns this into the error that the user sees."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of the optimizer.

    Attributes
    ----------
    batch : int
        Texts per step.
    rate : float
        AdamW's learning rate.
    warmup : int
        Steps over which the learning rate rises linearly to `rate`.
    weight_decay : float
        Weight decay of matrices; vectors have none.
    averaging : float
        Share of itself that the running average keeps per step; 0 takes the last weights.
    clip_gradient : float
        Maximum norm of a gradient; longer ones are scaled down.
    """

    batch: int
    rate: float
    warmup: int
    weight_decay: float
    averaging: float
    clip_gradient: float


class Learner:
    """A policy that is being tuned: its weights, their average, and AdamW's state.

    Evaluation, drawing and the final result always use the average.
    """

    def __init__(self, policy: Policy, settings: Settings, seed: int) -> None:
        self.policy, self.settings, self.seed = policy, settings, seed
        parameters = policy.parameters
        matrices = [p for p in parameters.values() if p.ndim >= 2]
        vectors = [p for p in parameters.values() if p.ndim < 2]
        groups = [
            {"params": matrices, "weight_decay": settings.weight_decay},
            {"params": vectors, "weight_decay": 0.0},
        ]
        groups = [group for group in groups if group["params"]]
        self.optimizer = torch.optim.AdamW(groups, lr=settings.rate)
        self.average: Weights = policy.weights
        self.taken = 0

    def step(self, batches: Minibatches, texts: Texts, number: int, pace: float = 1.0) -> None:
        """Take step `number` of the run; its random numbers depend on (seed, number) only.

        `pace` is a factor on the learning rate.

        Raises
        ------
        Diverged
            If the loss or the gradient is not finite.
        """
        policy, size = self.policy, self.settings.batch
        index = batches.take(size, stream(self.seed, Purpose.TUNE_BATCH, number))
        chosen = texts.take(index)
        policy.model.train()
        dropout = derived_seed(self.seed, Purpose.TUNE_DROPOUT, number)
        with seeded(policy.lm.device, dropout):
            log_pi = policy.log_probs(chosen)
            known = self._known_log_pi(batches, chosen, log_pi)
            counts = torch.from_numpy(batches.coefficients(index, known)).to(log_pi)
            loss = -(counts * log_pi).sum() / size
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
        policy.model.eval()
        parameters = list(policy.parameters.values())
        norm = torch.nn.utils.clip_grad_norm_(parameters, self.settings.clip_gradient)
        if not (torch.isfinite(loss) and torch.isfinite(norm)):
            raise Diverged(
                f"at step {number} the loss was {float(loss.detach()):g} and the gradient's norm "
                f"{float(norm):g}"
            )
        for group in self.optimizer.param_groups:
            rise = min(1.0, number / max(self.settings.warmup, 1))
            group["lr"] = self.settings.rate * rise * pace
        self.optimizer.step()
        self.taken += 1
        # Early in a run the average must not be dominated by the first weights.
        keep = min(self.settings.averaging, self.taken / (self.taken + 10))
        with torch.no_grad():
            for name, parameter in policy.parameters.items():
                self.average[name].lerp_(parameter, 1.0 - keep)

    def _known_log_pi(self, batches: Minibatches, texts: Texts, log_pi: torch.Tensor) -> Array:
        """Return log pi(x) for the coefficients; computed without dropout if they depend on it."""
        policy = self.policy
        if batches.needs_pi and policy.has_dropout:
            policy.model.eval()
            with torch.no_grad():
                log_pi = policy.log_probs(texts)
            policy.model.train()
        return log_pi.detach().double().cpu().numpy()

    @contextmanager
    def averaged(self) -> Iterator[Policy]:
        """Load the average into the policy for the duration of a `with` block."""
        last = self.policy.weights
        self.policy.load(self.average)
        try:
            yield self.policy
        finally:
            self.policy.load(last)

    def log_prob(self, texts: Texts) -> Array:
        """Return log pi(x) under the average of the weights."""
        if not len(texts):
            return np.empty(0)
        with self.averaged() as policy:
            return policy.lm.log_prob(texts)

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of everything the next step depends on, except its number."""
        return {
            "weights": self.policy.weights,
            "average": {name: value.clone() for name, value in self.average.items()},
            "optimizer": copy.deepcopy(self.optimizer.state_dict()),
            "taken": self.taken,
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Restore a snapshot."""
        self.policy.load(snapshot["weights"])
        self.average = {name: value.clone() for name, value in snapshot["average"].items()}
        self.optimizer.load_state_dict(copy.deepcopy(snapshot["optimizer"]))
        self.taken = snapshot["taken"]
