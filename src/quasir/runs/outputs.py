"""The files of a run's results: trade-off, certificates, samples, figures and the page.

A run over contexts has tables of them instead of one trade-off: `contexts.csv`,
`certificates.jsonl` and `samples.parquet`.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from quasir.certificates.contexts_certificate import ContextsCertificate
from quasir.certificates.curve import Curve
from quasir.certificates.figures import panels_of, plot_curve
from quasir.core.files import make_folder, write_bytes, write_json, write_text, write_with
from quasir.core.items import text_of
from quasir.errors import InputError
from quasir.recipes.building import features_of
from quasir.recipes.describe import asked
from quasir.recipes.explain import explain
from quasir.report.contexts_page import contexts_page
from quasir.report.page import About, page
from quasir.runs.integrity import command
from quasir.runs.outcome import Result
from quasir.runs.stored_run import Run, RunContext

SAMPLES = "samples.jsonl"
SHOWN = 5
"""Samples of each context on the page."""
NUMBERS = (
    "context",
    "draws",
    "samples",
    "beta",
    "acceptance_rate",
    "tvd",
    "tvd_low",
    "tvd_high",
    "tvd_guaranteed",
    "kl",
)
"""The first columns of `contexts.csv`."""


def write_outputs(run: Run) -> None:
    """Write all results of a run into its folder."""
    lines = [line for result in run.outcome.served for line in sample_lines(result)]
    _write_lines(run.folder / SAMPLES, lines)
    if run.outcome.whole is None:
        _write_one(run)
    else:
        _write_contexts(run, run.outcome.whole, lines)


def describe_outputs(run: Run) -> str:
    """Return what came of a run, and where its files are."""
    samples = f"samples: {run.folder / SAMPLES}"
    page = f"open {run.report} in a browser"
    if run.over_contexts:
        return f"{run.certificate}\n\n{page}\n{samples}; contexts: {run.folder / 'contexts.csv'}"
    more = command("sample", run.folder, "-n", 1000, recipe=run.recipe)
    return f"{run.certificate}\n{run[0].result.sampled}\n\n{page}\n{samples}; more: {more}"


def describe_tradeoff(run: Run, context: int | None) -> tuple[object, dict[str, Any]]:
    """Return the trade-off of one context, or what holds over all: to print, and as JSON."""
    if context is None and run.over_contexts:
        every = [result.to_dict() for result in run.outcome.results]
        return run.certificate, {"whole": run.certificate.to_dict(), "contexts": every}
    curve = run[context or 0].curve
    return curve, {
        "n": curve.n,
        "n_possible": curve.n_possible,
        "ess": curve.ess,
        "streamed": curve.bin_width > 0,
        "warnings": curve.warnings,
        "proposal": curve.proposal.to_dict(),
        "projection": curve.projection.to_dict(),
        "columns": {
            name: [x if math.isfinite(x) else None for x in column.tolist()]
            for name, column in curve.columns().items()
        },
    }


def samples_json(results: Sequence[Result]) -> dict[str, Any]:
    """Return the samples of some contexts, with their certificates."""
    lines = [line for result in results if not result.unserved for line in sample_lines(result)]
    if results[0].entry.fields:
        return {"contexts": [result.to_dict() for result in results], "samples": lines}
    (result,) = results
    checks = () if result.sampled is None else result.sampled.checks
    return {
        "certificate": result.to_dict()["certificate"],
        "checks": [check.to_dict() for check in checks],
        "samples": lines,
    }


def describe_samples(results: Sequence[Result]) -> str:
    """Return the certificate and the checks of samples, or how many there are of how many."""
    served = [result for result in results if result.unserved is None]
    if len(served) == 1:
        return f"{served[0].certificate}\n{served[0].sampled}"
    total = sum(len(result.sampled.samples) for result in served if result.sampled is not None)
    return f"{total:,} samples of {len(served):,} contexts"


def _write_one(run: Run) -> None:
    one, folder = run[0], run.folder
    write_tradeoff(folder, one.curve)
    write_figures(folder, one.curve)
    content = run.certificate.to_dict() | {
        "warnings": one.result.warnings,
        "checks": [check.to_dict() for check in one.checks],
    }
    write_json(folder / "certificate.json", content)
    write_text(run.report, _page_of(one))


def _page_of(one: RunContext) -> str:
    """Return the page of one context."""
    run, certificate, recipe = one.run, one.certificate, one.recipe
    if certificate is None:
        raise InputError(f"context {one.index} has no certificate: {one.result.unserved}")
    name = run.folder.resolve().name
    about = About(
        title=f"{name}, context {one.index}" if run.over_contexts else name,
        asked=asked(recipe),
        facts={
            **{f"field {name}": str(value)[:200] for name, value in one.fields.items()},
            "draws": f"{one.n:,}",
            "seed of the context" if run.over_contexts else "seed": str(one.entry.seed),
            **_facts(run),
        },
        settings=explain(recipe),
        exact=_exact_command(one),
    )
    if one.result.unserved is not None:
        certificate = certificate.with_warnings(one.result.unserved)
    return page(
        about,
        one.curve,
        certificate,
        one.source,
        features=list(features_of(recipe, run.folder, None).values()),
        checks=one.checks,
        wanted=one.result.wanted,
    )


def _exact_command(one: RunContext) -> str:
    """Return the command that gives exact samples, where a ceiling of the ratios is known."""
    context = ["--context", one.index] if one.run.over_contexts else []
    return command("sample", one.run.folder, "--tvd", 0, *context, recipe=one.recipe)


def write_context_page(one: RunContext) -> Path:
    """Write `contexts/NUMBER.html`, the report of one context; return its path."""
    path = one.run.folder / "contexts" / f"{one.index}.html"
    content = _page_of(one)
    make_folder(path.parent)
    write_text(path, content)
    return path


def _facts(run: Run) -> dict[str, str]:
    """Return the version and the models of a run: their revisions or their weights' hashes."""
    facts, manifest = {"quasir": run.store.manifest.quasir}, run.store.manifest
    for model in manifest.models:
        known = (model.get(name) for name in ("guide_sha256", "revision", "weights_sha256"))
        version = next((version for version in known if version), "unknown")
        facts[f"model {model['name']}"] = version[:12]
    return facts


