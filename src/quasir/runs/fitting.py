"""The fit of lambda: in the one context of a run, in each of many, or over all of them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from quasir.constraints.dual import MIN_ESS, solve
from quasir.core.progress import Reporter
from quasir.core.streams import Purpose, derived_seed
from quasir.core.types import Array
from quasir.draws.draws import Draws
from quasir.errors import InfeasibleError, InputError, StoreError
from quasir.estimation.estimate import kish_ess
from quasir.recipes.building import resolve
from quasir.recipes.schema import Recipe
from quasir.runs.allocation import shared_out
from quasir.runs.contexts import Builder, Entry, draws_by_context
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
