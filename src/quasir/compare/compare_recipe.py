"""From a recipe to a comparison: draw what is missing, compare, and write the tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from quasir import recipes
from quasir.compare.comparison import SAMPLERS, Comparison, check_names, compare
from quasir.compare.measures import Measured, measure
from quasir.compare.methods import WALKS, Cost
from quasir.compare.sampler_table import write_comparison
from quasir.core.files import is_file
from quasir.core.items import TokenTexts, take
from quasir.core.progress import Quiet, Report, Reporter
from quasir.core.types import Items, Proposal, optional_attribute
from quasir.draws.draws import Draws
from quasir.errors import InputError
from quasir.metrics import perplexity
from quasir.proposals.mixture import Mixture
from quasir.recipes.building import located
from quasir.recipes.schema import Recipe
from quasir.runs.active_run import ActiveRun
from quasir.runs.integrity import check_seed, read_checked, refuse_changes
from quasir.runs.pipeline import begin, draw_all, folder_of, prepare
from quasir.samplers.rwmh import RWMH, Editor
from quasir.store import MANIFEST, Store, locked
from quasir.targets.product import Product

if TYPE_CHECKING:
    from quasir.text import MaskedLM

SPARE = 2  # editor's tokens for one token of the base, at most, where their tokens differ


@dataclass(frozen=True, kw_only=True)
class RecipeComparison:
    """A comparison on the run in a folder, and the files written, by name."""

    folder: Path
    found: Comparison
    written: dict[str, Path]


def compare_recipe(
    recipe: str,
    samplers: Sequence[str],
    rates: Sequence[float],
    *,
    editor: str | None = None,
    draws: int | None = None,
    out: Path | None = None,
    allow_code: bool = False,
    seed: int | None = None,
    reporter: Reporter | None = None,
    **options: Any,
) -> RecipeComparison:
    """Compare samplers on the draws of a recipe's run, and write the tables into it.

    `recipe` is a built-in recipe's name, a YAML file, a run's folder, or a folder of saved draws.
    No model is loaded where the draws are there, except for random walks. The options are those of
    `compare`.
    """
    reporter = reporter or Quiet()
    saved = Path(recipe)  # it may hold draws saved from Python, without a recipe
    folder = saved if out is None and _is_run(saved) else folder_of(recipe, out)
    read = _recipe(recipe, folder, draws, seed)
    masked = _editor(samplers, editor, read)
    with locked(folder):
        store, begun = Store.open(folder) if _is_run(folder) else None, None
        complete = store is not None and (read is None or not store.missing(read.draws))
        if store is None or not complete or masked is not None:
            order = prepare(recipe, folder, draws=draws, seed=seed)
            begun = begin(order, allow_code=allow_code, reporter=reporter)
            draw_all(begun, reporter=reporter)
            store, read = begun.store, begun.recipe
        pool = Draws.load(store)
        walk = None if masked is None or begun is None else _walks(begun, masked, reporter)
        with reporter.stage("comparing") as report:
            found = compare(
                pool, samplers, rates, recipe=read, walk=walk, progress=report, **options
            )
        written = write_comparison(folder / "compare", folder.name, found)
    return RecipeComparison(folder=folder, found=found, written=written)


def _is_run(folder: Path) -> bool:
    return is_file(folder / MANIFEST)


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
    check_names(names)
    if not names:
        raise InputError(f"no sampler is named: there are {', '.join(SAMPLERS)}.")
    walks = " and ".join(name for name in names if name in WALKS)
    if not walks:
        return None
    if recipe is None or recipe.base.model is None:
        raise InputError(
            f"{walks} edit the texts of a language model, but the base of this run is none: leave "
            "them out of --samplers."
        )
    from quasir.text import MaskedLM
    from quasir.text.loading import BUILT_IN

    name = editor or f"{recipe.base.model}-masked"
    if editor is None and name not in BUILT_IN:
        raise InputError(
            f"{walks} edit texts with a masked language model, and none is named: give --editor "
            "NAME, a folder or a hub id such as bert-base-cased, or leave them out of --samplers."
        )
    return MaskedLM(name)


def _walks(run: ActiveRun, masked: MaskedLM, reporter: Reporter) -> Walks:
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


@dataclass(frozen=True)
class Walks:
    """Runs `RWMH` from stored draws, and measures its samples; `max_tokens` are the editor's.

    Run k is chain k or, where each sample has its own chain, the chains k, k + runs, ... They start
    at the first draws with P(x) > 0 of the run's own stretch of the pool. Where tokenizers differ,
    a draw that the editor's tokens cannot express is skipped.
    """

    target: Product
    proposal: Proposal
    editor: Editor
    max_tokens: int

    def __call__(
        self, *, name: str, cost: Cost, n: int, seed: int, stretches: list[Draws], report: Report
    ) -> tuple[int, list[Measured]]:
        """Return how many samples each run gave, and what was measured on them."""
        runs, reset = len(stretches), name == "rwmh-reset"
        schedule: dict[str, Any] = (
            {"reset": cost.chain} if reset else {"burn_in": cost.burn_in, "thin": cost.steps}
        )
        models = self.target, self.proposal, self.editor
        sampler = RWMH(*models, max_tokens=self.max_tokens, chains=runs, **schedule)
        stretches = [replace(one, items=_texts(one.items, self.proposal)) for one in stretches]
        indices = [_starts(sampler, stretch, n if reset else 1) for stretch in stretches]
        each = min(map(len, indices))
        if not each:
            raise InputError(
                f"{name} has no start: in some run, no text keeps P(x) > 0 when written as at most "
                f"{self.max_tokens} tokens of the editor. Name another --editor, or draw more."
            )
        n = each if reset else n
        starts = Draws.concatenate(
            [stretch.take(at[:each]) for stretch, at in zip(stretches, indices, strict=True)]
        )
        in_turn = np.arange(runs * each).reshape(runs, each).T.ravel()
        chain = sampler.sample_from(starts.take(in_turn), n * runs, seed, report)
        measured = []
        for run in range(runs):
            own = chain.take(np.arange(run, n * runs, runs))
            ppl = perplexity(own.items, self.target.base)
            proposals = int(indices[run][each - 1]) + 1 + chain.steps / runs
            measured.append(
                measure(own.items, own.features, proposals, ppl, warnings=chain.warnings)
            )
        return n, measured


def _starts(sampler: RWMH, stretch: Draws, wanted: int) -> NDArray[np.intp]:
    """Return the indices of the first draws that a chain can start at."""
    possible = np.flatnonzero(stretch.log_p > -np.inf)
    found: list[int] = []
    while len(possible) and len(found) < wanted:
        indices, possible = np.split(possible, [min(wanted - len(found), len(possible))])
        _, log_p = sampler.starts(take(stretch.items, indices))
        found += indices[log_p > -np.inf].tolist()
    return np.array(found, np.intp)


def _texts(items: Items, proposal: Any) -> Items:
    """Return stored texts with the tokenizer of their ids, or as plain strings."""
    if not isinstance(items, TokenTexts):
        return items
    from quasir.text import Texts

    while isinstance(proposal, Mixture):
        proposal = proposal.components[0]
    tokenizer = optional_attribute(proposal, "tokenizer")
    if tokenizer is None:
        return items.strings
    return Texts(items.ids, items.offsets, tokenizer)


def editor_for(masked: MaskedLM, base: object) -> tuple[MaskedLM, bool]:
    """Return a masked model as the editor of a base's texts, and whether they share tokens."""
    from quasir.text import MaskedLM

    try:
        shared = MaskedLM(model=masked.model, tokenizer=masked.tokenizer, base=base)
    except InputError:
        return masked, False
    shared.name = masked.name
    return shared, True
