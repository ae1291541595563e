"""The files of a run's results: trade-off, certificates, samples, figures and the page."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
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
from quasir.recipes.explain import asked, explain
from quasir.report.page import About, contexts_page, page
from quasir.runs.integrity import command
from quasir.runs.stored_run import Result, Run, RunContext

SAMPLES = "samples.jsonl"
SHOWN = 5  # samples of each context on the page
NUMBERS = tuple(
    "context draws samples beta acceptance_rate tvd tvd_low tvd_high tvd_guaranteed kl".split()
)  # the first columns of `contexts.csv`


def write_outputs(run: Run) -> None:
    """Write all results of a run into its folder."""
    served = [result for result in run.outcome.results if result.unserved is None]
    lines = [line for result in served for line in sample_lines(result)]
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
    run, certificate, recipe = one.run, one.certificate, one.recipe
    if certificate is None:
        raise InputError(f"context {one.index} has no certificate: {one.result.unserved}")
    name = run.folder.resolve().name
    context = ["--context", one.index] if run.over_contexts else []
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
        exact=command("sample", run.folder, "--tvd", 0, *context, recipe=recipe),
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


def write_tradeoff(folder: Path, curve: Curve) -> None:
    """Write `tradeoff.csv`: a row for each beta; value, se, low and high of each estimate."""
    columns = curve.columns()
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    _write_csv(folder / "tradeoff.csv", columns, rows)


def _write_csv(path: Path, header: Iterable[str], rows: Iterable[Iterable[Any]]) -> None:
    table = io.StringIO()
    csv.writer(table, lineterminator="\n").writerows([header, *rows])
    write_text(path, table.getvalue())


def write_figures(folder: Path, curve: Curve, each: bool = True) -> Path:
    """Write `figures/tradeoff.png`; with `each`, also each panel, as wide as a column."""
    make_folder(folder / "figures")
    figures = {"tradeoff": plot_curve(curve)}
    figures |= {one.name: plot_curve(curve, [one]) for one in panels_of(curve) if each}
    for name, figure in figures.items():
        path = folder / "figures" / f"{name}.png"
        write_with(path, partial(figure.savefig, dpi=200, format="png"))
    return folder / "figures" / "tradeoff.png"


def sample_lines(result: Result) -> Iterator[dict[str, Any]]:
    """Yield a JSON-ready dictionary for each sample of a context."""
    if result.sampled is None:
        return
    samples, index, fields = result.sampled.samples, result.sampled.index, result.entry.fields
    columns = {name: column.tolist() for name, column in samples.features.items()}
    for i, item in enumerate(samples.items):
        text = text_of(item)
        named = {"context": result.entry.index, "fields": fields, "sample": text}
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
    import pyarrow as pa
    import pyarrow.parquet as pq

    text, whole = pa.string(), pa.int64()
    kinds = {"context": whole, "fields": text, "sample": text, "log_p_beta": pa.float64()}
    kinds |= {"certificate_id": text, "draw": whole}
    # Contexts may have different fields, so Parquet has them as JSON.
    plain = [
        line
        | {"fields": json.dumps(line["fields"])}
        | {"sample": line["sample"].encode("utf-8", "backslashreplace").decode()}
        for line in lines
    ]
    columns = {name: pa.array([line[name] for line in plain], kinds[name]) for name in kinds}
    for name in lines[0]["features"] if lines else ():
        columns[f"feature:{name}"] = pa.array([line["features"][name] for line in lines])
    write_with(path, partial(pq.write_table, pa.table(columns)))


def _row_of(result: Result) -> dict[str, Any]:
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
        "context": result.entry.index,
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
    moments = sorted({name for row in rows for name in row.get("moments", {})})
    named = [f"moment:{name}" for name in moments]
    lines = [
        [
            *(row.get(name) for name in NUMBERS),
            *(row.get("moments", {}).get(name) for name in moments),
            row["certificate_id"],
            json.dumps(row["fields"], ensure_ascii=False),
            row["unserved"],
            " ".join(row["warnings"]),
        ]
        for row in rows
    ]
    header = [*NUMBERS, *named, "certificate_id", "fields", "unserved", "warnings"]
    _write_csv(path, header, lines)
