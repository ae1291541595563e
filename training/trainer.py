"""The training shared by all built-in models: optimizers, schedule, checkpoints, best weights.

The options and the seed determine a run. If it is stopped, the same command resumes it from its
last checkpoint, and the result is the same as without the stop.
"""

from __future__ import annotations

import dataclasses
import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from muon import Muon
from torch import nn

from quasir.core.files import write_with

__all__ = [
    "Settings",
    "Task",
    "Trainer",
    "check_exported",
    "export_model",
    "stopped",
    "train",
    "write_facts",
]

CHECKPOINT_EVERY = 50


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """The options that, with the data, determine a run of any model."""

    steps: int = 2200
    batch: int = 48
    width: int = 192
    layers: int = 4
    heads: int = 4
    context: int = 64
    optimizer: str = "muon"
    rate: float = 3e-3
    muon_rate: float = 1.5e-2
    warmup: int = 100
    decay: int = 800
    weight_decay: float = 0.1
    dropout: float = 0.1
    averaging: float = 0.995
    # "bfloat16" makes steps about 1.4 times as fast on a CPU that has it; weights stay float32.
    precision: str = "float32"
    seed: int = 0


class Task(Protocol):
    """A model, its batches and its loss."""

    def build(self) -> nn.Module:
        """Return the model before the first step."""
        ...

    def is_block(self, name: str) -> bool:
        """Tell whether a parameter is inside a transformer block."""
        ...

    def batches(self, first: int) -> Iterator[Any]:
        """Yield batch `first`, `first + 1`, ... without end; (seed, number) determines each."""
        ...

    def losses(self, model: nn.Module, batch: Any) -> torch.Tensor:
        """Return the loss of every label of a batch, in nats."""
        ...

    def held_out(self, model: nn.Module) -> float:
        """Return the mean loss per label on held-out texts, with dropout off."""
        ...


