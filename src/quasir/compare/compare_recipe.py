"""From a recipe to a comparison: draw what is missing, compare, and write the tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from quasir import recipes
from quasir.compare.comparison import SAMPLERS, Comparison, compare
from quasir.compare.methods import WALKS
from quasir.compare.spread import Variance, variance
from quasir.compare.walks import Walks, editor_for
from quasir.compare.writing import write_comparison
from quasir.core.files import is_file
from quasir.core.progress import Quiet, Reporter
from quasir.draws.draws import Draws
from quasir.errors import InputError
from quasir.recipes.paths import located
from quasir.recipes.schema import Recipe
from quasir.runs.begun import BegunRun, check_seed, refuse_changes
from quasir.runs.integrity import read_checked
from quasir.runs.pipeline import begin, draw_all, folder_of
from quasir.store import MANIFEST, Store, locked

if TYPE_CHECKING:
    from quasir.text import MaskedLM

__all__ = ["compare_recipe"]

SPARE = 2
"""Editor's tokens for one token of the base, at most, where their tokens differ."""


@dataclass(frozen=True, kw_only=True)
class RecipeComparison:
    """A comparison on a run.

    Attributes
    ----------
    folder : Path
        The folder of the run.
    found : Comparison
    spread : Variance
    written : dict of Path
        The files of the comparison, by name.
    """

    folder: Path
    found: Comparison
    spread: Variance
    written: dict[str, Path]


def compare_recipe(
    recipe: str,
    samplers: Sequence[str],
    rates: Sequence[float],
    *,
    n: int = 1000,
    runs: int = 10,
    burn_in: int = 1000,
    editor: str | None = None,
    walk_steps: int | None = None,
    draws: int | None = None,
    out: Path | None = None,
    allow_code: bool = False,
    seed: int | None = None,
    reporter: Reporter | None = None,
) -> RecipeComparison:
    """Compare samplers on the draws of a recipe's run, and write the tables into it.

    No model is loaded where the draws are there, except for random walks.

    Parameters
    ----------
    recipe : str
        A built-in recipe's name, a YAML file, a run's folder, or a folder of saved draws.
    samplers, rates, n, runs, burn_in, walk_steps
        As in `compare`.
    editor : str, optional
        The masked language model of the random walks; by default the one built in for the base.
    draws, seed : int, optional
        Instead of the recipe's.
    out : Path, optional
        Folder of the run.
    allow_code : bool
        Whether the recipe's own Python features may be run.
    reporter : Reporter, optional
    """
    reporter = reporter or Quiet()
    folder = _folder(recipe, out)
    read = _recipe(recipe, folder, draws, seed)
    masked = _editor(samplers, editor, read)
    with locked(folder):
        store, begun = Store.open(folder) if _is_run(folder) else None, None
        complete = store is not None and (read is None or not store.missing(read.draws))
        if store is None or not complete or masked is not None:
            begun = begin(
                recipe, folder, draws=draws, seed=seed, allow_code=allow_code, reporter=reporter
            )
            draw_all(begun, reporter=reporter)
            store, read = begun.store, begun.recipe
        pool = Draws.load(store)
        walk = None if masked is None or begun is None else _walks(begun, masked, reporter)
        with reporter.stage("comparing") as report:
            found = compare(
                pool,
                samplers,
                rates,
                n=n,
                runs=runs,
                burn_in=burn_in,
                recipe=read,
                walk=walk,
                walk_steps=walk_steps,
                progress=report,
            )
        spread = variance(pool)
        written = write_comparison(folder / "compare", folder.name, found, spread)
    return RecipeComparison(folder=folder, found=found, spread=spread, written=written)


def _is_run(folder: Path) -> bool:
    return is_file(folder / MANIFEST)


def _folder(recipe: str, out: Path | None) -> Path:
    """Return the folder of a run, which may hold draws saved from Python, without a recipe."""
    saved = Path(recipe)
    return saved if out is None and _is_run(saved) else folder_of(recipe, out)


def _recipe(recipe: str, folder: Path, draws: int | None, seed: int | None) -> Recipe | None:
    """Return the recipe, or None for draws saved from Python; refuse a run of another recipe."""
    if _is_run(folder) and not (folder / "recipe.yaml").is_file() and Path(recipe).is_dir():
        check_seed(Store.open(folder), seed)
        return None
    source = recipes.find(recipe)
    read = located(recipes.read(source, draws=draws, seed=seed), source.parent)
    if _is_run(folder):
        before = located(read_checked(folder, Store.open(folder)), folder)
        refuse_changes(before, read, folder)
        read = read.model_copy(update={"fitted": before.fitted})
    return read


def _editor(names: Sequence[str], editor: str | None, recipe: Recipe | None) -> MaskedLM | None:
    """Load the editor of the random walks, or say what is missing, before anything is drawn."""
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
            f"{' and '.join(walks)} edit texts with a masked language model, and none is named: "
            "give --editor NAME, a folder or a hub id such as bert-base-cased, or leave them out "
            "of --samplers."
        )
    return MaskedLM(name)


def _walks(run: BegunRun, masked: MaskedLM, reporter: Reporter) -> Walks:
    editor, shared = editor_for(masked, run.target.base)
    limit = run.recipe.max_tokens
    if not shared:
        reporter.say(
            f"! {masked.name} has other tokens than the base: its chains are over its own tokens, "
            "and the target scores their text"
        )
        # The base has its own limit; the editor's must not cut a text that the base can give.
        limit = min(SPARE * limit, masked.max_tokens or SPARE * limit)
    return Walks(run.target, run.proposal, editor, limit)
