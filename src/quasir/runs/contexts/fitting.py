"""The fit of lambda for many contexts: one lambda over all of them, or one for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from quasir.constraints.dual import MIN_ESS, solve
from quasir.core.progress import Reporter
from quasir.core.streams import Purpose, derived_seed
from quasir.core.types import Array, Proposal
from quasir.draws.draws import Draws
from quasir.errors import InfeasibleError, InputError, StoreError
from quasir.estimation.estimate import kish_ess
from quasir.recipes.building import resolve
from quasir.recipes.placeholders import fill
from quasir.recipes.schema import Recipe
from quasir.runs.contexts.allocation import shared_out
from quasir.runs.contexts.drawing import draw_shards
from quasir.runs.contexts.loading import draws_by_context
from quasir.runs.contexts.maker import Builder
from quasir.runs.contexts.table import Entry, hash_of_table
from quasir.runs.integrity import recipe_hash
from quasir.store import MANIFEST
from quasir.store.context_store import ContextStore
from quasir.targets.product import Product

__all__ = ["fit_contexts"]

TEXT_BLOCKS, BLOCKS = 1, 64
"""Blocks in a shard: what a stopped fit loses at most."""


def fit_contexts(
    recipe: Recipe,
    maker: Builder,
    entries: list[Entry],
    folder: Path,
    models: list[dict[str, Any]],
    reporter: Reporter,
) -> tuple[Recipe, list[Entry]]:
    """Fit the lambdas that the recipe does not give; return the recipe and the contexts with them.

    A context whose own requests cannot be met is marked with the reason.
    """
    names = ", ".join(recipe.unfitted)
    if recipe.over is None:
        raise InputError(
            f"a mean is wanted for {names}, and the recipe does not say of what: give "
            "over: contexts for the mean over all contexts, with one lambda, or over: each for the "
            "mean in each context, with a lambda for each."
        )
    if recipe.fit < len(entries):
        raise InputError(
            f"lambda cannot be fitted on {recipe.fit:,} draws of {len(entries):,} contexts: give "
            "fit: a larger number in the recipe."
        )
    reporter.say(f"fitting lambda for {names} on {recipe.fit:,} draws of the base")
    every = _draws(recipe, maker, entries, folder, models, reporter)
    if recipe.over == "each":
        return recipe, [
            _own(recipe, maker, entry, draws) for entry, draws in zip(entries, every, strict=True)
        ]
    fitted = _over_all(recipe, maker, entries, every)
    return recipe.model_copy(update={"fitted": fitted}), entries


def _draws(
    recipe: Recipe,
    maker: Builder,
    entries: list[Entry],
    folder: Path,
    models: list[dict[str, Any]],
    reporter: Reporter,
) -> list[Draws]:
    """Draw from the base of every context, or go on where an earlier call was stopped."""
    own = recipe_hash(recipe)
    seeded = [replace(e, seed=derived_seed(e.seed, Purpose.FIT)) for e in entries]
    keys = hash_of_table("".join(str(entry.seed) for entry in seeded))
    if (folder / MANIFEST).is_file():
        store = ContextStore.open(folder)
        if store.manifest.recipe != own or store.manifest.contexts != keys:
            raise StoreError(
                f"{folder} holds draws of another recipe or of other contexts, whose fit was "
                f"stopped: give another folder with --out, or remove {folder} to fit anew."
            )
    else:
        size = TEXT_BLOCKS if models else BLOCKS
        store = ContextStore.create(
            folder, recipe.seed, size, models=models, recipe=own, contexts=keys, rounds=[]
        )
        store.add_round(shared_out(recipe.fit, len(entries)))

    def watching(entry: Entry) -> tuple[Product, Proposal]:
        built = maker.built(entry.context)
        return Product(built.base, watched=list(built.features.values())), built.base

    with reporter.stage("fitting") as report:
        draw_shards(store, seeded, maker, parts=watching, progress=report)
    found = draws_by_context(store, seeded)
    return [found[i] for i in range(len(entries))]


def _own(recipe: Recipe, maker: Builder, entry: Entry, draws: Draws) -> Entry:
    """Fit the lambdas of one context."""
    try:
        filled = fill(recipe, entry.context)
        fitted, _ = resolve(filled, maker.built(entry.context), draws=draws)
    except InfeasibleError as error:
        return entry.without(str(error))
    return replace(entry, fitted=dict(fitted.fitted))


def _over_all(
    recipe: Recipe, maker: Builder, entries: Sequence[Entry], every: Sequence[Draws]
) -> dict[str, float]:
    """Fit one lambda over all contexts in which some draw is possible."""
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
            f"{said} cannot be met: {len(groups):,} of {len(entries):,} contexts have draws that "
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
