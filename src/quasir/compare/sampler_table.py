"""A comparison as a table with notes, as CSV, as JSON, and as the figure `fig:qrs_vs_imh`."""

from __future__ import annotations

import csv
import io
import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from quasir.certificates.figures import COLOURS
from quasir.compare.comparison import Comparison
from quasir.compare.measures import BLEU, NAMES, NONE, Row
from quasir.core.files import make_folder, write_text, write_with
from quasir.estimation.estimate import Key, Moment

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 100  # characters in a line of a table, at most; a single wide column may exceed it
ACROSS = 3  # panels in a row
MARKERS = "osD^vP"
APART = 1.05  # points at one rate are moved apart by this factor, so that their bars do not overlap


def write_comparison(folder: Path, name: str, found: Comparison) -> dict[str, Path]:
    """Write the tables and the figure into a folder; return the files by name."""
    make_folder(folder)
    files = {name: folder / name for name in ("samplers.csv", "samplers.md", "samplers.png")}
    write_text(files["samplers.csv"], as_csv([row.to_dict() for row in found.rows]))
    table = samplers_markdown(found, f"Samplers at equal cost: {name}")
    write_text(files["samplers.md"], table)
    figure = plot_comparison(found)
    write_with(files["samplers.png"], lambda path: figure.savefig(path, dpi=160, format="png"))
    return files


def as_json(found: Comparison) -> dict[str, Any]:
    """Return a comparison as a JSON-ready dictionary; a number that is not finite is None."""
    return {
        "pool": found.pool_size,
        "asked": {"n": found.n, "runs": found.runs},
        "stretches": [
            {"rate": one.cost.rate, "length": one.length, "runs": one.runs, "n": one.n}
            for one in found.stretches
        ],
        "rows": [
            row.to_dict() | {"warnings": [list(warnings) for warnings in row.warnings]}
            for row in found.rows
        ],
        "notes": notes(found),
    }


def samplers_markdown(found: Comparison, title: str, width: int = WIDTH) -> str:
    """Return the table of samplers and its notes, as Markdown."""

    def texts(key: Key, scale: float = 1.0) -> list[str]:
        return [row.cells[key].text(scale) for row in found.rows]

    columns: dict[str, list[str]] = {
        "Method": [f"{row.method}{' !' * any(row.warnings)}" for row in found.rows],
        "AR": [f"{row.cost.rate:.4g}" for row in found.rows],
        "n x runs": [f"{row.n:,} x {row.runs}" for row in found.rows],
        "draws/sample": texts("draws_per_sample"),
    }
    for name, boolean in found.boolean.items():
        scale = 100 if boolean else 1
        target = f" ({scale * found.wanted[name]:.4g})" if name in found.wanted else ""
        columns[f"{'% ' * boolean}{name}{target}"] = texts(Moment(name), scale)
    columns["PPL"] = texts("ppl")
    columns[f"Self-BLEU-{BLEU}"] = texts("self_bleu", 100)
    columns["% unique"] = texts("unique", 100)
    columns["TVD"], columns["KL"] = texts("tvd"), texts("kl")
    # The notes explain a quantity that no row has.
    columns = {name: cells for name, cells in columns.items() if set(cells) != {NONE}}
    table, below = markdown(columns, 2, width), bullet_list(notes(found), width)
    return f"# {title}\n\n{table}\n\n{below}\n"


def markdown(columns: Mapping[str, Sequence[str]], keys: int = 1, width: int = WIDTH) -> str:
    """Return columns as Markdown: one table, or several that repeat the first `keys` columns."""
    safe = {_safe(name): [_safe(cell) for cell in cells] for name, cells in columns.items()}
    wide = {name: max(map(len, [name, *cells])) for name, cells in safe.items()}
    tables = _part(wide, keys, width)
    # Keep that number of tables, but make their widths about equal.
    while len(evener := _part(wide, keys, width - 1)) == len(tables) and width > 1:
        tables, width = evener, width - 1
    return "\n\n".join(_table({name: safe[name] for name in table}, wide) for table in tables)


def _part(wide: Mapping[str, int], keys: int, width: int) -> list[list[str]]:
    """Part columns into tables of at most this width, each with a column besides the keys."""
    first, rest = list(wide)[:keys], list(wide)[keys:]
    tables = [first]
    for name in rest:
        used = 1 + sum(wide[other] + 3 for other in (*tables[-1], name))
        if used > width and len(tables[-1]) > keys:
            tables.append(first)
        tables[-1] = [*tables[-1], name]
    return tables


