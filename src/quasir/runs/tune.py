"""A proposal for a recipe's target, tuned or guided, into the run that then draws from it."""

from __future__ import annotations

from pathlib import Path

from quasir import recipes
from quasir.core.progress import Quiet, Reporter
from quasir.core.types import Proposal
from quasir.errors import InputError, StoreError
from quasir.proposals import Mixture
from quasir.recipes import Recipe
from quasir.recipes.building import build, located, resolve
from quasir.recipes.schema import Source
from quasir.runs.active_run import keep_code, keep_recipe
from quasir.runs.contexts import Entry
from quasir.runs.fitting import find_proposal
from quasir.runs.integrity import must_be_possible, refuse_changes
from quasir.store import MANIFEST, locked

TUNED = "proposal"  # the folder of the tuned proposal, inside the run's folder


def tune_recipe(
    recipe: str,
    folder: Path,
    *,
    lora: int | None = None,
    warm_start: str | None = None,
    minutes: float | None = None,
    steps: int = 6000,
    draws: int = 8192,
    allow_code: bool = False,
    seed: int | None = None,
    reporter: Reporter | None = None,
) -> Path:
    """Tune a proposal towards a recipe's target; return the folder of the tuned proposal."""
    from quasir import tuning
    from quasir.text import CausalLM

    reporter = reporter or Quiet()
    with locked(folder):
        source = recipes.find(recipe)
        asked = located(recipes.read(source, seed=seed), source.parent)
        _check(asked, folder, lora)
        known = asked
        if (folder / "recipe.yaml").is_file():  # with the lambda of a begun run
            before = located(recipes.read_run(folder), folder)
            same = {"proposal": asked.proposal}  # it may change: it is tuned
            was, now = (one.model_copy(update=same) for one in (before, asked))
            refuse_changes(was, now, folder)
            known = asked.model_copy(update={"fitted": before.fitted})
            parts = recipes.read_run(folder).proposal.mixture or []
            if any(TUNED in (part.model, part.adapter) for part in parts):
                reporter.say(f"{folder} is tuned already: give another folder with --out")
                return folder / TUNED
        built = build(known, source.parent, allow_code)
        if not isinstance(built.base, CausalLM):
            raise InputError("only a causal language model can be tuned, and the base is none.")
        if known.unfitted:
            reporter.say(f"fitting lambda on {known.fit:,} draws of the base")
        with reporter.stage("fitting") as report:
            resolved, target = resolve(known, built, report)
        folder.mkdir(parents=True, exist_ok=True)
        keep_code(resolved, source.parent, folder)
        keep_recipe(resolved, folder)
        tuned: Proposal = tuning.DPG(
            target,
            built.base,
            steps=steps,
            lora=lora,
            seed=resolved.seed,
            out=folder / TUNED,
            draws=draws,
            warm_start=warm_start,
            minutes=minutes,
        ).run()
        if asked.unfitted:
            reporter.say(f"fitting lambda again on {asked.fit:,} draws of the tuned proposal")
        mixed = asked.model_copy(update={"proposal": _mixed_source(asked.base, lora)})
        with reporter.stage("fitting") as report:
            final, _ = resolve(mixed, built, report, Mixture([tuned, built.base], [0.5, 0.5]))
        keep_recipe(final, folder)
    return folder / TUNED


def _refuse_drawn(folder: Path) -> None:
    if (folder / MANIFEST).exists():
        raise StoreError(
            f"{folder} holds draws already, of another proposal: give another folder with --out."
        )


def _check(recipe: Recipe, folder: Path, lora: int | None) -> None:
    """Refuse, before any model loads, what cannot be tuned."""
    base = recipe.base
    if base.model is None or base.source is not None or base.server is not None:
        raise InputError("only a causal language model can be tuned, and the base is none.")
    _refuse_drawn(folder)
    if lora is not None and recipe.base.adapter is not None:
        raise InputError("the base has an adapter already: leave --lora out, to tune all weights.")


def _mixed_source(base: Source, lora: int | None) -> Source:
    """Return tuned proposal and base, half and half; ratios are then at most twice the base's."""
    kept = {"dtype", "prompt", "chat", "temperature"}
    kept |= set() if lora is None else {"model", "revision"}
    placed = {"model": TUNED} if lora is None else {"adapter": TUNED}
    tuned = Source.model_validate(base.model_dump(include=kept) | placed | {"weight": 0.5})
    return Source(mixture=[tuned, base.model_copy(update={"weight": 0.5})])


def search_recipe(
    recipe: str,
    folder: Path,
    *,
    budget: int | str | None = None,
    allow_code: bool = False,
    seed: int | None = None,
    reporter: Reporter | None = None,
) -> Recipe:
    """Search a proposal for a recipe's target; return the recipe of the run, which names it."""
    must_be_possible(folder)
    with locked(folder):
        _refuse_drawn(folder)
        source = recipes.find(recipe)
        asked = located(recipes.read(source, seed=seed), source.parent)
        proposal = asked.proposal if asked.proposal.searched else Source(auto=True)
        auto = asked.model_copy(update={"proposal": proposal})
        keep_code(auto, source.parent, folder)
        entries = [Entry.only(auto.seed)]
        final = find_proposal(auto, folder, entries, budget, allow_code, reporter)
        keep_recipe(final, folder)
    return final
