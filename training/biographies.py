"""Train the built-in model `quasir/biographies`, and export it for `transformers`.

A GPT-2 of about 3 million parameters learns the openings of biographies. A run is fixed by its
options and seed; stopped, and started again with the same command, it goes on from its last
checkpoint and ends as if it had never stopped.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from corpus import (
    END_OF_TEXT,
    IGNORED_LABEL,
    batch_order,
    encode,
    pad,
    read_texts,
    split_held_out,
    train_tokenizer,
    without_openings,
)
from muon import Muon
from tokenizers import Tokenizer
from torch.nn import functional
from transformers import GPT2Config, GPT2LMHeadModel

from quasir.text.memory import keep_freed_memory

HELD_OUT_SHARE = 0.03
CHECKPOINT_EVERY = 50


@dataclasses.dataclass(frozen=True)
class Options:
    """What fixes a run, apart from its data."""

    steps: int = 2200
    general_steps: int = 0
    batch: int = 48
    width: int = 192
    layers: int = 4
    heads: int = 4
    vocabulary: int = 6144
    context: int = 64
    optimizer: str = "muon"
    rate: float = 3e-3
    muon_rate: float = 1.5e-2
    warmup: int = 100
    decay: int = 800
    weight_decay: float = 0.1
    dropout: float = 0.1
    averaging: float = 0.995
    seed: int = 0


def build_model(options: Options) -> GPT2LMHeadModel:
    """Build the model with fresh weights; the input and output embeddings are one matrix."""
    torch.manual_seed(options.seed)
    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=options.vocabulary,
            n_positions=options.context,
            n_embd=options.width,
            n_layer=options.layers,
            n_head=options.heads,
            # One fused kernel; GPT-2's own "gelu_new" is the same function in six.
            activation_function="gelu_pytorch_tanh",
            embd_pdrop=options.dropout,
            resid_pdrop=options.dropout,
            attn_pdrop=0.0,
            bos_token_id=0,
            eos_token_id=0,
            pad_token_id=0,
        )
    )


def build_optimizers(model: GPT2LMHeadModel, options: Options) -> list[torch.optim.Optimizer]:
    """Build AdamW for everything, or Muon for the matrices of the blocks and AdamW for the rest."""
    blocks, embeddings, vectors = [], [], []
    for name, parameter in model.named_parameters():
        inside = ".h." in name
        (vectors if parameter.ndim < 2 else blocks if inside else embeddings).append(parameter)
    use_muon = options.optimizer == "muon"
    groups = [
        {"params": embeddings + ([] if use_muon else blocks), "weight_decay": options.weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    adam = torch.optim.AdamW(groups, lr=options.rate, betas=(0.9, 0.98), fused=True)
    if not use_muon:
        return [adam]
    return [adam, Muon(blocks, lr=options.muon_rate, weight_decay=options.weight_decay)]


def token_losses(
    model: GPT2LMHeadModel, inputs: torch.Tensor, labels: torch.Tensor
) -> torch.Tensor:
    """Return the loss of every label that is not ignored, in order, in nats."""
    hidden = model.transformer(inputs, use_cache=False).last_hidden_state
    # Logits are the largest array by far; padding gets none.
    kept = labels != IGNORED_LABEL
    logits = functional.linear(hidden[kept], model.lm_head.weight)
    return functional.cross_entropy(logits.float(), labels[kept], reduction="none")


@torch.inference_mode()
def held_out_loss(
    model: GPT2LMHeadModel, sequences: list[np.ndarray], end: int, batch: int = 128
) -> dict[str, float]:
    """Measure the mean loss a token and a text, in nats, with dropout off."""
    was_training = model.training
    model.eval()
    total, tokens = 0.0, 0
    in_order = sorted(sequences, key=len)
    for start in range(0, len(in_order), batch):
        losses = token_losses(model, *pad(in_order[start : start + batch], end))
        total, tokens = total + losses.double().sum().item(), tokens + len(losses)
    model.train(was_training)
    return {"per_token": total / tokens, "per_text": total / len(sequences), "tokens": tokens}


def schedule(step: int, options: Options) -> float:
    """Return the share of the full learning rate: linear up, constant, and linear down to 0.

    Until the last `decay` steps it does not depend on how many there will be, so a run may be
    made longer or shorter while it is under way.
    """
    return min(1.0, (step + 1) / options.warmup, (options.steps - step) / options.decay)


def write_atomically(path: Path, value: Any) -> None:
    """Save with torch to a temporary file beside `path`, then rename it."""
    temporary = path.with_suffix(".partial")
    torch.save(value, temporary)
    os.replace(temporary, path)


def prepare(
    data: Path, general: Path | None, run: Path, options: Options
) -> tuple[Tokenizer, list[np.ndarray], list[np.ndarray], list[np.ndarray]]:
    """Return the tokenizer, and the training, general and held-out texts as token ids."""
    training, held_out = split_held_out(read_texts(data), HELD_OUT_SHARE)
    path = run / "tokenizer.json"
    if not path.exists():
        train_tokenizer(training, options.vocabulary).save(str(path))
    tokenizer = Tokenizer.from_file(str(path))
    openings = without_openings(read_texts(general), held_out) if general else []
    context = options.context
    return (
        tokenizer,
        encode(tokenizer, training, context),
        encode(tokenizer, openings, context),
        encode(tokenizer, held_out, context),
    )


class Trainer:
    """One run: the model, its average, the optimizers, and where the run has got to."""

    def __init__(self, options: Options, run: Path) -> None:
        self.options, self.run = options, run
        self.model = build_model(options)
        self.average = build_model(options).requires_grad_(False).eval()
        self.optimizers = build_optimizers(self.model, options)
        self.step, self.tokens, self.seconds = 0, 0, 0.0
        self.recent: list[float] = []
        torch.manual_seed(options.seed)
        self._restore()

    def _restore(self) -> None:
        path = self.run / "checkpoint.pt"
        if not path.exists():
            return
        saved = torch.load(path, weights_only=True)
        was = Options(**saved["options"])
        same = dataclasses.replace(was, steps=self.options.steps) == self.options
        shortest = min(was.steps, self.options.steps)
        if not same or (was != self.options and saved["step"] > shortest - was.decay):
            raise SystemExit(f"{path} is of a run with other options; give another --run folder")
        self.model.load_state_dict(saved["model"])
        self.average.load_state_dict(saved["average"])
        for optimizer, state in zip(self.optimizers, saved["optimizers"], strict=True):
            optimizer.load_state_dict(state)
        self.step, self.tokens, self.seconds = saved["step"], saved["tokens"], saved["seconds"]
        self.recent = saved["recent"]
        torch.set_rng_state(saved["rng"])

    def save(self) -> None:
        """Write all that the next step depends on."""
        write_atomically(
            self.run / "checkpoint.pt",
            {
                "options": dataclasses.asdict(self.options),
                "model": self.model.state_dict(),
                "average": self.average.state_dict(),
                "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
                "step": self.step,
                "tokens": self.tokens,
                "seconds": self.seconds,
                "recent": self.recent,
                "rng": torch.get_rng_state(),
            },
        )

    def learn(self, inputs: torch.Tensor, labels: torch.Tensor) -> None:
        """Take one step on a batch."""
        began = time.perf_counter()
        share = schedule(self.step, self.options)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                full = self.options.muon_rate if isinstance(optimizer, Muon) else self.options.rate
                group["lr"] = full * share
        losses = token_losses(self.model.train(), inputs, labels)
        loss = losses.mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        # The average of a young run must not remember its random start.
        keep = min(self.options.averaging, self.step / (self.step + 10))
        with torch.no_grad():
            for mean, value in zip(self.average.parameters(), self.model.parameters(), strict=True):
                mean.lerp_(value, 1 - keep)
        self.step, self.tokens = self.step + 1, self.tokens + len(losses)
        self.seconds += time.perf_counter() - began
        self.recent.append(loss.item())


def train(data: Path, general: Path | None, run: Path, options: Options, every: int) -> None:
    """Train until the last step, logging, and keeping the best weights and the last state."""
    run.mkdir(parents=True, exist_ok=True)
    tokenizer, training, openings, held_out = prepare(data, general, run, options)
    end = tokenizer.token_to_id(END_OF_TEXT)
    trainer = Trainer(options, run)
    best_path = run / "best.pt"
    best = torch.load(best_path, weights_only=True)["loss"] if best_path.exists() else math.inf
    general_steps = options.general_steps if openings else 0
    while trainer.step < options.steps:
        in_general = trainer.step < general_steps
        texts = openings if in_general else training
        first = trainer.step if in_general else trainer.step - general_steps
        sizes = np.array([len(text) for text in texts])
        last = general_steps if in_general else options.steps
        for members in batch_order(sizes, options.batch, options.seed, first):
            trainer.learn(*pad([texts[i] for i in members], end))
            if trainer.step % every == 0 or trainer.step == options.steps:
                raw = held_out_loss(trainer.model, held_out, end)
                mean = held_out_loss(trainer.average, held_out, end)
                # The average is ahead while the rate is high, the last weights once it is low.
                measured = [(raw, trainer.model), (mean, trainer.average)]
                lower, winner = min(measured, key=lambda pair: pair[0]["per_token"])
                if lower["per_token"] < best:
                    best = lower["per_token"]
                    state = {
                        "loss": best,
                        "per_text": lower["per_text"],
                        "averaged": winner is trainer.average,
                        "step": trainer.step,
                        "tokens": trainer.tokens,
                        "seconds": trainer.seconds,
                        "options": dataclasses.asdict(options),
                        "model": winner.state_dict(),
                    }
                    write_atomically(best_path, state)
                line = {
                    "step": trainer.step,
                    "train_loss": round(float(np.mean(trainer.recent)), 4),
                    "held_out_loss": round(raw["per_token"], 4),
                    "held_out_loss_averaged": round(mean["per_token"], 4),
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
            if trainer.step == last:
                break


def export(data: Path, run: Path, folder: Path) -> None:
    """Write the best weights of a run, in float16, as a folder that `transformers` loads.

    Raises
    ------
    SystemExit
        If the folder, loaded in float32, has a held-out loss more than 0.001 from the run's.
    """
    saved = torch.load(run / "best.pt", weights_only=True)
    options = Options(**saved["options"])
    model = build_model(options)
    model.load_state_dict(saved["model"])
    folder.mkdir(parents=True, exist_ok=True)
    model.half().save_pretrained(folder)
    (folder / "model.safetensors").chmod(0o644)
    Tokenizer.from_file(str(run / "tokenizer.json")).save(str(folder / "tokenizer.json"))
    # Written by hand: the class name that transformers 5 writes is unknown to transformers 4.
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": END_OF_TEXT,
        "eos_token": END_OF_TEXT,
        "pad_token": END_OF_TEXT,
        "model_max_length": options.context,
        "clean_up_tokenization_spaces": False,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n")
    loaded = GPT2LMHeadModel.from_pretrained(folder, dtype=torch.float32)
    tokenizer, _, _, held_out = prepare(data, None, run, options)
    loss = held_out_loss(loaded, held_out, tokenizer.token_to_id(END_OF_TEXT))
    if abs(loss["per_token"] - saved["loss"]) > 1e-3:
        raise SystemExit(f"exported loss {loss['per_token']:.5f}, trained {saved['loss']:.5f}")
    size = sum(file.stat().st_size for file in folder.iterdir())
    facts = {
        "data": data.name,
        "options": saved["options"],
        "held_out_texts": len(held_out),
        "held_out_tokens": loss["tokens"],
        "held_out_loss_per_token": loss["per_token"],
        "held_out_loss_per_text": loss["per_text"],
        "best_step": saved["step"],
        "averaged": saved["averaged"],
        "tokens_seen": saved["tokens"],
        "minutes": saved["seconds"] / 60,
        "parameters": loaded.num_parameters(),
    }
    (folder / "training.json").write_text(json.dumps(facts, indent=2) + "\n")
    print(json.dumps({"folder_bytes": size, "trained": saved["loss"], **facts}))


def parse_arguments() -> argparse.Namespace:
    """Read the command line; every field of Options is one option of it."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example:\n  python training/biographies.py --data biographies.txt.gz "
        "--run runs/biographies \\\n      --export src/quasir/text/models/biographies",
    )
    parser.add_argument("--data", type=Path, required=True, help="biographies, one a line, gzipped")
    parser.add_argument(
        "--general", type=Path, help="texts of --general-steps, one a line, gzipped"
    )
    parser.add_argument("--run", type=Path, required=True, help="folder of checkpoints and the log")
    parser.add_argument("--export", type=Path, help="folder to write the trained model to")
    parser.add_argument("--every", type=int, default=250, help="steps between two measurements")
    parser.add_argument("--threads", type=int, default=2, help="threads of torch (default 2)")
    for field in dataclasses.fields(Options):
        parser.add_argument(
            f"--{field.name.replace('_', '-')}",
            type=type(field.default),
            default=field.default,
            help=f"default {field.default}",
        )
    return parser.parse_args()


def main() -> None:
    """Train, or go on training; then export when asked."""
    arguments = parse_arguments()
    if arguments.general_steps and not arguments.general:
        raise SystemExit("--general-steps needs the texts: give --general as well")
    torch.set_num_threads(arguments.threads)
    keep_freed_memory()
    names = [field.name for field in dataclasses.fields(Options)]
    options = Options(**{name: getattr(arguments, name) for name in names})
    train(arguments.data, arguments.general, arguments.run, options, arguments.every)
    if arguments.export:
        export(arguments.data, arguments.run, arguments.export)


if __name__ == "__main__":
    main()
