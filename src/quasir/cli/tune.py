"""`quasir tune`: a proposal tuned towards the recipe's target."""

from __future__ import annotations

import json as jsonlib
from typing import Annotated

import typer

from quasir import recipes
from quasir.cli.bar import Bars
from quasir.cli.options import MOST_SAMPLES, AllowCode, Json, Out, RecipeName, Seed, finite
from quasir.runs.integrity import command
from quasir.runs.pipeline import folder_of, read_recipe
from quasir.runs.tune import guide_recipe, tune_recipe


def tune(
    recipe: RecipeName,
    out: Out = None,
    guide: Annotated[
        bool,
        typer.Option(
            "--guide", help="Fit a guide instead: boosts of the wanted words, in minutes."
        ),
    ] = False,
    lora: Annotated[
        int | None,
        typer.Option(min=1, max=100_000, help="Tune a LoRA adapter of this rank, not all weights."),
    ] = None,
    warm_start: Annotated[
        str | None, typer.Option(help="A prompt that meets a rare constraint more often.")
    ] = None,
    minutes: Annotated[
        float | None, typer.Option(min=0, help="Stop after so many minutes.", callback=finite)
    ] = None,
    steps: Annotated[int, typer.Option(min=1, max=MOST_SAMPLES, help="Steps, at most.")] = 6000,
    draws: Annotated[
        int, typer.Option(min=1, max=MOST_SAMPLES, help="Draws in each round, or for the guide.")
    ] = 8192,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Also write logs for TensorBoard.")
    ] = False,
    allow_code: AllowCode = False,
    json: Json = False,
    seed: Seed = None,
) -> None:
    """Tune a proposal towards the target, into the run.

    `quasir run RUN` then draws from it, half and half with the base. If stopped, the same command
    goes on. With --guide no network is tuned: tokens of the wanted words get factors, fitted on a
    pilot of the base, and a draw still takes one pass.

    Example: quasir tune scientists --minutes 20 --out runs/tuned
    """
    folder = folder_of(recipe, out)
    read_recipe(recipe, seed=seed)  # a wrong recipe leaves no folder behind
    if guide:
        bars = Bars(fitting="nothing of the fit is kept, and the same command fits again")
        guided = guide_recipe(
            recipe, folder, draws=draws, allow_code=allow_code, reporter=bars, seed=seed
        )
        if json:
            print(jsonlib.dumps({"run": str(folder), "share": guided.share}))
        else:
            kept = recipes.read_run(folder)
            print(f"guide in {folder}; `{command('run', folder, recipe=kept)}` draws with it")
        return
    tuned = tune_recipe(
        recipe,
        folder,
        lora=lora,
        warm_start=warm_start,
        minutes=minutes,
        steps=steps,
        draws=draws,
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
