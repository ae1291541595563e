"""The table of a comparison, over the runs of each sampler: Markdown, CSV and JSON."""

from __future__ import annotations

import csv
import io
import math
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quasir.core.files import make_folder, write_text
from quasir.estimation.estimate import Estimate, Key, Moment
from quasir.metrics import Runs, over_runs

__all__ = ["Comparison"]

UNKNOWN, NONE = "unknown", "-"
BLEU = 5  # longest n-grams of Self-BLEU, as in the paper's tables
WIDTH = 100  # characters in a line of a table, at most; a single wide column may exceed it


@dataclass(frozen=True)
class Cost:
    """What a sample costs: `steps` proposals, after a chain's `burn_in`."""

    steps: int
    burn_in: int = 1000
    wait: int = 0  # mean number of draws with P(x) = 0 before one that a chain can start at

    @property
    def chain(self) -> int:
        """States of a chain that is reset; together with the wait, they cost ``steps``."""
        return max(1, self.steps - self.wait)

    @property
    def rate(self) -> float:
        """The acceptance rate in the paper's sense: samples per proposal, for any sampler."""
        return 1 / self.steps


@dataclass(frozen=True, kw_only=True)
class Stretches:
    """The stretches of one rate: `runs` of them, each of `length` draws, one after another."""

    cost: Cost
    length: int
    runs: int
    n: int  # samples that every sampler gives in a run; 0 where the draws are too few
    wanted: int  # draws that all that was asked for would need


@dataclass(frozen=True)
class Cell:
    """The values of one quantity, one for each run; `empty` is shown where there is none."""

    values: tuple[float, ...]
    ses: tuple[float, ...]  # of estimates: as claimed; NaN where no draw lies above beta
    highs: tuple[float, ...]  # of estimates: the upper ends of their 95 % intervals
    empty: str = NONE

    @classmethod
    def of(cls, numbers: Sequence[float | Estimate], empty: str = NONE) -> Cell:
        estimates = [one for one in numbers if isinstance(one, Estimate)]
        ses, highs = (tuple(float(getattr(e, end)) for e in estimates) for end in ("se", "high"))
        return cls(tuple(map(float, numbers)), ses, highs, empty)

    @property
    def known(self) -> bool:
        return bool(self.values) and all(map(math.isfinite, self.values))

    @property
    def unseen(self) -> int:
        """Runs whose estimate is 0 only because no draw lies above beta."""
        return sum(map(math.isnan, self.ses))

    @property
    def runs(self) -> Runs:
        return over_runs(self.values)

    @property
    def high(self) -> float:
        return max(self.highs, default=math.nan)

    def text(self, scale: float = 1.0) -> str:
        if not self.known:
            return self.empty
        if self.unseen:
            # No silent zero: the largest of the runs' bounds holds for all of them.
            return f"≤ {scale * self.high:.2g}" if math.isfinite(self.high) else UNKNOWN
        if self.high == 0 and not any(self.values):
            return "0, certain"
        runs = self.runs
        mean = f"{scale * runs.mean:.4g}"
        # The same number in every run has a spread of 0, up to rounding.
        sd = 0.0 if runs.sd < 1e-12 * abs(runs.mean) else runs.sd
        return mean if math.isnan(sd) else f"{mean} ± {scale * sd:.2g}"

    def __str__(self) -> str:
        return self.text()

    def columns(self, name: str) -> dict[str, Any]:
        estimated = bool(self.ses) or self.empty == UNKNOWN
        keys = [name, f"{name}_sd"] + [f"{name}_se", f"{name}_high"] * estimated
        if not self.known:
            return dict.fromkeys(keys) | ({name: UNKNOWN} if estimated else {})
        claimed = sum(self.ses) / len(self.ses) if self.ses else math.nan
        numbers = (self.runs.mean, self.runs.sd, claimed, self.high)
        found = dict(zip(keys, numbers, strict=False))
        return {key: value if math.isfinite(value) else None for key, value in found.items()}


@dataclass(frozen=True)
class Row:
    sampler: str  # its name on the command line
    method: str  # its name in the table
    cost: Cost
    n: int
    runs: int
    cells: dict[Key, Cell]  # by quantity: draws_per_sample, Moment(feature), ppl, ..., tvd, kl
    warnings: tuple[tuple[str, ...], ...]  # of each run

    @property
    def acceptance_rate(self) -> float:
        """Samples per proposal; burn-in and the wait for a start count as proposals."""
        return 1 / self.cells["draws_per_sample"].runs.mean

    def to_dict(self) -> dict[str, Any]:
        filled: dict[str, Any] = {"method": self.method, "sampler": self.sampler}
        filled |= {"rate": self.cost.rate, "n": self.n, "runs": self.runs}
        for key, cell in self.cells.items():
            filled |= cell.columns(str(key))
        return filled


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The rows of the table, and what must be known to read them."""

    rows: list[Row]
    pool_size: int
    stretches: list[Stretches]  # of the pool, for each rate
    n: int  # samples of each run that were asked for
    runs: int
    boolean: dict[str, bool]  # whether a feature is shown in per cent
    wanted: dict[str, float]  # the means that the recipe wants
    no_ppl: str = ""  # why no row has a perplexity; empty where some row may have one

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready dictionary; a number that is not finite is None."""
        stretches = [
            {"rate": one.cost.rate, "length": one.length, "runs": one.runs, "n": one.n}
            for one in self.stretches
        ]
        rows = [row.to_dict() | {"warnings": list(map(list, row.warnings))} for row in self.rows]
        asked = {"pool": self.pool_size, "asked": {"n": self.n, "runs": self.runs}}
        return {**asked, "stretches": stretches, "rows": rows, "notes": list(notes(self))}

    def write(self, folder: Path, name: str) -> None:
        """Write the table into a folder, as Markdown and as CSV."""
        make_folder(folder)
        write_text(folder / "samplers.md", samplers_markdown(self, name))
        write_text(folder / "samplers.csv", as_csv([row.to_dict() for row in self.rows]))


