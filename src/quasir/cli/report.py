"""`quasir report`: the page of a run, again."""

from __future__ import annotations

import json as jsonlib
from pathlib import Path

from quasir import recipes
from quasir.certificates.tradeoff import tradeoff
from quasir.cli.bar import say
from quasir.cli.options import Json, RunFolder, Seed, check_seed
from quasir.cli.sample import existing
from quasir.core.files import write_text
from quasir.draws.draws import Draws
from quasir.errors import InputError
from quasir.recipes.building import features_of
from quasir.recipes.describe import asked
from quasir.report.page import About, page
from quasir.runs import Sampled, sample_run
from quasir.runs.outputs import (
    choose,
    write_certificate,
    write_figures,
    write_samples,
    write_tradeoff,
)
from quasir.store import Store, locked

__all__ = ["finish", "report"]


def report(run: RunFolder, json: Json = False, seed: Seed = None) -> None:
    """Write the report of a run again.

    From its stored draws; no model is loaded.

    Example: quasir report runs/scientists
    """
    with locked(existing(run)):
        check_seed(Store.open(run), seed)
        finish(run)
    path = run / "report.html"
    print(jsonlib.dumps({"report": str(path)}) if json else f"open {path} in a browser")


def finish(folder: Path) -> Sampled:
    """Write all that comes of a run's draws: trade-off, certificate, samples, figures, page."""
    if not (folder / "recipe.yaml").exists():
        raise InputError(
            f"{folder} has no recipe.yaml to tell what was asked: `quasir tradeoff` and `quasir "
            "sample` do without."
        )
    recipe, store = recipes.read(folder / "recipe.yaml"), Store.open(folder)
    draws = Draws.load(store)
    curve = tradeoff(draws)
    write_tradeoff(folder, curve)
    write_figures(folder, curve)
    certificate, why = choose(curve, recipe.choose.wish)
    sampled = sample_run(draws, certificate, recipe.samples)
    found = len(sampled.samples)
    doubts = [] if why is None else [why]
    if found < recipe.samples:
        doubts.append(
            f"Only {found:,} of the {recipe.samples:,} samples asked for are among the draws: "
            f"`quasir sample {folder} -n {recipe.samples}` draws on until there are as many."
        )
    certificate = certificate.with_doubts(*doubts)
    for doubt in doubts:
        say(f"! {doubt}")
    write_samples(folder, sampled)
    write_certificate(folder, certificate, [], sampled.checks)
    models = store.manifest.models
    about = About(
        title=Path(folder).name,
        asked=asked(recipe),
        facts={
            "draws": f"{len(draws):,}",
            "seed": str(store.seed),
            "quasir": store.manifest.quasir,
            **{f"model {model['name']}": version_of(model) for model in models},
        },
    )
    features = list(features_of(recipe, folder, None).values())
    write_text(
        folder / "report.html", page(about, curve, certificate, draws, features, sampled.checks)
    )
    return sampled


def version_of(model: dict[str, str | None]) -> str:
    """Return a dozen digits of a model's revision or of its weights' hash."""
    return (model["revision"] or model["weights_sha256"] or "unknown")[:12]
