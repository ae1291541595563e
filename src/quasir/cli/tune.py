"""`quasir tune`: a proposal tuned towards the recipe's target."""

from __future__ import annotations

import json as jsonlib
from pathlib import Path
from typing import Annotated

import typer

from quasir import recipes
from quasir.cli.bar import Bar, say
from quasir.cli.options import AllowCode, Json, Out, RecipeName, Seed
from quasir.core.files import write_text
from quasir.errors import InputError, StoreError
from quasir.proposals import Mixture
from quasir.recipes import Recipe
from quasir.recipes.building import build, resolve
from quasir.recipes.paths import located, portable
from quasir.recipes.schema import Source
from quasir.runs.begun import keep_code, refuse_changes
from quasir.runs.pipeline import folder_of
from quasir.store import MANIFEST, locked

__all__ = ["tune"]

TUNED = "proposal"
"""The folder of the tuned proposal, in the run's."""


def tune(
    recipe: RecipeName,
    out: Out = None,
    lora: Annotated[
        int | None, typer.Option(min=1, help="Tune a LoRA adapter of this rank, not all weights.")
    ] = None,
    warm_start: Annotated[
        str | None, typer.Option(help="A prompt that meets a rare wish more often.")
    ] = None,
    minutes: Annotated[float | None, typer.Option(min=0, help="Stop after so long.")] = None,
    steps: Annotated[int, typer.Option(min=1, help="Steps at most.")] = 6000,
    draws: Annotated[int, typer.Option(min=1, help="Draws a round.")] = 8192,
    loss: Annotated[str, typer.Option(help="kl, reverse_kl, tv or js.")] = "kl",
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Write for TensorBoard as well.")
    ] = False,
    allow_code: AllowCode = False,
    json: Json = False,
    seed: Seed = None,
) -> None:
    """Tune a proposal towards the target, into the run.

    `quasir run RUN` then draws from it, half and half with the base. Stopped, the same command
    goes on.

    Example: quasir tune scientists --minutes 20 --out runs/tuned
    """
    from quasir import tuning
    from quasir.text import CausalLM

    folder = folder_of(recipe, out)
    with locked(folder):
        source = recipes.find(recipe)
        asked = located(recipes.read(source, seed=seed), source.parent)
        check(asked, folder, lora)
        known = with_known_lambda(asked, folder)
        if is_tuned(folder):
            say(f"{folder} is tuned already: give another folder with --out to tune again")
        else:
            built = build(known, source.parent, allow_code)
            if not isinstance(built.base, CausalLM):
                raise InputError("only a causal language model can be tuned, and the base is none.")
            if known.unfitted:
                say(f"fitting lambda on {known.fit:,} draws of the base")
            with Bar("fitting") as bar:
                resolved, target = resolve(known, built, bar)
            folder.mkdir(parents=True, exist_ok=True)
            keep_code(resolved, source.parent, folder)
            write_text(folder / "recipe.yaml", recipes.dump(portable(resolved, folder)))
            tuned = tuning.DPG(
                target,
                built.base,
                loss=loss,
                steps=steps,
                lora=lora,
                seed=resolved.seed,
                out=folder / TUNED,
                draws=draws,
                warm_start=warm_start,
                minutes=minutes,
                tensorboard=tensorboard,
            ).run()
            if asked.unfitted:
                say(f"fitting lambda again on {asked.fit:,} draws of the tuned proposal")
            final = asked.model_copy(update={"proposal": mixed_source(asked.base, lora)})
            with Bar("fitting") as bar:
                final, _ = resolve(final, built, bar, Mixture([tuned, built.base], [0.5, 0.5]))
            write_text(folder / "recipe.yaml", recipes.dump(portable(final, folder)))
    if json:
        lines = (folder / TUNED / "log.jsonl").read_text().splitlines()
        told = {"run": str(folder), "evaluations": [jsonlib.loads(line) for line in lines]}
        print(jsonlib.dumps(told))
    else:
        print(f"tuned proposal in {folder / TUNED}; quasir run {folder} draws from it")


def check(recipe: Recipe, folder: Path, lora: int | None) -> None:
    """Refuse, before any model loads, what cannot be tuned."""
    if recipe.base.model is None or recipe.base.source is not None:
        raise InputError("only a causal language model can be tuned, and the base is none.")
    if (folder / MANIFEST).exists():
        raise StoreError(
            f"{folder} holds draws already, of another proposal: tune into another folder with "
            "--out."
        )
    if lora is not None and recipe.base.adapter is not None:
        raise InputError(
            "the base has an adapter already, and one more cannot be put on top: leave --lora out "
            "to tune all weights."
        )


def mixed_source(base: Source, lora: int | None) -> Source:
    """Return the tuned proposal and the base, half and half, as a recipe names them.

    A tuned model alone forgets some texts that the target allows, and their ratios have no bound;
    those of the mixture are at most twice the base's (Hesterberg 1995's defensive mixture).
    """
    kept = {"dtype", "prompt", "temperature"} | (set() if lora is None else {"model", "revision"})
    placed = {"model": TUNED} if lora is None else {"adapter": TUNED}
    tuned = Source.model_validate(base.model_dump(include=kept) | placed | {"weight": 0.5})
    return Source(mixture=[tuned, base.model_copy(update={"weight": 0.5})])


def with_known_lambda(asked: Recipe, folder: Path) -> Recipe:
    """Return the recipe with the lambda of a run that was begun, so that its target is the same."""
    path = folder / "recipe.yaml"
    if not path.is_file():
        return asked
    before = located(recipes.read(path), folder)
    refuse_changes(before.model_copy(update={"proposal": asked.proposal}), asked, folder)
    return asked.model_copy(update={"coefficients": before.coefficients})


def is_tuned(folder: Path) -> bool:
    """Tell whether the run's recipe draws from its own tuned proposal."""
    path = folder / "recipe.yaml"
    if not path.is_file():
        return False
    parts = recipes.read(path).proposal.mixture or []
    return any(TUNED in (part.model, part.adapter) for part in parts)
