"""`quasir compare`: the paper's tables of samplers for a recipe."""

from __future__ import annotations

import json as jsonlib
import shutil
from pathlib import Path
from typing import Annotated, Any

import typer

from quasir import recipes
from quasir.cli.bar import Bar, Bars, say
from quasir.cli.options import AllowCode, Draws, Json, Out, RecipeName, Seed, check_seed
from quasir.compare import SAMPLERS, variance
from quasir.compare import compare as compared
from quasir.compare.methods import WALKS
from quasir.compare.table import WIDTH, samplers_markdown
from quasir.compare.writing import as_json, write_comparison
from quasir.core.arguments import as_rate
from quasir.draws import draws as stored
from quasir.errors import InputError
from quasir.recipes.paths import located
from quasir.recipes.schema import Recipe
from quasir.runs.begun import BegunRun, refuse_changes
from quasir.runs.pipeline import begin, draw_all, folder_of
from quasir.store import MANIFEST, Store, locked

__all__ = ["compare"]

SPARE = 2
"""Tokens of an editor for one of the base, at most, where their tokens differ."""


def compare(
    recipe: RecipeName,
    samplers: Annotated[
        str, typer.Option(help=f"Of {', '.join(SAMPLERS)}; with commas.")
    ] = "qrs,imh,imh-reset",
    rates: Annotated[str, typer.Option(help="Samples per proposal; with commas.")] = "1e-1,1e-3",
    n: Annotated[int, typer.Option("-n", min=1, help="Samples of a run.")] = 1000,
    runs: Annotated[int, typer.Option(min=1, help="Runs of each sampler at each rate.")] = 10,
    burn_in: Annotated[int, typer.Option(min=0, help="Of chains that are not reset.")] = 1000,
    editor: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Masked language model that rwmh edits texts by: built in, a folder, or a hub id.",
        ),
    ] = None,
    walk_steps: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Most edits for rwmh, and for rwmh-reset, at a rate; fewer samples of them then.",
        ),
    ] = None,
    draws: Draws = None,
    out: Out = None,
    allow_code: AllowCode = False,
    json: Json = False,
    seed: Seed = None,
) -> None:
    """Compare samplers at equal cost, on stored draws.

    The paper's tables and figure: moments, perplexity, Self-BLEU, unique samples,
    TVD and KL, over runs on disjoint stretches of the draws; and how far the
    estimates themselves spread. Where the draws are too few, there are fewer runs,
    or fewer samples, and the table says so. No model is loaded but for rwmh, where
    the draws are there. Writes compare/*.csv, *.md and *.png into the run.

    Example: quasir compare scientists --rates 1e-1,1e-2 -n 1000 --runs 10
    """
    names = [name.strip() for name in samplers.split(",") if name.strip()]
    levels = [_rate(rate) for rate in rates.split(",") if rate.strip()]
    folder = _folder(recipe, out)
    read = recipe_of(recipe, folder, draws, seed)
    masked = _editor(names, editor, read)
    with locked(folder):
        store, run = _pool(recipe, folder, read, draws, seed, allow_code, masked is not None)
        pool = stored.Draws.load(store)
        walk = None if masked is None or run is None else _walks(run, masked)
        with Bar("comparing") as bar:
            found = compared(
                pool,
                names,
                levels,
                n,
                runs,
                burn_in=burn_in,
                recipe=read if run is None else run.recipe,
                walk=walk,
                walk_steps=walk_steps,
                progress=bar,
            )
        spread = variance(pool)
        written = write_comparison(folder / "compare", folder.name, found, spread)
    if json:
        files = {name: str(path) for name, path in written.items()}
        print(jsonlib.dumps({"run": str(folder), "files": files, **as_json(found, spread)}))
    else:
        # A terminal's own width, where it is of the usual ones.
        width = min(WIDTH, max(80, shutil.get_terminal_size((WIDTH, 24)).columns))
        print(samplers_markdown(found, f"Samplers at equal cost: {folder.name}", width), end="")
    say(f"written: {len(written)} files in {folder / 'compare'}")


def _folder(recipe: str, out: Path | None) -> Path:
    """Return the folder of a run; draws that were saved from Python have no recipe, but are one."""
    saved = Path(recipe)
    return saved if out is None and (saved / MANIFEST).is_file() else folder_of(recipe, out)


def recipe_of(recipe: str, folder: Path, draws: int | None, seed: int | None) -> Recipe | None:
    """Return the recipe, or None for draws that were saved from Python; refuse another run's."""
    saved = (folder / MANIFEST).is_file() and not (folder / "recipe.yaml").is_file()
    if saved and Path(recipe).is_dir():
        check_seed(Store.open(folder), seed)
        return None
    source = recipes.find(recipe)
    read = located(recipes.read(source, draws=draws, seed=seed), source.parent)
    if (folder / MANIFEST).is_file():
        before = located(recipes.read(folder / "recipe.yaml"), folder)
        refuse_changes(before, read, folder)
        read = read.model_copy(update={"coefficients": before.coefficients})
    return read


def _rate(text: str) -> float:
    try:
        return as_rate(float(text))
    except ValueError as error:
        raise InputError(
            f"a rate is {text.strip()!r}, but must be a number above 0 and at most 1, as in "
            "--rates 1e-1,1e-3."
        ) from error


def _editor(names: list[str], editor: str | None, recipe: Recipe | None) -> Any:
    """Load the editor that random walks need, or say what is missing, before anything is drawn."""
    wrong = [name for name in names if name not in SAMPLERS]
    if wrong or not names:
        given = f"no sampler is called {wrong[0]!r}" if wrong else "no sampler is named"
        raise InputError(f"{given}: there are {', '.join(SAMPLERS)}.")
    walks = [name for name in names if name in WALKS]
    if not walks:
        return None
    if recipe is None or recipe.base.model is None:
        raise InputError(
            f"{' and '.join(walks)} edit the texts of a language model, but the base of this run "
            "is none: leave them out of --samplers."
        )
    from quasir.text import MaskedLM
    from quasir.text.loading import BUILT_IN

    name = editor or f"{recipe.base.model}-masked"
    if editor is None and name not in BUILT_IN:
        raise InputError(
            f"{' and '.join(walks)} edit texts by a masked language model, and none is named: "
            "give --editor NAME, a folder or a hub id such as bert-base-cased, or leave them out "
            "of --samplers."
        )
    return MaskedLM(name)


def _pool(
    recipe: str,
    folder: Path,
    read: Recipe | None,
    draws: int | None,
    seed: int | None,
    allow_code: bool,
    models: bool,
) -> tuple[Store, BegunRun | None]:
    """Return the store, its draws drawn, and the run with its models where those were needed."""
    there = (folder / MANIFEST).is_file()
    if there and not models:
        store = Store.open(folder)
        if read is None or not store.missing(read.draws):
            return store, None
    run = begin(recipe, folder, draws, seed, allow_code, reporter=Bars())
    draw_all(run, reporter=Bars())
    return run.store, run


def _walks(run: BegunRun, masked: Any) -> Any:
    from quasir.compare.walks import Walks, editor_for

    editor, shared = editor_for(masked, run.target.base)
    limit = run.recipe.max_tokens
    if not shared:
        say(
            f"! {masked.name} has other tokens than the base: its chains are over its own tokens, "
            "and the target scores their text"
        )
        # The base has a limit of its own; this one is not to cut what the base can give.
        limit = min(SPARE * limit, masked.max_tokens or SPARE * limit)
    return Walks(run.target, run.proposal, editor, limit)