def as_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    file = io.StringIO()
    names = dict.fromkeys(name for row in rows for name in row)
    writer = csv.DictWriter(file, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()


def samplers_markdown(found: Comparison, name: str, width: int = WIDTH) -> str:
    def texts(key: Key, scale: float = 1.0) -> list[str]:
        return [row.cells[key].text(scale) for row in found.rows]

    columns: dict[str, list[str]] = {
        "Method": [f"{row.method}{' !' * any(row.warnings)}" for row in found.rows],
        "AR": [f"{row.cost.rate:.4g}" for row in found.rows],
        "n x runs": [f"{row.n:,} x {row.runs}" for row in found.rows],
        "draws/sample": texts("draws_per_sample"),
    }
    for feature, boolean in found.boolean.items():
        scale = 100 if boolean else 1
        target = f" ({scale * found.wanted[feature]:.4g})" if feature in found.wanted else ""
        columns[f"{'% ' * boolean}{feature}{target}"] = texts(Moment(feature), scale)
    columns["PPL"] = texts("ppl")
    columns[f"Self-BLEU-{BLEU}"] = texts("self_bleu", 100)
    columns["% unique"] = texts("unique", 100)
    columns["TVD"], columns["KL"] = texts("tvd"), texts("kl")
    # The notes explain a quantity that no row has.
    columns = {head: cells for head, cells in columns.items() if set(cells) != {NONE}}
    table, below = markdown(columns, 2, width), bullet_list(list(notes(found)), width)
    return f"# Samplers at equal cost: {name}\n\n{table}\n\n{below}\n"


def markdown(columns: Mapping[str, Sequence[str]], keys: int = 1, width: int = WIDTH) -> str:
    """Return columns as Markdown: one table, or several that repeat the first `keys` columns."""
    padded = []
    for name, cells in columns.items():
        # A user's name may contain a bar or a line break.
        safe = [" ".join(text.split()).replace("|", "\\|") for text in (name, *cells)]
        wide = max(map(len, safe))
        padded.append([text.ljust(wide) for text in safe])
    tables = [padded[:keys]]
    for column in padded[keys:]:
        used = 1 + sum(len(other[0]) + 3 for other in (*tables[-1], column))
        if used > width and len(tables[-1]) > keys:
            tables.append(padded[:keys])
        tables[-1] = [*tables[-1], column]
    return "\n\n".join(map(_table, tables))


def _table(columns: list[list[str]]) -> str:
    head, *lines = [f"| {' | '.join(row)} |" for row in zip(*columns, strict=True)]
    rule = "|" + "|".join("-" * (len(column[0]) + 2) for column in columns) + "|"
    return "\n".join([head, rule, *lines])


def bullet_list(notes: Sequence[str], width: int = WIDTH) -> str:
    return "\n".join(
        textwrap.fill(f"- {note}", width, subsequent_indent="  ", break_on_hyphens=False)
        for note in notes
    )


def notes(found: Comparison) -> Iterator[str]:
    """Yield the notes under the table; those that begin with ! are warnings."""

    def those(wanted: Callable[[Row], bool]) -> str:
        return ", ".join(dict.fromkeys(row.method for row in found.rows if wanted(row)))

    for one in found.stretches:
        if one.n < found.n:
            yield (
                f"At {one.cost.rate:.4g}: {one.n:,} samples in a run, not {found.n:,}: that needs "
                f"about {one.wanted:,} draws (--draws), and the pool has {found.pool_size:,}."
            )
    if len({row.n for row in found.rows}) > 1:
        yield "Self-BLEU and the share of unique samples depend on n: compare rows of the same n."
    yield (
        "Mean ± standard deviation over the runs, which share no draw. At one rate all samplers "
        "use the same draws. AR is the rate asked for; draws/sample is the true cost, including "
        "burn-in and the wait for a draw with P(x) > 0."
    )
    if found.no_ppl:
        yield f"PPL is not given: {found.no_ppl}."
    elif names := those(lambda row: not row.cells["ppl"].known):
        yield f"PPL of {names} is not given: the base has not scored draws with P(x) = 0."
    if names := those(lambda row: not row.cells["tvd"].values):
        yield (
            f"TVD and KL of {names} are unknown: the distribution of their samples can be neither "
            "scored nor compared with p (appendix F). QRS estimates its own."
        )
    if names := those(lambda row: row.cells["tvd"].unseen > 0):
        yield (
            f"≤: in some runs of {names} no draw lies above beta: the largest of the runs' 95 % "
            "bounds, and unknown where nothing bounds what an unseen text may add to KL."
        )
    for row in found.rows:
        if warned := [warnings for warnings in row.warnings if warnings]:
            yield (
                f"! {row.method} at {row.cost.rate:.4g}: warnings in {len(warned)} of {row.runs} "
                f"runs, such as: {' '.join(warned[0])}"
            )
