"""The files of a run's results: trade-off, certificate, samples, figures and the page."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from quasir.certificates.certificate import Certificate
from quasir.certificates.check import Check
from quasir.certificates.curve import Curve
from quasir.certificates.figures import panels_of, plot_curve, plot_panel
from quasir.core.files import make_folder, write_bytes, write_json, write_text, write_with
from quasir.core.items import text_of
from quasir.recipes import Recipe
from quasir.recipes.building import features_of
from quasir.recipes.describe import asked
from quasir.report.page import About, page
from quasir.runs.outcome import Outcome
from quasir.runs.sampling import Sampled, warnings_of
from quasir.store import Store

__all__ = ["lines_of", "write_figure", "write_outputs", "write_tradeoff"]


def write_outputs(folder: Path, recipe: Recipe, store: Store, outcome: Outcome) -> None:
    """Write the trade-off, the figures, the samples, the certificate and the page of a run."""
    write_tradeoff(folder, outcome.curve)
    write_figures(folder, outcome.curve)
    write_samples(folder, outcome.sampled)
    write_certificate(folder, outcome.certificate, outcome.checks)
    about = About(
        title=folder.resolve().name,
        asked=asked(recipe),
        facts={
            "draws": f"{len(outcome.draws):,}",
            "seed": str(store.seed),
            "quasir": store.manifest.quasir,
            **{f"model {model['name']}": version_of(model) for model in store.manifest.models},
        },
    )
    features = list(features_of(recipe, folder, None).values())
    write_text(
        folder / "report.html",
        page(
            about,
            outcome.curve,
            outcome.certificate,
            outcome.draws,
            features=features,
            checks=outcome.checks,
            wanted=outcome.wanted,
        ),
    )


def version_of(model: dict[str, str | None]) -> str:
    """Return the first twelve digits of a model's revision or of its weights' hash."""
    known = (model.get(name) for name in ("guide_sha256", "revision", "weights_sha256"))
    return next((version for version in known if version), "unknown")[:12]


def write_tradeoff(folder: Path, curve: Curve) -> None:
    """Write `tradeoff.csv`: a row for each beta; value, se, low and high of each estimate."""
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    columns = curve.columns()
    writer.writerow(columns)
    writer.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))
    write_text(folder / "tradeoff.csv", table.getvalue())


def write_figure(folder: Path, curve: Curve) -> Path:
    """Write `figures/tradeoff.png`: all panels in one figure."""
    return _written(folder, "tradeoff", plot_curve(curve))


def write_figures(folder: Path, curve: Curve) -> None:
    """Write `figures/tradeoff.png`, and each panel in its own file, as wide as a column."""
    write_figure(folder, curve)
    for panel in panels_of(curve):
        _written(folder, panel.name, plot_panel(curve, panel))


def _written(folder: Path, name: str, figure: Any) -> Path:
    path = folder / "figures" / f"{name}.png"
    make_folder(path.parent)
    write_with(path, partial(figure.savefig, dpi=200, format="png"))
    return path


def write_certificate(folder: Path, certificate: Certificate, checks: Sequence[Check]) -> None:
    """Write `certificate.json`: the estimates, all warnings, and the checks on the samples."""
    content = certificate.to_dict()
    content["warnings"] = [*content["warnings"], *warnings_of(checks)]
    content["checks"] = [check.to_dict() for check in checks]
    write_json(folder / "certificate.json", content)


def lines_of(sampled: Sampled) -> Iterator[dict[str, Any]]:
    """Yield a JSON-ready dictionary for each sample."""
    samples = sampled.samples
    columns = {name: column.tolist() for name, column in samples.features.items()}
    for i, item in enumerate(samples.items):
        yield {
            "text": text_of(item),
            "log_p_beta": float(samples.log_p_beta[i]),
            "features": {name: column[i] for name, column in columns.items()},
            "draw": int(sampled.index[i]),
        }


def write_samples(folder: Path, sampled: Sampled) -> None:
    """Write `samples.jsonl`: a line for each sample."""
    lines = (json.dumps(line, ensure_ascii=False) for line in lines_of(sampled))
    text = "".join(f"{line}\n" for line in lines)
    # A lone surrogate is not UTF-8; its escape is JSON.
    write_bytes(folder / "samples.jsonl", text.encode("utf-8", "backslashreplace"))
