"""Steps of gradient descent on the weights of a policy, and their running average."""

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
    """A loss or gradient that is no number; the loop turns it into what the user sees."""


@dataclass(frozen=True)
class Settings:
    """How steps are taken.

    Attributes
    ----------
    batch : int
        Texts a step.
    rate : float
        AdamW's learning rate, after `warmup` steps of a linear rise.
    weight_decay : float
        Of matrices; vectors have none.
    averaging : float
        The share that the running average of the weights keeps a step; 0 takes the last weights.
    clip_gradient : float
        The largest norm of a gradient.
    """

    batch: int
    rate: float
    warmup: int
    weight_decay: float
    averaging: float
    clip_gradient: float


class Learner:
    """A policy that is being tuned: its weights, their average, and AdamW's state.

    What is judged, drawn from and kept in the end is always the average.
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
        """Take one step; `number` is its place in the run, and all its randomness.

        `pace` is the share of the learning rate to go at.

        Raises
        ------
        Diverged
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
        # The average of a young run must not hold on to its beginning.
        keep = min(self.settings.averaging, self.taken / (self.taken + 10))
        with torch.no_grad():
            for name, parameter in policy.parameters.items():
                self.average[name].lerp_(parameter, 1.0 - keep)

    def _known_log_pi(self, batches: Minibatches, texts: Texts, log_pi: torch.Tensor) -> Array:
        """Return log pi(x) for the weights, without dropout."""
        policy = self.policy
        if batches.needs_pi and policy.has_dropout:
            policy.model.eval()
            with torch.no_grad():
                log_pi = policy.log_probs(texts)
            policy.model.train()
        return log_pi.detach().double().cpu().numpy()

    @contextmanager
    def averaged(self) -> Iterator[Policy]:
        """Put the average in the policy for a while."""
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
        """Return a copy of all that the next step depends on, but for its number."""
        return {
            "weights": self.policy.weights,
            "average": {name: value.clone() for name, value in self.average.items()},
            "optimizer": copy.deepcopy(self.optimizer.state_dict()),
            "taken": self.taken,
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Go back to a snapshot."""
        self.policy.load(snapshot["weights"])
        self.average = {name: value.clone() for name, value in snapshot["average"].items()}
        self.optimizer.load_state_dict(copy.deepcopy(snapshot["optimizer"]))
        self.taken = snapshot["taken"]
