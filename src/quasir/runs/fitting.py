"""What is found before a run draws: its lambdas, and its proposal where it is searched.

Both are kept in the run with their draws, so that a run that was killed goes on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from quasir.constraints.dual import MIN_ESS, solve
from quasir.core.files import write_bytes
from quasir.core.progress import Quiet, Reporter
from quasir.core.streams import Purpose, derived_seed
from quasir.core.types import Array
from quasir.draws.draws import Draws
from quasir.engines import Engine
from quasir.errors import InfeasibleError, InputError, StoreError
from quasir.estimation.estimate import kish_ess
from quasir.recipes.building import resolve
from quasir.recipes.parts import FIELD, GuideSpec
from quasir.recipes.schema import Recipe, Source
from quasir.runs.contexts import Builder, Entry, draws_by_context, shared_out
from quasir.runs.draw_shards import draw_missing
from quasir.runs.integrity import recipe_hash
from quasir.store import MANIFEST, Store
from quasir.store.store import ContextStore

FIT = "fit"  # the folder of these draws, in the run's
TEXT_BLOCKS, BLOCKS = 1, 64
"""Blocks in a shard: what a stopped fit loses at most, some seconds of work."""


def fit_lambdas(
    recipe: Recipe, builder: Builder, entries: list[Entry], folder: Path, reporter: Reporter
) -> tuple[Recipe, list[Entry]]:
    """Fit the lambdas that are not given; return the recipe and the contexts with them."""
    names, over = ", ".join(recipe.unfitted), bool(entries[0].fields)
    if over and recipe.over is None:
        raise InputError(
            f"a mean is wanted for {names}, and the recipe does not say of what: give over: "
            "contexts for the mean over all contexts, or over: each for the mean in each."
        )
    if recipe.fit < len(entries):
        raise InputError(
            f"lambda cannot be fitted on {recipe.fit:,} draws of {len(entries):,} contexts: give "
            "fit: a larger number in the recipe."
        )
    reporter.say(f"fitting lambda for {names} on {recipe.fit:,} draws of the base")
    every = _fitting_draws(recipe, builder, entries, folder / FIT, reporter)
    if not over:
        return resolve(recipe, builder.built(entries[0]), draws=every[0])[0], entries
    if recipe.over == "each":
        return recipe, list(map(partial(_fit_own, recipe, builder), entries, every))
    return recipe.model_copy(update={"fitted": _fit_over_all(recipe, every)}), entries


def _fitting_draws(
    recipe: Recipe, builder: Builder, entries: list[Entry], folder: Path, reporter: Reporter
) -> list[Draws]:
    """Draw from the base of every context, or go on where an earlier call was stopped."""
    own, kind = recipe_hash(recipe), Store
    seeded = [replace(e, seed=derived_seed(e.seed, Purpose.FIT)) for e in entries]
    seed, facts = seeded[0].seed, dict[str, Any]()
    if entries[0].fields:
        keys = hashlib.sha256("".join(str(entry.seed) for entry in seeded).encode()).hexdigest()
        kind, seed, facts = ContextStore, recipe.seed, {"contexts": keys, "rounds": []}
    if (folder / MANIFEST).is_file():
        store = kind.open(folder)
        if (store.manifest.recipe, store.manifest.contexts) != (own, facts.get("contexts")):
            raise StoreError(
                f"{folder} holds draws of another recipe or of other contexts, whose fit was "
                f"stopped: give another folder with --out, or remove {folder} to fit anew."
            )
    else:
        models = builder.built(entries[0]).models
        size = TEXT_BLOCKS if models else BLOCKS
        store = kind.create(folder, seed, size, models=models, recipe=own, **facts)
        if isinstance(store, ContextStore):
            store.add_round(shared_out(recipe.fit, len(entries)))
    watching = copy(builder)
    watching.watches = True
    with reporter.stage("fitting") as report:
        draw_missing(store, recipe.fit, seeded, watching, load=lambda: watching, progress=report)
    return [draws for _, draws in draws_by_context(store, seeded)]


def _fit_own(recipe: Recipe, builder: Builder, entry: Entry, draws: Draws) -> Entry:
    try:
        fitted, _ = resolve(entry.filled(recipe), builder.built(entry), draws=draws)
    except InfeasibleError as error:
        return replace(entry, failed=str(error))
    return replace(entry, fitted=dict(fitted.fitted))


def _fit_over_all(recipe: Recipe, every: Sequence[Draws]) -> dict[str, float]:
    names, mu = recipe.unfitted, np.array([recipe.want[name] for name in recipe.unfitted])
    groups: list[tuple[Array, Array]] = []
    for draws in every:
        possible = np.ones(len(draws), dtype=bool)
        for name in recipe.pointwise:
            possible &= np.asarray(draws.features[name], bool) == bool(recipe.want[name])
        tilt = sum(
            (c * np.asarray(draws.features[n], float) for n, c in recipe.coefficients.items()),
            np.zeros(len(draws)),
        )
        if possible.any():
            columns = [np.asarray(draws.features[name], float)[possible] for name in names]
            groups.append((np.stack(columns, axis=1), tilt[possible]))
    said = f"mean(s) {', '.join(f'{n} = {recipe.want[n]:g}' for n in names)} over all contexts"
    solved = solve(groups, mu) if groups else None
    if solved is None:
        raise InfeasibleError(
            f"{said} cannot be met: {len(groups):,} of {len(every):,} contexts have draws that "
            "are possible, and no lambda gives them that mean. Draw more (fit), or request for "
            "less."
        )
    coefficients, weights = solved
    ess = kish_ess(len(weights), sum(float((w**2).sum()) for w in weights))
    if ess < MIN_ESS:
        raise InfeasibleError(
            f"{said}: the fit rests on {ess:.0f} effective draws, fewer than {MIN_ESS:.0f}: give a "
            "larger number under fit."
        )
    return dict(zip(names, coefficients.tolist(), strict=True))


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
