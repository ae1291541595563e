"""Distributional policy gradients: a language model tuned towards a target (section 3.2).

DPG (Parshakova et al. 2019, Khalifa et al. 2021) and f-DPG (Go et al. 2023), by rounds: draw from
the proposal, score under the target, take steps on all draws so far, judge the policy on draws
that were held out, and make it the proposal where it is better.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
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
from quasir.tuning.checkpoint import digest
from quasir.tuning.export import finished, load_result
from quasir.tuning.learner import Diverged, Settings
from quasir.tuning.loop import Loop
from quasir.tuning.losses import loss_named

__all__ = ["DPG"]

RATE, LORA_RATE = 2e-4, 2e-3
"""Learning rates where none is given: of all weights, and of an adapter's."""


@dataclass(frozen=True, eq=False)
class DPG:
    """Tunes a copy of a language model towards a target, to be its proposal.

    Parameters
    ----------
    target : Target
        P, most often a product on `base`.
    base : CausalLM
        Where to begin; its weights are left alone.
    loss : {"kl", "reverse_kl", "tv", "js"}
        The divergence whose gradient is followed; see `quasir.tuning.losses`.
    steps : int
        Steps at most.
    batch : int
        Texts a step.
    lora : int, optional
        The rank of a LoRA adapter to tune instead of all weights.
    seed : int
        All that is random depends on it alone.
    out : path, optional
        A folder for the result, the log and the figure. A run that was stopped and is started
        again with the same options goes on from its last evaluation. Without it nothing is kept.
    pool : Draws, optional
        Draws of the base with its prompt, temperature and length that are at hand, with their
        items: as many fewer are drawn at first. What they were scored by does not matter.
    draws : int
        Draws a round; at first as many rounds as it takes to have something to learn from.
    round_steps : int
        Steps a round at most; a round ends sooner when they bring nothing any more.
    every : int
        Steps between two evaluations.
    adapt : {"kl", "tvd"}
        What the policy must be better in to become the proposal, and to be kept.
    patience : int
        Evaluations in a row without an improvement that end the run.
    warm_start : str or Proposal, optional
        A prompt, or another model of the same tokenizer, that meets the target more often than
        the base: half of the first draws are taken from it.
    rate, warmup, weight_decay, averaging, clip_gradient
        See `Settings`; `rate` is by default 2e-4, and 2e-3 for an adapter.
    dropout : float
        Of the network while it is trained, whatever the base was trained with. It costs a second
        pass a step where weights are centred.
    centred : bool, optional
        Whether the weights are centred; see `quasir.tuning.losses`. By default in those rounds
        where draws are so few that they would be memorised, or pi is near p.
    clip_weights : float, optional
        Where to clip p/m. It is exact without.
    hold_out : float
        Share of every round that is never trained on, to judge by.
    memory : int
        Draws that are kept to train on, at most; those of the first rounds are always kept.
    give_up : int
        Draws after which a target that no draw has met is given up.
    minutes : float, optional
        Stop after so long, at the next evaluation.
    tensorboard, progress : bool
        Whether to write for TensorBoard, and a line an evaluation on stderr.

    Notes
    -----
    The proposals depend on the draws before them, and the policy that is kept was chosen by the
    draws held out. So the last KL and TVD are a little too good; draws from the tuned proposal
    that were made afterwards, as `draw` makes them, are not.

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
            Where no draw meets the target, or where the run diverges; the error has the last good
            proposal as `tuned`.
        """
        out = None if self.out is None else Path(self.out)
        if out is not None and finished(out, self.identity):
            return load_result(out, self.base)
        loop = Loop(self, out)
        try:
            loop.go()
        except Diverged as error:
            raise TuningError(
                f"the run diverged: {error}. The weights that are kept are those of step "
                f"{loop.best_step}, the best before. Lower the rate (now {self.settings.rate:g}), "
                "or take more draws a round.",
                loop.finish(whole=False),
            ) from error
        return loop.finish(whole=True)

    @property
    def settings(self) -> Settings:
        """How steps are taken."""
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
        """The warm start as a proposal."""
        if isinstance(self.warm_start, str):
            return self.base.prompted(self.warm_start)
        return self.warm_start

    @property
    def identity(self) -> dict[str, Any]:
        """What tells this run from others, JSON-ready."""
        other = ("target", "base", "out", "pool", "minutes", "tensorboard", "progress")
        options = [name for name in self.__dataclass_fields__ if name not in other]
        warm, pool = self.warm_start, self.pool
        return {
            **{name: getattr(self, name) for name in options},
            "streams": VERSION,
            "target": described(self.target),
            "base": digest(self.base.model),
            "max_tokens": self.base.max_tokens,
            "prompt": self.base.prompt,
            "pool": None if pool is None else hashlib.sha256(pool.log_q.tobytes()).hexdigest()[:16],
            "warm_start": warm if warm is None or isinstance(warm, str) else name_of(warm),
        }


def described(target: Target) -> str:
    """Return what a target is, as far as words go: the same in another process."""
    if not isinstance(target, Product):
        return name_of(target)
    return " * ".join([name_of(target.base), *(str(factor) for factor in target.factors)])
