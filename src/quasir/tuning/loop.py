"""The loop: rounds of draws, steps on the draws, and evaluations on the held-out draws.

Random numbers depend on the seed and the position in the run only, and everything else is in the
checkpoint. So a run that was killed and resumed gives the same result as one that was not.
"""

from __future__ import annotations

import math
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from quasir.core.streams import Purpose, derived_seed, root_seed
from quasir.core.types import Array
from quasir.errors import QuasirWarning, TuningError
from quasir.text.causal import CausalLM
from quasir.tuning.checkpoint import Checkpoints, load_result, write_result
from quasir.tuning.evaluation import Evaluation, Log, better_by, evaluate, plot_learning
from quasir.tuning.losses import Minibatches, loss_named
from quasir.tuning.policy import Diverged, Learner, Policy
from quasir.tuning.rounds import Rounds

if TYPE_CHECKING:
    from quasir.tuning.dpg import DPG

STATE = (
    "step",
    "round_began",
    "stale",
    "fruitless",
    "halvings",
    "best",
    "best_step",
    "best_log_pi",
    "kl_at_start",
    "centred",
)
"""Attributes of `Loop` that a checkpoint holds."""

ENOUGH = 200.0
"""Effective draws to start with: with fewer, the first steps follow a handful of texts."""

FEW = 50.0
"""Effective draws below which the start of a run gives a warning."""

COLLAPSED = 5.0
"""Effective draws below which a run ends: the policy could only memorise a few texts."""

SCARCE, NEAR = 500.0, 0.3
"""Weights are centred below this many effective draws, or below this TVD(p, pi).

Few draws are memorised: an adapter fitted to 290 draws of the built-in model reached KL 1.94 with
plain weights and 1.76 with centred ones; fitted to an effective 1,500 draws it went from 1.56 to
1.52 and 1.55. Per text of a minibatch plain weights have the variance of p, and centred ones about
sum (p - pi)^2/(0.45 (p + pi)) times that, which is at most 2 TVD/0.45.
"""

FRUITLESS = 2
"""Evaluations without improvement that end a round: then only new draws help, not more steps."""

LOST = 10.0
"""A run is given up once KL(p, pi) exceeds twice its starting value plus this many nats."""


