"""The page of one context of a run."""

from __future__ import annotations

from pathlib import Path

from quasir.core.files import make_folder, write_text
from quasir.errors import InputError
from quasir.recipes.building import features_of
from quasir.recipes.describe import asked
from quasir.recipes.placeholders import fill
from quasir.report.page import About, page
from quasir.runs.contexts.on_disk import OneContext

__all__ = ["write_context_page"]


def write_context_page(one: OneContext) -> Path:
    """Write `contexts/NUMBER.html`, the report of one context; return its path."""
    run, certificate = one.run, one.certificate
    if certificate is None:
        raise InputError(f"context {one.place} has no certificate: {one.result.unserved}")
    recipe = fill(run.recipe, one.entry.context)
    about = About(
        title=f"{run.folder.resolve().name}, context {one.place}",
        asked=asked(recipe),
        facts={
            **{f"field {name}": str(value)[:200] for name, value in one.fields.items()},
            "draws": f"{len(one.draws):,}",
            "seed of the context": str(one.entry.seed),
            "quasir": run.store.manifest.quasir,
        },
    )
    warnings = [] if one.result.unserved is None else [one.result.unserved]
    content = page(
        about,
        one.curve,
        certificate.with_warnings(*warnings),
        one.draws,
        features=list(features_of(recipe, run.folder, None).values()),
        checks=() if one.result.sampled is None else one.result.sampled.checks,
    )
    path = run.folder / "contexts" / f"{one.place}.html"
    make_folder(path.parent)
    write_text(path, content)
    return path