def write_curve(run: Run) -> list[Path]:
    """Write the trade-off and its figure; return their paths. Many contexts have none."""
    if run.over_contexts:
        return []
    write_tradeoff(run.folder, run.curve)
    return [run.folder / "tradeoff.csv", write_figure(run.folder, run.curve)]


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
    return _write_png(folder, "tradeoff", plot_curve(curve))


def write_figures(folder: Path, curve: Curve) -> None:
    """Write `figures/tradeoff.png`, and each panel in its own file, as wide as a column."""
    write_figure(folder, curve)
    for panel in panels_of(curve):
        _write_png(folder, panel.name, plot_curve(curve, [panel]))


def _write_png(folder: Path, name: str, figure: Any) -> Path:
    path = folder / "figures" / f"{name}.png"
    make_folder(path.parent)
    write_with(path, partial(figure.savefig, dpi=200, format="png"))
    return path


def sample_lines(result: Result) -> Iterator[dict[str, Any]]:
    """Yield a JSON-ready dictionary for each sample of a context."""
    if result.sampled is None:
        return
    samples, index, fields = result.sampled.samples, result.sampled.index, result.entry.fields
    columns = {name: column.tolist() for name, column in samples.features.items()}
    for i, item in enumerate(samples.items):
        text = text_of(item)
        named = {"context": result.index, "fields": fields, "sample": text}
        yield {
            **(named if fields else {"text": text}),
            "log_p_beta": float(samples.log_p_beta[i]),
            **({"certificate_id": result.id} if fields else {}),
            "features": {name: column[i] for name, column in columns.items()},
            "draw": int(index[i]),
        }


