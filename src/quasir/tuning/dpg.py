"""Distributional policy gradients: a language model tuned towards a target (section 3.2).

DPG (Parshakova et al. 2019, Khalifa et al. 2021) and f-DPG (Go et al. 2023), in rounds. A round
draws from the proposal, scores the draws under the target, takes steps on all draws so far, and
evaluates the policy on held-out draws. If the policy is better, it becomes the next proposal.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

from quasir.core.arguments import check_count, number
from quasir.core.scores import name_of
from quasir.core.streams import VERSION
from quasir.core.types import Proposal, Target
from quasir.draws.draws import Draws
from quasir.errors import InputError, TuningError
from quasir.targets.product import Product
from quasir.text.causal import CausalLM
from quasir.text.fingerprints import find_setting
from quasir.tuning.checkpoint import is_finished, load_result
from quasir.tuning.loop import Loop
from quasir.tuning.losses import loss_named
from quasir.tuning.policy import Diverged, Settings

__all__ = ["DPG"]

RATE, LORA_RATE = 2e-4, 2e-3
"""Default learning rates, for tuning all weights and for tuning an adapter."""


@dataclass(frozen=True, eq=False)
class DPG:
    """Tune a copy of a language model towards a target, as a proposal for it.

    Parameters
    ----------
    target : Target
        P, usually a product on `base`.
    base : CausalLM
        The model to start from; its weights are not changed.
    loss : {"kl", "reverse_kl", "tv", "js"}
        The divergence whose gradient is followed; see `quasir.tuning.losses`.
    steps : int
        Maximum number of steps.
    batch : int
        Texts per step.
    lora : int, optional
        The rank of a LoRA adapter to tune instead of all weights.
    seed : int
        Seed of all random numbers of the run.
    out : path, optional
        Folder for the result, the log and the figure. A stopped run that is started again with
        the same options resumes from its last evaluation. Without `out` nothing is saved.
    pool : Draws, optional
        Existing draws of the base, with their items and with the base's prompt, temperature and
        length. They serve as a first round and are scored again under the target.
    draws : int
        Draws per round. The first rounds repeat until there are enough draws to learn from.
    round_steps : int
        Maximum number of steps in a round; it ends sooner if evaluations stop improving.
    every : int
        Steps between two evaluations.
    adapt : {"kl", "tvd"}
        The distance that must fall for the policy to become the proposal, and to be kept.
    patience : int
        Number of evaluations in a row without improvement that ends the run.
    warm_start : str or Proposal, optional
        A prompt, or another model of the same tokenizer, that meets the target more often than
        the base. Half of the first draws come from it.
    rate, warmup, weight_decay, averaging, clip_gradient
        AdamW's learning rate (by default 2e-4, and 2e-3 for an adapter), the steps over which it
        rises, its weight decay, the share of itself that the running average of the weights keeps
        per step, and the largest norm of a gradient.
    dropout : float
        Dropout rate during steps, whatever the base was trained with. With centred weights it
        costs a second pass per step.
    centred : bool, optional
        Whether the weights are centred; see `quasir.tuning.losses`. By default they are centred
        in rounds with so few draws that these would be memorised, and when pi is near p.
    clip_weights : float, optional
        Upper limit of p/m. Without it the gradient is unbiased.
    hold_out : float
        Share of every round that is used for evaluation and never for training.
    memory : int
        Maximum number of draws kept for training; those of the first rounds are always kept.
    give_up : int
        Number of first draws after which the search for draws that meet the target ends.
    minutes : float, optional
        Time limit; the run stops at the next evaluation after it.
    tensorboard : bool
        Whether to write TensorBoard files.
    progress : bool
        Whether to print one line per evaluation on stderr.

    Notes
    -----
    The proposals depend on earlier draws, and the best policy is chosen on the held-out draws. So
    the last KL and TVD are slightly too low. Estimates from new draws of the tuned proposal, made
    by `draw`, do not have this bias.

    Examples
    --------
    >>> import quasir as qr
    >>> base = qr.text.CausalLM("quasir/biographies", max_tokens=3, device="cpu")
    >>> target = base * qr.features.contains("a")
    >>> tuned = qr.tuning.DPG(
    ...     target, base, steps=4, every=2, batch=32, draws=512, progress=False
    ... ).run()
    >>> len(qr.draw(target, tuned, 100, seed=1))
    100
    """

    target: Target
    base: CausalLM
    _: KW_ONLY
    loss: str = "kl"
    steps: int = 2000
    batch: int = 64
    lora: int | None = None
    seed: int = 0
    out: str | Path | None = None
    pool: Draws | None = None
    draws: int = 8192
    round_steps: int = 200
    every: int = 50
    adapt: str = "kl"
    patience: int = 6
    warm_start: str | Proposal | None = None
    rate: float | None = None
    warmup: int = 20
    weight_decay: float = 0.01
    averaging: float = 0.98
    clip_gradient: float = 1.0
    dropout: float = 0.0
    centred: bool | None = None
    clip_weights: float | None = None
    hold_out: float = 0.2
    memory: int = 20_000
    give_up: int = 200_000
    minutes: float | None = None
    tensorboard: bool = False
    progress: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.base, CausalLM):
            raise InputError(
                f"base is a {type(self.base).__name__}, but must be a quasir.text.CausalLM."
            )
        loss_named(self.loss)
        counts = ("steps", "batch", "draws", "round_steps", "every", "patience", "memory")
        for name in (*counts, "give_up", *(["lora"] if self.lora is not None else [])):
            check_count(name, getattr(self, name))
        if self.adapt not in ("kl", "tvd"):
            raise InputError(f"adapt is {self.adapt!r}, but must be 'kl' or 'tvd'.")
        above_0 = ("rate", "clip_gradient", "clip_weights", "minutes")
        for name in above_0:
            value = getattr(self, name)
            if value is not None and not 0 < number(name, value) < math.inf:
                raise InputError(f"{name} is {value!r}, but must be above 0 and finite.")
        if not 0 < number("hold_out", self.hold_out) < 1:
            raise InputError(f"hold_out is {self.hold_out!r}, but must be between 0 and 1.")
        for name in ("averaging", "dropout"):
            if not 0 <= number(name, getattr(self, name)) < 1:
                raise InputError(f"{name} is {getattr(self, name)!r}, but must be in [0, 1).")

    def run(self) -> CausalLM:
        """Tune, and return the tuned proposal.

        Raises
        ------
        TuningError
            If no draw meets the target, or if the run diverges; then `tuned` of the error is the
            last good proposal.
        """
        out = None if self.out is None else Path(self.out)
        if out is not None and is_finished(out, self.identity):
            return load_result(out, self.base)
        loop = Loop(self, out)
        try:
            loop.go()
        except Diverged as error:
            raise TuningError(
                f"the run diverged: {error}. The weights of step {loop.best_step}, the best "
                f"evaluation before, are kept. Lower the rate (now {self.settings.rate:g}), or "
                "take more draws a round.",
                loop.finish(whole=False),
            ) from error
        return loop.finish(whole=True)

    @property
    def settings(self) -> Settings:
        """The settings of the optimizer."""
        return Settings(
            batch=self.batch,
            rate=self.rate or (RATE if self.lora is None else LORA_RATE),
            warmup=self.warmup,
            weight_decay=self.weight_decay,
            averaging=self.averaging,
            clip_gradient=self.clip_gradient,
        )

    @property
    def first_proposal(self) -> Proposal | None:
        """The warm start as a proposal, or None."""
        if isinstance(self.warm_start, str):
            return self.base.prompted(self.warm_start)
        return self.warm_start

    @property
    def identity(self) -> dict[str, Any]:
        """The options and inputs that determine the result of this run, JSON-ready."""
        other = ("target", "base", "out", "pool", "minutes", "tensorboard", "progress")
        options = [name for name in self.__dataclass_fields__ if name not in other]
        warm, pool = self.warm_start, self.pool
        return {
            **{name: getattr(self, name) for name in options},
            "streams": VERSION,
            "target": describe_target(self.target),
            **find_setting(self.base).to_dict(),
            "pool": None if pool is None else hashlib.sha256(pool.log_q.tobytes()).hexdigest()[:16],
            "warm_start": warm if warm is None or isinstance(warm, str) else name_of(warm),
        }


def describe_target(target: Target) -> str:
    """Return a description of a target that is the same in every process."""
    if not isinstance(target, Product):
        return name_of(target)
    return " * ".join([name_of(target.base), *(str(factor) for factor in target.factors)])