def _table(columns: Mapping[str, Sequence[str]], wide: Mapping[str, int]) -> str:
    rows = [list(columns), *zip(*columns.values(), strict=True)]
    padded = [
        [cell.ljust(wide[name]) for name, cell in zip(columns, row, strict=True)] for row in rows
    ]
    head, *lines = [f"| {' | '.join(row)} |" for row in padded]
    rule = "|" + "|".join("-" * (wide[name] + 2) for name in columns) + "|"
    return "\n".join([head, rule, *lines])


def _safe(text: str) -> str:
    """Return text that a cell can hold: a user's name may contain a bar or a line break."""
    return " ".join(text.split()).replace("|", "\\|")


def bullet_list(notes: Sequence[str], width: int = WIDTH) -> str:
    """Return notes as a Markdown list, wrapped."""
    return "\n".join(
        textwrap.fill(f"- {note}", width, subsequent_indent="  ", break_on_hyphens=False)
        for note in notes
    )


def as_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows as CSV with the columns of all rows; None gives an empty field."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    file = io.StringIO()
    writer = csv.DictWriter(file, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()


def notes(found: Comparison) -> list[str]:
    """Return the notes under the table; those that begin with ! are warnings."""
    return [*_size_notes(found), *_column_notes(found), *_distance_notes(found)] + [
        f"! {row.method} at {row.cost.rate:.4g}: warnings in {len(warned)} of {_runs(row.runs)}, "
        f"such as: {' '.join(warned[0])}"
        for row in found.rows
        if (warned := [warnings for warnings in row.warnings if warnings])
    ]


def _size_notes(found: Comparison) -> Iterator[str]:
    small = [one for one in found.stretches if (one.n, one.runs) != (found.n, found.runs)]
    for one in small:
        rate = f"{one.cost.rate:.4g}"
        if one.n:
            yield (
                f"At {rate}: {_runs(one.runs)} of {one.n:,} samples, not {found.runs} of "
                f"{found.n:,}: each run takes {one.length:,} draws."
            )
        else:
            yield (
                f"At {rate}: nothing, since one of the samplers gets no sample from {one.length:,} "
                "draws (a chain's burn-in alone may be as long)."
            )
    if small:
        yield (
            f"The pool has {found.pool_size:,} draws; all that was asked for needs about "
            f"{max(one.wanted for one in small):,}: draw that many (--draws)."
        )
    if len({row.n for row in found.rows}) > 1:
        yield (
            f"Self-BLEU-{BLEU} and the share of unique samples depend on n: compare rows of the "
            "same n."
        )
    yield (
        "Mean ± standard deviation over the runs. Each rate uses the whole pool. At one rate, all "
        "samplers use the same draws in a run, and no two runs share a draw. The proposal's row "
        "is measured on the first n draws of each run at the first rate."
    )


def _column_notes(found: Comparison) -> Iterator[str]:
    yield (
        "AR is the rate asked for; draws/sample is the true cost of a sample, including burn-in "
        "and the wait for a draw with P(x) > 0 that a chain can start at."
    )
    reset = [row for row in found.rows if row.sampler.endswith("-reset") and row.cost.wait]
    if reset:
        chains = {row.cost.steps: row.cost.chain for row in reset}
        lengths = ", ".join(f"{chain:,} for {steps:,}" for steps, chain in chains.items())
        yield (
            f"One draw in {reset[0].cost.wait + 1:,} has P(x) > 0. A chain that is reset has fewer "
            "steps, so that with its wait it costs no more than other samplers: it has "
            f"{lengths} proposals per sample."
        )
    if any(name in found.boolean for name in found.wanted):
        yield "In brackets after a feature: the mean that the recipe wants."
    if found.no_ppl:
        yield f"PPL is not given: {found.no_ppl}."
    elif rows := [row for row in found.rows if not row.cells["ppl"].known]:
        yield (
            f"PPL of {_names(rows)} is not given: the base has not scored the draws with "
            "P(x) = 0 that are among them."
        )
    partial = [
        row
        for row in found.rows
        if any(not cell.known for key, cell in row.cells.items() if isinstance(key, Moment))
    ]
    if partial:
        yield (
            f"Some moments of {_names(partial)} are missing: their features are expensive and "
            "were not computed where P(x) = 0."
        )
    if any(row.cells["self_bleu"].known for row in found.rows):
        yield f"Self-BLEU-{BLEU} is over words, in per cent."
    else:
        yield f"Self-BLEU-{BLEU} is not given: it needs two or more texts."


def _distance_notes(found: Comparison) -> Iterator[str]:
    if rows := [row for row in found.rows if not row.cells["tvd"].values]:
        yield (
            f"TVD and KL of {_names(rows)} are unknown: the distribution of their samples tends to "
            "p with longer chains, or more draws to resample, but can be neither scored nor "
            "compared with p (appendix F). QRS estimates its own."
        )
    if unseen := [row for row in found.rows if row.cells["tvd"].unseen]:
        yield (
            f"≤: in some runs of {_names(unseen)} no draw lies above beta, so TVD and KL are 0 on "
            "those draws; the table shows the largest of the runs' 95 % bounds."
        )
    if certain := [row for row in found.rows if row.cells["tvd"].certain]:
        yield (
            "0, certain: no item, drawn or not, can have a ratio above the beta of "
            f"{_names(certain)}."
        )
    if unbounded := [row for row in found.rows if math.isinf(row.cells["kl"].high)]:
        at = dict.fromkeys(f"{row.method} at {row.cost.rate:.4g}" for row in unbounded)
        yield (
            f"KL of {', '.join(at)} is unknown in some runs: nothing bounds what a text that was "
            "not drawn may add to it at beta = 0."
        )


def _names(rows: list[Row]) -> str:
    return ", ".join(dict.fromkeys(row.method for row in rows))


def _runs(runs: int) -> str:
    return f"{runs} run{'s' * (runs > 1)}"


def plot_comparison(found: Comparison) -> Figure:
    """Draw each quantity against samples per proposal, with the standard deviation over runs."""
    from matplotlib.figure import Figure

    panels: list[tuple[Key, str, float]] = [
        (Moment(name), f"{'% ' * boolean}{name}", 100.0 if boolean else 1.0)
        for name, boolean in found.boolean.items()
    ]
    panels += [
        ("unique", "% unique", 100.0),
        ("self_bleu", f"Self-BLEU-{BLEU}, words (%)", 100.0),
        ("ppl", "PPL under the base", 1.0),
        ("tvd", "TVD to p, where known", 1.0),
    ]
    panels = [panel for panel in panels if any(row.cells[panel[0]].known for row in found.rows)]
    across, down = min(ACROSS, len(panels)), -(-len(panels) // ACROSS)
    figure = Figure(figsize=(3.3 * across, 2.7 * down + 0.4), layout="constrained")
    axes = figure.subplots(down, across, squeeze=False, sharex=True).ravel()
    for ax, (quantity, label, scale) in zip(axes, panels, strict=False):
        _draw(ax, found, quantity, scale)
        ax.set(ylabel=label, xlabel="Samples per proposal")
        ax.tick_params(labelbottom=True)
        ax.grid(alpha=0.25)
        # Bars may reach below 0, where no value can be; the axis of a distance begins at 0.
        least = -5.0 if scale == 100 else -np.inf
        low, high = ax.get_ylim()
        ax.set_ylim(bottom=-0.05 * high if quantity == "tvd" else max(low, least))
        wanted = found.wanted.get(quantity.feature) if isinstance(quantity, Moment) else None
        if wanted is not None:
            ax.axhline(scale * wanted, color="black", linewidth=0.8, linestyle="--")
    for ax in axes[len(panels) :]:
        ax.remove()
    handles: dict[str, Artist] = {}
    for ax in figure.axes:
        for handle, name in zip(*ax.get_legend_handles_labels(), strict=True):
            handles.setdefault(name, handle)
    style: dict[str, Any] = {"loc": "outside upper center", "frameon": False, "fontsize": "small"}
    figure.legend(handles.values(), handles.keys(), ncols=len(handles), **style)
    return figure


def _draw(ax: Axes, found: Comparison, quantity: Key, scale: float) -> None:
    """Draw one quantity: a line for each sampler, open triangles for bounds, a star for q."""
    ax.set_xscale("log")
    samplers = list(dict.fromkeys(row.sampler for row in found.rows if row.sampler != "proposal"))
    for i, sampler in enumerate(["proposal", *samplers], start=-1):
        known = [r for r in found.rows if r.sampler == sampler and r.cells[quantity].known]
        known.sort(key=lambda row: row.acceptance_rate)
        rows = [row for row in known if not row.cells[quantity].unseen]
        bounds = [row for row in known if row.cells[quantity].unseen]
        alone = sampler == "proposal"
        apart = 1.0 if alone else APART ** (i - (len(samplers) - 1) / 2)
        colour = "black" if alone else COLOURS[i % len(COLOURS)]
        sds = [row.cells[quantity].runs.sd for row in rows]
        ax.errorbar(
            [row.acceptance_rate * apart for row in rows],
            [scale * row.cells[quantity].runs.mean for row in rows],
            [0.0 if math.isnan(sd) else scale * sd for sd in sds],
            label=NAMES[sampler],
            color=colour,
            marker="*" if alone else MARKERS[i % len(MARKERS)],
            markersize=7 if alone else 4,
            linewidth=1.2,
            capsize=2,
        )
        ax.plot(
            [row.acceptance_rate * apart for row in bounds],
            [scale * row.cells[quantity].high for row in bounds],
            "v",
            color=colour,
            markerfacecolor="none",
            label="at most (95 %)" if bounds else None,
        )
