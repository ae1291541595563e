"""The search for a run's proposal: where the recipe asks for one, or names no proposal."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from quasir.core.files import write_bytes
from quasir.core.progress import Quiet, Reporter
from quasir.engines import Engine
from quasir.errors import InputError
from quasir.recipes.parts import FIELD, GuideSpec
from quasir.recipes.schema import Recipe, Source
from quasir.runs.contexts import Builder, Entry
from quasir.runs.fitting import fit_lambdas
from quasir.runs.integrity import recipe_hash

FILE = "proposal.safetensors"  # the proposal that was found, inside the run's folder
DRAWS = "search"  # the folder of the search, inside the run's folder
MOST_CONTEXTS = 16  # contexts that a search draws from; what it finds serves all of them


def searches(recipe: Recipe, reporter: Reporter) -> bool:
    """Return whether the run of a recipe begins with a search; if not, say why where it matters."""
    asked = recipe.want or recipe.coefficients
    if recipe.base.server is not None and asked and "proposal" not in recipe.model_fields_set:
        reporter.say("proposals come from the base: on a served model none can be searched")
    return recipe.proposal.searched or recipe.searched_by_default


def was_found(proposal: Source) -> bool:
    """Return whether a run's proposal is what a search has found."""
    return any(spec.file == FILE for spec in proposal.parts(GuideSpec))


def find_proposal(
    recipe: Recipe,
    folder: Path,
    entries: list[Entry],
    budget: int | str | None = None,
    allow_code: bool = False,
    reporter: Reporter | None = None,
    engine: Engine | None = None,
) -> Recipe:
    """Return the recipe with a proposal, which is searched unless the folder has it already."""
    from quasir.text import CausalLM
    from quasir.text.found import read_proposal, save_proposal
    from quasir.text.search import BUDGET, LEAST_BUDGET, Search, read_budget
    from quasir.text.stages import Stages
    from quasir.text.weighing import Request

    reporter, given = reporter or Quiet(), recipe.proposal.candidates
    tried = Source(mixture=given) if given else Source()
    plain = recipe.model_copy(update={"proposal": tried})
    # Another recipe in the same folder has another search.
    search = folder / DRAWS / recipe_hash(plain, str([entry.seed for entry in entries]))[:16]
    if any(FIELD.search(word) for word in recipe.proposal.words):
        raise InputError(
            "a search over contexts has the same words in all of them, and boost names a field: "
            "give its factor, as in boost: {'{word}': 20}."
        )
    builder = Builder(plain, folder, allow_code)
    if not isinstance(builder.built(entries[0]).base, CausalLM):
        raise InputError(
            "proposal: auto searches a proposal on a causal language model, and the base is none: "
            "name the proposal, or say proposal: base."
        )
    if plain.unfitted:
        plain, entries = fit_lambdas(plain, builder, entries, folder, reporter)
        builder.recipe = plain
    kept = search / FILE
    if not kept.is_file():
        size = read_budget(budget or min(max(recipe.draws // 2, LEAST_BUDGET), BUDGET))
        amount = f"{size.draws:,} draws" if size.draws else f"{size.seconds:g} seconds"
        reporter.say(f"searching a proposal with {amount}")
        places = _places(builder, entries, bool(given))
        asked, features = recipe.choose.asked, builder.built(entries[0]).features
        tvd = min(asked.get("tvd", asked.get("truncated_mass", 0.1)) or 0.1, 1.0)
        # Code of the recipe's own cannot be sent to another process.
        own = any(spec.python for spec in recipe.features.values())
        with reporter.stage("searching") as report:
            stages = Stages(
                places=places,
                seed=recipe.seed,
                progress=report,
                engine=None if own else engine,
                folder=search,
            )
            q = Search(
                stages=stages,
                budget=size,
                request=Request(tvd, asked.get("confidence", 0.95), recipe.draws // len(entries)),
                words=[features.get(word, word) for word in recipe.proposal.words],
            ).run()
        save_proposal(q, kept)
        for file in search.glob("stage-*.npz"):
            file.unlink()
    record = read_proposal(kept).record
    assert record is not None
    reporter.say(str(record))
    found = _name(record.best.weights, given)
    if was_found(found):
        write_bytes(folder / FILE, kept.read_bytes())
    return plain.model_copy(update={"proposal": found})


def _places(builder: Builder, entries: list[Entry], given: bool) -> list[Any]:
    """Return the contexts that are searched, with the proposals that the recipe gives for each."""
    from quasir.text.stages import Place

    possible = [entry for entry in entries if entry.failed is None]
    places = []
    for entry in possible[:: -(-len(possible) // MOST_CONTEXTS)]:
        target, proposal = builder.pair(entry)
        places.append(Place(target, tuple(getattr(proposal, "components", ())) if given else ()))
    return places


def _name(weights: Mapping[str, float], given: list[Source]) -> Source:
    """Return what was found as a recipe names it: the base, the file, or a mixture with others."""
    used = {i: weights[f"given {i + 1}"] for i in range(len(given)) if f"given {i + 1}" in weights}
    others = {name for name in weights if not name.startswith("given ")} - {"base"}
    found = {"guide": {"file": FILE}} if others else {}
    if not used:
        return Source.model_validate(found)
    parts = [given[i].model_copy(update={"weight": weight}) for i, weight in used.items()]
    own = 1.0 - sum(used.values())
    first = [Source.model_validate(found | {"weight": own})] if own > 0 else []
    return Source(mixture=[*first, *parts])