def build_optimizers(
    model: nn.Module, options: Settings, is_block: Callable[[str], bool]
) -> list[torch.optim.Optimizer]:
    """Build AdamW for everything, or Muon for the matrices of the blocks and AdamW for the rest."""
    blocks, embeddings, vectors = [], [], []
    for name, parameter in model.named_parameters():
        matrices = blocks if is_block(name) else embeddings
        (vectors if parameter.ndim < 2 else matrices).append(parameter)
    use_muon = options.optimizer == "muon"
    groups = [
        {"params": embeddings + ([] if use_muon else blocks), "weight_decay": options.weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    adam = torch.optim.AdamW(groups, lr=options.rate, betas=(0.9, 0.98), fused=True)
    if not use_muon:
        return [adam]
    return [adam, Muon(blocks, lr=options.muon_rate, weight_decay=options.weight_decay)]


def schedule(step: int, options: Settings) -> float:
    """Return the share of the full learning rate: linear up, constant, and linear down to 0.

    Before the last `decay` steps it depends on neither number, so a run may be made longer or
    shorter, and its decay too, until they begin.
    """
    return min(1.0, (step + 1) / options.warmup, (options.steps - step) / options.decay)


class Trainer:
    """One run: the model, its average, the optimizers, and the position in the run."""

    def __init__(self, task: Task, options: Settings, run: Path) -> None:
        self.task, self.options, self.run = task, options, run
        self.model = task.build()
        self.average = task.build().requires_grad_(False).eval()
        self.optimizers = build_optimizers(self.model, options, task.is_block)
        self.step, self.tokens, self.seconds = 0, 0, 0.0
        self.recent: list[float] = []
        torch.manual_seed(options.seed)
        self._restore()

    def _restore(self) -> None:
        path = self.run / "checkpoint.pt"
        if not path.exists():
            return
        saved = torch.load(path, weights_only=True)
        was, now = type(self.options)(**saved["options"]), self.options
        same = dataclasses.replace(was, steps=now.steps, decay=now.decay) == now
        constant = min(was.steps - was.decay, now.steps - now.decay)
        if not same or (was != now and saved["step"] > constant):
            raise SystemExit(
                f"{path} belongs to a run with other options; give another --run folder"
            )
        self.model.load_state_dict(saved["model"])
        self.average.load_state_dict(saved["average"])
        for optimizer, state in zip(self.optimizers, saved["optimizers"], strict=True):
            optimizer.load_state_dict(state)
        self.step, self.tokens, self.seconds = saved["step"], saved["tokens"], saved["seconds"]
        self.recent = saved["recent"]
        torch.set_rng_state(saved["rng"])

    def save(self) -> None:
        """Write a checkpoint: everything that the next step depends on."""
        state = {
            "options": dataclasses.asdict(self.options),
            "model": self.model.state_dict(),
            "average": self.average.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "step": self.step,
            "tokens": self.tokens,
            "seconds": self.seconds,
            "recent": self.recent,
            "rng": torch.get_rng_state(),
        }
        write_with(self.run / "checkpoint.pt", partial(torch.save, state))

    def learn(self, batch: Any) -> None:
        """Take one step on a batch."""
        began = time.perf_counter()
        share = schedule(self.step, self.options)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                full = self.options.muon_rate if isinstance(optimizer, Muon) else self.options.rate
                group["lr"] = full * share
        low = self.options.precision == "bfloat16"
        with torch.autocast("cpu", torch.bfloat16, enabled=low):
            losses = self.task.losses(self.model.train(), batch)
        loss = losses.mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        # Early in a run the average must not be dominated by the random start.
        keep = min(self.options.averaging, self.step / (self.step + 10))
        with torch.no_grad():
            for mean, value in zip(self.average.parameters(), self.model.parameters(), strict=True):
                mean.lerp_(value, 1 - keep)
        self.step, self.tokens = self.step + 1, self.tokens + len(losses)
        self.seconds += time.perf_counter() - began
        self.recent.append(loss.item())


def train(task: Task, options: Settings, run: Path, every: int) -> None:
    """Train until the last step; write the log, the best weights and the last state."""
    trainer = Trainer(task, options, run)
    best_path = run / "best.pt"
    best = torch.load(best_path, weights_only=True)["loss"] if best_path.exists() else math.inf
    batches = task.batches(trainer.step)
    while trainer.step < options.steps:
        trainer.learn(next(batches))
        if trainer.step % every == 0 or trainer.step == options.steps:
            raw, mean = task.held_out(trainer.model), task.held_out(trainer.average)
            # While the rate is high the average is better, later the last weights are.
            winner = trainer.average if mean < raw else trainer.model
            if min(raw, mean) < best:
                best = min(raw, mean)
                state = {
                    "loss": best,
                    "averaged": winner is trainer.average,
                    "step": trainer.step,
                    "tokens": trainer.tokens,
                    "seconds": trainer.seconds,
                    "options": dataclasses.asdict(options),
                    "model": winner.state_dict(),
                }
                write_with(best_path, partial(torch.save, state))
            line = {
                "step": trainer.step,
                "train_loss": round(float(np.mean(trainer.recent)), 4),
                "held_out_loss": round(raw, 4),
                "held_out_loss_averaged": round(mean, 4),
                "tokens": trainer.tokens,
                "tokens_per_second": round(trainer.tokens / trainer.seconds),
                "minutes": round(trainer.seconds / 60, 2),
            }
            with (run / "log.jsonl").open("a") as log:
                log.write(json.dumps(line) + "\n")
            print(json.dumps(line), file=sys.stderr, flush=True)
            trainer.recent = []
            trainer.save()
        elif trainer.step % CHECKPOINT_EVERY == 0:
            trainer.save()


def export_model(model: Any, folder: Path, tokenizer: Any, settings: dict[str, Any]) -> None:
    """Write weights in float16, the tokenizer and its settings, as `transformers` loads them.

    The tokenizer's class is set here: transformers 4 does not know the one that transformers 5
    writes.
    """
    folder.mkdir(parents=True, exist_ok=True)
    model.half().save_pretrained(folder)
    (folder / "model.safetensors").chmod(0o644)
    tokenizer.save(str(folder / "tokenizer.json"))
    written = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **settings,
        "clean_up_tokenization_spaces": False,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(written, indent=2) + "\n")


def check_exported(loss: float, trained: float, most: float = 1e-3) -> None:
    """Exit if the exported model's held-out loss differs from the run's by more than `most`."""
    if abs(loss - trained) > most:
        raise SystemExit(f"the exported model has loss {loss:.5f}, but the run had {trained:.5f}")


def stopped(run: Path, steps: int) -> str:
    """Return a card's sentence on a run that was exported before its last step, or nothing."""
    step = torch.load(run / "checkpoint.pt", weights_only=True)["step"]
    if step >= steps:
        return ""
    return f" The run was stopped at step {step:,}: the command above trains longer."


def write_facts(folder: Path, saved: dict[str, Any], **facts: Any) -> dict[str, Any]:
    """Write `training.json`, the record of a run, and return it; the card is made from it."""
    record = {
        **facts,
        "options": saved["options"],
        "best_step": saved["step"],
        "averaged": saved["averaged"],
        "tokens_seen": saved["tokens"],
        "minutes": saved["seconds"] / 60,
    }
    (folder / "training.json").write_text(json.dumps(record, indent=2) + "\n")
    size = sum(file.stat().st_size for file in folder.rglob("*.*"))
    print(json.dumps({"folder_bytes": size, "trained": saved["loss"], **record}))
    return record
