"""`quasir tune`: a proposal tuned towards the recipe's target."""

from __future__ import annotations

import json as jsonlib
from typing import Annotated

from typer import Option

from quasir import recipes
from quasir.cli.bar import Bars
from quasir.cli.options import MOST_SAMPLES, AllowCode, Budget, Json, Out, RecipeName, Seed, finite
from quasir.runs.active_run import folder_of, read_recipe
from quasir.runs.integrity import command
from quasir.runs.tune import search_recipe, tune_recipe


def tune(
    recipe: RecipeName,
    out: Out = None,
    guide: Annotated[
        bool, Option("--guide", help="Search boosts and a head on the base instead, in minutes.")
    ] = False,
    lora: Annotated[
        int | None,
        Option(min=1, max=100_000, help="Tune a LoRA adapter of this rank, not all weights."),
    ] = None,
    warm_start: Annotated[
        str | None, Option(help="A prompt that meets a rare constraint more often.")
    ] = None,
    minutes: Annotated[
        float | None, Option(min=0, help="Stop after so many minutes.", callback=finite)
    ] = None,
    steps: Annotated[int, Option(min=1, max=MOST_SAMPLES, help="Steps, at most.")] = 6000,
    draws: Annotated[int, Option(min=1, max=MOST_SAMPLES, help="Draws in each round.")] = 8192,
    budget: Budget = None,
    allow_code: AllowCode = False,
    json: Json = False,
    seed: Seed = None,
) -> None:
    """Tune a proposal towards the target, into the run.

    `quasir run RUN` then draws from it, half and half with the base. If stopped, the same command
    goes on. With --guide no network is tuned: boosts of words and a small head on the base's states
    are fitted by rounds of draws, and a draw still takes one pass (docs/proposals.md).

    Example: quasir tune scientists --minutes 20 --out runs/tuned
    """
    folder = folder_of(recipe, out)
    read_recipe(recipe, seed=seed)  # a wrong recipe leaves no folder behind
    if guide:
        found = search_recipe(
            recipe, folder, budget=budget, allow_code=allow_code, reporter=Bars(), seed=seed
        )
        if json:
            print(jsonlib.dumps({"run": str(folder)}))
        else:
            print(f"proposal in {folder}; `{command('run', folder, recipe=found)}` draws from it")
        return
    tuned = tune_recipe(
        recipe,
        folder,
        lora=lora,
        warm_start=warm_start,
        minutes=minutes,
        steps=steps,
        draws=draws,
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