class Loop:
    """One run of `DPG` and its state after `step` steps.

    `best` is a snapshot of the learner at its best evaluation, at step `best_step`, and
    `best_log_pi` is log pi of the held-out draws under it. `stale` and `fruitless` count the
    evaluations since then, in the run and in this round. Each of the `halvings`, for a round
    without improvement, halves the learning rate.
    """

    def __init__(self, dpg: DPG, out: Path | None) -> None:
        self.dpg, self.out = dpg, out
        self._began, self._before = time.perf_counter(), 0.0
        seed = root_seed(dpg.seed)
        loss = loss_named(dpg.loss)
        self.policy = Policy(
            dpg.base, dpg.lora, derived_seed(seed, Purpose.TUNE_INITIAL), dpg.dropout
        )
        self.learner = Learner(self.policy, dpg.settings, seed)
        self.checkpoints = Checkpoints(None if out is None else out / "checkpoint", dpg.identity)
        self.rounds = Rounds(
            dpg.target,
            dpg.base,
            self.policy,
            warm_start=dpg.first_proposal,
            checkpoints=self.checkpoints,
            seed=seed,
            hold_out=dpg.hold_out,
            memory=dpg.memory,
            everywhere=loss.plain is None,
            impossible=dpg.centred is not False,
        )
        self.log = Log(out, dpg.progress, dpg.tensorboard)
        self.step = self.round_began = self.best_step = 0
        self.stale = self.fruitless = self.halvings = 0
        self.best: dict[str, Any] = self.learner.snapshot()
        self.best_log_pi: Array = np.empty(0)
        self.kl_at_start = math.inf
        self.centred = bool(dpg.centred)
        self._batches: Minibatches | None = None
        self._resume()

    def go(self) -> None:
        """Run until nothing improves any more, or the steps or the time are used up."""
        if not self.rounds.count:
            self._first_round()
            self._save()
        while not self._over:
            if self._round_is_over:
                self._next_round()
            else:
                self._learn()
                self._judge()
            self._save()

    @property
    def seconds(self) -> float:
        """Time taken so far, with the time before the run was resumed."""
        return self._before + time.perf_counter() - self._began

    @property
    def _over(self) -> bool:
        late = self.dpg.minutes is not None and self.seconds > 60 * self.dpg.minutes
        return self.step >= self.dpg.steps or self.stale >= self.dpg.patience or late

    @property
    def _round_is_over(self) -> bool:
        full = self.step - self.round_began >= self.dpg.round_steps
        return full or self.fruitless >= FRUITLESS

    def _first_round(self) -> None:
        """Draw from the base and the warm start until there are enough draws to learn from."""
        rounds, dpg = self.rounds, self.dpg
        if dpg.pool is not None:
            rounds.take_first(dpg.pool)
        while rounds.ess < ENOUGH and rounds.drawn < dpg.give_up:
            rounds.draw_first(min(dpg.draws, dpg.give_up))
        if not (rounds.trained.possible.any() and rounds.held_out.possible.any()):
            raise TuningError(never_met(rounds))
        if rounds.ess < COLLAPSED:
            raise TuningError(collapsed(rounds) + ".")
        if rounds.ess < FEW:
            warnings.warn(few(rounds), QuasirWarning, stacklevel=2)
        if rounds.proposals == 2:
            base, warm = rounds.held_out.log_q.T
            rounds.current = int(self._gain(warm, base) > 0)
        self._begin_round()

    def _next_round(self) -> None:
        """Restore the best weights, make them the proposal if they are better, and draw."""
        rounds = self.rounds
        if self.best_step <= self.round_began:
            self.halvings += 1
        self.learner.restore(self.best)
        proposal = rounds.held_out.log_q[:, rounds.current]
        gain = better_by(rounds.held_out, self.best_log_pi, proposal, self.dpg.adapt)
        if gain.value > gain.se:
            rounds.adapt(self.best["average"])
        rounds.draw(self.dpg.draws)
        if rounds.ess < COLLAPSED:
            raise Diverged(collapsed(rounds))
        self._begin_round()

    def _begin_round(self) -> None:
        """Evaluate the best weights on all held-out draws, the new ones included."""
        self.round_began, self.fruitless, self._batches = self.step, 0, None
        self.best_log_pi = self.learner.log_prob(self.rounds.held_out.items)
        evaluation = evaluate(self.rounds.held_out, self.best_log_pi)
        if math.isinf(self.kl_at_start):
            self.kl_at_start = evaluation.kl.value
        if self.dpg.centred is None:
            self.centred = self.rounds.ess < SCARCE or evaluation.tvd.value < NEAR
        self._write(evaluation, "round", best=True)

    def _learn(self) -> None:
        """Take the steps until the next evaluation."""
        dpg = self.dpg
        left = (dpg.every, dpg.steps - self.step, self.round_began + dpg.round_steps - self.step)
        for _ in range(min(left)):
            self.step += 1
            self.learner.step(
                self.batches, self.rounds.trained.items, self.step, 0.5**self.halvings
            )

    @property
    def batches(self) -> Minibatches:
        """The minibatches of this round."""
        if self._batches is None:
            self._batches = Minibatches(
                self.rounds.trained,
                loss_named(self.dpg.loss),
                self.rounds.current,
                self.rounds.log_z,
                self.centred,
                self.dpg.clip_weights,
            )
        return self._batches

    def _judge(self) -> None:
        """Evaluate on the held-out draws, and keep the weights if they are the best so far."""
        log_pi = self.learner.log_prob(self.rounds.held_out.items)
        evaluation = evaluate(self.rounds.held_out, log_pi)
        better = self._gain(log_pi, self.best_log_pi) > 0
        if better:
            self.best, self.best_log_pi, self.best_step = self.learner.snapshot(), log_pi, self.step
            self.stale = self.fruitless = 0
        else:
            self.stale, self.fruitless = self.stale + 1, self.fruitless + 1
        self._write(evaluation, "evaluation", best=better)
        kl = evaluation.kl.value
        if not kl <= 2 * self.kl_at_start + LOST:
            raise Diverged(
                f"KL(p, pi) was {kl:.4g} nats at step {self.step}, and {self.kl_at_start:.4g} at "
                "the start"
            )

    def _gain(self, new: Array, old: Array) -> float:
        gain = better_by(self.rounds.held_out, new, old, self.dpg.adapt)
        return float(gain.value)

    def _write(self, evaluation: Evaluation, event: str, best: bool) -> None:
        rounds = self.rounds
        self.log.write(
            evaluation,
            event=event,
            step=self.step,
            round=rounds.count,
            proposal=rounds.current,
            best=best,
            centred=self.centred,
            draws=rounds.drawn,
            possible=rounds.possible,
            kept=len(rounds.trained),
            ess_trained=rounds.ess,
            clipped=self.batches.clipped,
            samples_per_second=rounds.samples_per_second,
            seconds=self.seconds,
        )

    def _save(self) -> None:
        self.checkpoints.save(
            {name: getattr(self, name) for name in STATE}
            | {
                "learner": self.learner.snapshot(),
                "rounds": self.rounds.to_dict(),
                "lines": len(self.log.rows),
                "seconds": self.seconds,
            }
        )

    def _resume(self) -> None:
        """Continue from the checkpoint, if there is one."""
        state = self.checkpoints.load()
        self.log.restore(0 if state is None else state["lines"])
        if state is None:
            return
        for name in STATE:
            setattr(self, name, state[name])
        self.learner.restore(state["learner"])
        self.rounds.restore(state["rounds"])
        self._before = state["seconds"]

    def finish(self, whole: bool) -> CausalLM:
        """Write the result, and return the best weights as a proposal.

        A run that did not reach its end (`whole`) keeps its checkpoint.
        """
        weights = self.best["average"]
        if whole and self.best_step == 0:
            warnings.warn(no_better(self.step), QuasirWarning, stacklevel=3)
        if self.out is None:
            return self.policy.frozen(weights)
        evaluation = evaluate(self.rounds.held_out, self.best_log_pi)
        facts = {
            "finished": whole,
            "options": self.dpg.identity,
            "steps": self.step,
            "best_step": self.best_step,
            "rounds": self.rounds.count,
            "draws": self.rounds.drawn,
            "seconds": self.seconds,
            "held_out": evaluation.to_dict(),
        }
        figure = plot_learning(self.log.rows) if self.log.rows else None
        write_result(self.out, self.policy, weights, facts, figure)
        if whole:
            self.checkpoints.clear()
        return load_result(self.out, self.dpg.base)