def _write_lines(path: Path, lines: Sequence[Any]) -> None:
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    # A lone surrogate is not UTF-8; its escape is JSON.
    write_bytes(path, text.encode("utf-8", "backslashreplace"))


def _write_contexts(run: Run, whole: ContextsCertificate, lines: Sequence[dict[str, Any]]) -> None:
    """Write the certificates, the tables and the page of a run over contexts."""
    outcome, folder = run.outcome, run.folder
    _write_parquet(folder / "samples.parquet", lines)
    write_json(folder / "certificate.json", whole.to_dict())
    certificates = (json.dumps(result.to_dict(), ensure_ascii=True) for result in outcome.results)
    write_text(folder / "certificates.jsonl", "".join(f"{line}\n" for line in certificates))
    rows = [_row_of(result) for result in outcome.results]
    _write_table(folder / "contexts.csv", rows)
    facts = {"contexts": f"{len(run):,}", "draws": f"{whole.n:,}", "seed": str(run.store.seed)}
    about = About(
        folder.resolve().name, asked(run.recipe), facts | _facts(run), explain(run.recipe)
    )
    write_text(run.report, contexts_page(about, whole, rows))


def _write_parquet(path: Path, lines: Sequence[dict[str, Any]]) -> None:
    """Write the samples of all contexts as a table."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    def column(name: str, kind: Any, value: Any = lambda content: content) -> Any:
        return pa.array([value(line[name]) for line in lines], kind)

    columns: dict[str, Any] = {
        "context": column("context", pa.int64()),
        # Contexts may have different fields, so Parquet has them as JSON.
        "fields": column("fields", pa.string(), json.dumps),
        "sample": column("sample", pa.string(), _encodable),
        "log_p_beta": column("log_p_beta", pa.float64()),
        "certificate_id": column("certificate_id", pa.string()),
        "draw": column("draw", pa.int64()),
    }
    for name in lines[0]["features"] if lines else ():
        columns[f"feature:{name}"] = pa.array([line["features"][name] for line in lines])
    write_with(path, partial(pq.write_table, pa.table(columns)))


def _encodable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def _row_of(result: Result) -> dict[str, Any]:
    """Return the row of a context in tables, with some of its samples."""
    certificate = result.certificate
    known: dict[str, Any] = {}
    if certificate is not None:
        guarantee = certificate.guarantee
        known = {
            "beta": certificate.beta,
            "acceptance_rate": certificate.acceptance_rate.value,
            "tvd": certificate.tvd.value,
            "tvd_low": certificate.tvd.low,
            "tvd_high": certificate.tvd.high,
            "tvd_guaranteed": None if guarantee is None else guarantee.tvd,
            "kl": certificate.kl.value,
            "moments": {name: part.value for name, part in certificate.moments.items()},
        }
    shown = list(sample_lines(result))[:SHOWN] if result.unserved is None else []
    return {
        "context": result.index,
        "fields": result.entry.fields,
        "draws": result.n,
        "samples": 0 if result.sampled is None else len(result.sampled.samples),
        **known,
        "certificate_id": result.id,
        "unserved": result.unserved,
        "warnings": result.warnings,
        "shown": [line["sample"] for line in shown],
    }


def _write_table(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write `contexts.csv`: a row for each context, with its numbers and what is wrong."""
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    moments = sorted({name for row in rows for name in row.get("moments", {})})
    named = [f"moment:{name}" for name in moments]
    writer.writerow([*NUMBERS, *named, "certificate_id", "fields", "unserved", "warnings"])
    for row in rows:
        values = [row.get(name) for name in NUMBERS]
        values += [row.get("moments", {}).get(name) for name in moments]
        fields = json.dumps(row["fields"], ensure_ascii=False)
        writer.writerow(
            [*values, row["certificate_id"], fields, row["unserved"], " ".join(row["warnings"])]
        )
    write_text(path, table.getvalue())
