"""`quasir tune`: a proposal tuned towards the recipe's target."""

from __future__ import annotations

import json as jsonlib
from typing import Annotated

import typer

from quasir import recipes
from quasir.cli.bar import Bars
from quasir.cli.numbers import MOST_SAMPLES, finite
from quasir.cli.options import AllowCode, Json, Out, RecipeName, Seed
from quasir.runs.advice import command
from quasir.runs.pipeline import folder_of, read_recipe
from quasir.runs.tune_recipe import tune_recipe

__all__ = ["tune"]


def tune(
    recipe: RecipeName,
    out: Out = None,
    lora: Annotated[
        int | None,
        typer.Option(min=1, max=100_000, help="Tune a LoRA adapter of this rank, not all weights."),
    ] = None,
    warm_start: Annotated[
        str | None, typer.Option(help="A prompt that meets a rare wish more often.")
    ] = None,
    minutes: Annotated[
        float | None, typer.Option(min=0, help="Stop after so many minutes.", callback=finite)
    ] = None,
    steps: Annotated[int, typer.Option(min=1, max=MOST_SAMPLES, help="Steps, at most.")] = 6000,
    draws: Annotated[
        int, typer.Option(min=1, max=MOST_SAMPLES, help="Draws in each round.")
    ] = 8192,
    loss: Annotated[str, typer.Option(help="kl, reverse_kl, tv or js.")] = "kl",
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Also write logs for TensorBoard.")
    ] = False,
    allow_code: AllowCode = False,
    json: Json = False,
    seed: Seed = None,
) -> None:
    """Tune a proposal towards the target, into the run.

    `quasir run RUN` then draws from it, half and half with the base. If stopped, the same command
    goes on.

    Example: quasir tune scientists --minutes 20 --out runs/tuned
    """
    folder = folder_of(recipe, out)
    read_recipe(recipe, seed=seed)  # a wrong recipe leaves no folder behind
    tuned = tune_recipe(
        recipe,
        folder,
        lora=lora,
        warm_start=warm_start,
        minutes=minutes,
        steps=steps,
        draws=draws,
        loss=loss,
        tensorboard=tensorboard,
        allow_code=allow_code,
        seed=seed,
        reporter=Bars(fitting="nothing of the fit is kept, and the same command fits again"),
    )
    if json:
        lines = (tuned / "log.jsonl").read_text().splitlines()
        evaluations = [jsonlib.loads(line) for line in lines]
        print(jsonlib.dumps({"run": str(folder), "evaluations": evaluations}))
    else:
        made = recipes.read_run(folder)
        print(f"tuned proposal in {tuned}; `{command('run', folder, recipe=made)}` draws from it")