def never_met(rounds: Rounds) -> str:
    """Return the message for a run in which too few draws, or none, have P(x) > 0."""
    return (
        f"the target was met by {rounds.possible:,} of {rounds.drawn:,} draws, too few to learn "
        "from: every gradient would be zero. Start with a prompt or a model that meets it more "
        "often (warm_start=...), tune first towards a weaker target, such as "
        "base * qr.tilt(feature, 3), or raise give_up."
    )


def few(rounds: Rounds) -> str:
    """Return the warning for a run that starts with few effective draws."""
    return (
        f"{rounds.drawn:,} draws are worth only {rounds.ess:.0f} draws of the target: the first "
        "steps will follow a handful of texts. A warm start helps."
    )


def collapsed(rounds: Rounds) -> str:
    """Return the message for weights that lie on a handful of draws."""
    return (
        f"of {rounds.possible:,} draws with P(x) > 0 a handful have all the weight (an effective "
        f"{rounds.ess:.2f} draws): pi would memorise those texts. A proposal nearer to the target "
        "(warm_start=...) or more draws a round help"
    )


def no_better(steps: int) -> str:
    """Return the warning for a run that never improved on the base."""
    return (
        f"no evaluation in {steps} steps was better than the base, so the proposal is the base "
        "itself. Lower the rate, or take more draws a round."
    )
