"""The files of a run over contexts: samples, certificates, the table of contexts, and the page."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from quasir.core.files import write_bytes, write_json, write_text, write_with
from quasir.core.items import text_of
from quasir.recipes.describe import asked
from quasir.report.contexts_page import contexts_page
from quasir.report.page import About
from quasir.runs.contexts.on_disk import ContextRun
from quasir.runs.contexts.outcome import ContextResult, ContextsOutcome
from quasir.runs.outputs import version_of

__all__ = ["SAMPLES", "context_lines", "sample_lines", "write_contexts_outputs"]

SAMPLES = "samples.jsonl"
SHOWN = 5
"""Samples of each context on the page."""


def write_contexts_outputs(run: ContextRun) -> None:
    """Write samples, certificates, the table of contexts and the page of a run."""
    outcome, folder = run.outcome, run.folder
    write_samples(folder, outcome)
    content = outcome.whole.to_dict()
    write_json(folder / "certificate.json", content)
    lines = (json.dumps(result.to_dict(), ensure_ascii=True) for result in outcome.results)
    write_text(folder / "certificates.jsonl", "".join(f"{line}\n" for line in lines))
    write_table_of_results(folder, outcome)
    store = run.store
    about = About(
        title=folder.resolve().name,
        asked=asked(run.recipe),
        facts={
            "contexts": f"{len(run):,}",
            "draws": f"{outcome.whole.n:,}",
            "seed": str(store.seed),
            "quasir": store.manifest.quasir,
            **{f"model {model['name']}": version_of(model) for model in store.manifest.models},
        },
    )
    rows = [context_lines(result) for result in outcome.results]
    write_text(folder / "report.html", contexts_page(about, outcome.whole, rows))


def sample_lines(result: ContextResult) -> Iterator[dict[str, Any]]:
    """Yield a JSON-ready dictionary for each sample of a context."""
    if result.sampled is None:
        return
    samples, index = result.sampled.samples, result.sampled.index
    columns = {name: column.tolist() for name, column in samples.features.items()}
    fields = dict(result.entry.context.fields)
    for i, item in enumerate(samples.items):
        yield {
            "context": result.place,
            "fields": fields,
            "sample": text_of(item),
            "log_p_beta": float(samples.log_p_beta[i]),
            "certificate_id": result.id,
            "features": {name: column[i] for name, column in columns.items()},
            "draw": int(index[i]),
        }


def write_samples(folder: Path, outcome: ContextsOutcome) -> None:
    """Write `samples.jsonl` and `samples.parquet`: a row for each sample of a served context."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    lines = [line for result in outcome.served for line in sample_lines(result)]
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    # A lone surrogate is not UTF-8; its escape is JSON.
    write_bytes(folder / SAMPLES, text.encode("utf-8", "backslashreplace"))
    columns: dict[str, Any] = {
        "context": pa.array([line["context"] for line in lines], pa.int64()),
        # Contexts may have different fields, so Parquet has them as JSON.
        "fields": pa.array([json.dumps(line["fields"]) for line in lines], pa.string()),
        "sample": pa.array(
            [line["sample"].encode("utf-8", "backslashreplace").decode() for line in lines],
            pa.string(),
        ),
        "log_p_beta": pa.array([line["log_p_beta"] for line in lines], pa.float64()),
        "certificate_id": pa.array([line["certificate_id"] for line in lines], pa.string()),
        "draw": pa.array([line["draw"] for line in lines], pa.int64()),
    }
    for name in lines[0]["features"] if lines else ():
        columns[f"feature:{name}"] = pa.array([line["features"][name] for line in lines])
    write_with(folder / "samples.parquet", partial(pq.write_table, pa.table(columns)))


def context_lines(result: ContextResult) -> dict[str, Any]:
    """Return the row of a context in tables, with some of its samples."""
    certificate = result.certificate
    known: dict[str, Any] = {}
    if certificate is not None:
        rate, tvd = certificate.acceptance_rate, certificate.tvd
        guarantee = certificate.guarantee
        known = {
            "beta": certificate.beta,
            "acceptance_rate": rate.value,
            "tvd": tvd.value,
            "tvd_low": tvd.low,
            "tvd_high": tvd.high,
            "tvd_guaranteed": None if guarantee is None else guarantee.tvd,
            "kl": certificate.kl.value,
            "moments": {name: part.value for name, part in certificate.moments.items()},
        }
    shown = list(sample_lines(result))[:SHOWN] if result.unserved is None else []
    return {
        "context": result.place,
        "fields": dict(result.entry.context.fields),
        "draws": result.n,
        "samples": 0 if result.sampled is None else len(result.sampled.samples),
        **known,
        "certificate_id": result.id,
        "unserved": result.unserved,
        "warnings": result.warnings,
        "shown": [line["sample"] for line in shown],
    }


COLUMNS = (
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


def write_table_of_results(folder: Path, outcome: ContextsOutcome) -> None:
    """Write `contexts.csv`: a row for each context, with its numbers and what is wrong."""
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    rows = [context_lines(result) for result in outcome.results]
    moments = sorted({name for row in rows for name in row.get("moments", {})})
    named = [f"moment:{name}" for name in moments]
    writer.writerow([*COLUMNS, *named, "certificate_id", "fields", "unserved", "warnings"])
    for row in rows:
        values = [row.get(name) for name in COLUMNS]
        values += [row.get("moments", {}).get(name) for name in moments]
        fields = json.dumps(row["fields"], ensure_ascii=False)
        writer.writerow(
            [*values, row["certificate_id"], fields, row["unserved"], " ".join(row["warnings"])]
        )
    write_text(folder / "contexts.csv", table.getvalue())
