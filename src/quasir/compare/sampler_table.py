"""What is measured on the samples of each run, and the table: Markdown, CSV and JSON."""

from __future__ import annotations

import csv
import io
import math
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from quasir.certificates.certificate import Certificate
from quasir.core.arguments import exp_or_inf
from quasir.core.files import make_folder, write_text
from quasir.core.items import Coded, TokenTexts
from quasir.core.types import Items
from quasir.draws.draws import Draws
from quasir.errors import InputError
from quasir.estimation.estimate import Estimate, Key, Moment
from quasir.metrics import Runs, over_runs, self_bleu, unique_share
from quasir.metrics.diversity import read_texts
from quasir.recipes.schema import Recipe, Source

UNKNOWN, NONE = "unknown", "-"
BLEU = 5  # longest n-grams of Self-BLEU, as in the paper's tables
WIDTH = 100  # characters in a line of a table, at most; a single wide column may exceed it
Counter: TypeAlias = Callable[[Items], NDArray[np.int64]]
"""Returns the number of tokens of each item."""


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


@dataclass(frozen=True, eq=False)
class Kept:
    """The samples that a sampler keeps from a stretch: their indices, in the sampler's order."""

    indices: NDArray[np.intp]
    proposals: int  # draws used for them, including the burn-in and the wait for a start
    certificate: Certificate | None = None  # their distance to p, where it can be estimated
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Stretches:
    """The stretches of one rate: `runs` of them, each of `length` draws, one after another."""

    cost: Cost
    length: int
    runs: int
    n: int  # samples that every sampler gives in a run; 0 where the draws are too few
    wanted: int  # draws that all that was asked for would need

    def cut(self, pool: Draws) -> list[Draws]:
        """Return the draws of each run."""
        starts = range(0, self.runs * self.length, self.length)
        return [pool.take(np.arange(start, start + self.length)) for start in starts]


@dataclass(frozen=True)
class Cell:
    """The values of one quantity, one for each run; `empty` is shown where there is none."""

    values: tuple[float, ...] = ()
    ses: tuple[float, ...] = ()  # of estimates: as claimed; NaN where no draw lies above beta
    highs: tuple[float, ...] = ()  # of estimates: the upper ends of their 95 % intervals
    empty: str = NONE

    @classmethod
    def of(cls, estimates: Sequence[Estimate], empty: str = NONE) -> Cell:
        """Return the cell of one estimate for each run."""
        values, ses, highs = (
            tuple(float(getattr(e, name)) for e in estimates) for name in ("value", "se", "high")
        )
        return cls(values, ses, highs, empty)

    @property
    def known(self) -> bool:
        """Whether every run has a value."""
        return bool(self.values) and all(map(math.isfinite, self.values))

    @property
    def unseen(self) -> int:
        """Runs whose estimate is 0 only because no draw lies above beta."""
        return sum(map(math.isnan, self.ses))

    @property
    def certain(self) -> bool:
        """Whether the quantity is 0 in every run, without any uncertainty."""
        return self.known and bool(self.highs) and not any(self.values) and self.high == 0

    @property
    def runs(self) -> Runs:
        """Mean and standard deviation over the runs."""
        return over_runs(self.values)

    @property
    def claimed(self) -> float:
        """The mean of the standard errors; NaN where a run has none."""
        return sum(self.ses) / len(self.ses) if self.ses else math.nan

    @property
    def high(self) -> float:
        """The largest of the upper ends of the intervals."""
        return max(self.highs, default=math.nan)

    def text(self, scale: float = 1.0) -> str:
        """Return what the table shows; a scale of 100 gives per cent."""
        if not self.known:
            return self.empty
        if self.unseen:
            # No silent zero: the largest of the runs' bounds holds for all of them.
            return f"≤ {scale * self.high:.2g}" if math.isfinite(self.high) else UNKNOWN
        if self.certain:
            return "0, certain"
        runs = self.runs
        mean = f"{scale * runs.mean:.4g}"
        # The same number in every run has a spread of 0, up to rounding.
        sd = 0.0 if runs.sd < 1e-12 * abs(runs.mean) else runs.sd
        return mean if math.isnan(sd) else f"{mean} ± {scale * sd:.2g}"

    def __str__(self) -> str:
        return self.text()

    def columns(self, name: str) -> dict[str, Any]:
        """Return mean and sd, and for estimates the claimed se and bound, for CSV and JSON."""
        estimated = bool(self.ses) or self.empty == UNKNOWN
        keys = [name, f"{name}_sd"] + [f"{name}_se", f"{name}_high"] * estimated
        if not self.known:
            return dict.fromkeys(keys) | ({name: UNKNOWN} if estimated else {})
        numbers = (self.runs.mean, self.runs.sd, self.claimed, self.high)
        found = dict(zip(keys, numbers, strict=False))
        return {key: value if math.isfinite(value) else None for key, value in found.items()}


@dataclass(frozen=True)
class Measured:
    """The numbers of one run, NaN where one is unknown."""

    numbers: dict[Key, float]
    distances: dict[str, Estimate]  # tvd and kl; empty where they are unknown
    warnings: tuple[str, ...]


def measure(
    items: Items,
    features: Mapping[str, NDArray[Any]],
    proposals: float,
    ppl: float,
    certificate: Certificate | None = None,
    warnings: tuple[str, ...] = (),
) -> Measured:
    """Measure one run's samples; `ppl` is their perplexity, NaN where it is not known."""
    n = len(items)
    numbers: dict[Key, float] = {"draws_per_sample": proposals / n}
    for name, column in features.items():
        numbers[Moment(name)] = float(np.asarray(column, np.float64).mean())
    numbers["ppl"] = ppl
    numbers["self_bleu"] = self_bleu(items, BLEU) if n > 1 and _has_words(items) else math.nan
    numbers["unique"] = unique_share(items)
    distances = {} if certificate is None else {"tvd": certificate.tvd, "kl": certificate.kl}
    return Measured(numbers, distances, warnings)


def _has_words(items: Items) -> bool:
    """Return whether items are texts: Self-BLEU is defined for no others."""
    if isinstance(items, Coded):
        return all(isinstance(item, str) for item in items.support)
    return hasattr(items[0], "text") or isinstance(items[0], str)


def measure_kept(stretch: Draws, kept: Kept, count: Counter | None) -> Measured:
    """Measure the samples that a sampler kept of a stretch."""
    samples, ppl = stretch.take(kept.indices), math.nan
    log_base, tokens = samples.log_base, None if count is None else count(samples.items)
    # The base may not have scored all stored draws.
    if log_base is not None and tokens is not None and tokens.any():
        if np.isfinite(log_base).all():
            ppl = exp_or_inf(float(-log_base.sum() / tokens.sum()))
    items = kept.indices if samples.items is None else samples.items
    return measure(items, samples.features, kept.proposals, ppl, kept.certificate, kept.warnings)


def token_counter(recipe: Recipe | None, items: Items) -> tuple[Counter | None, str]:
    """Return a counter of the base's tokens, or None and the reason why there is none.

    Tokenizers are loaded only where the proposal has another model than the base: to see whether
    they are the same, and if not, to encode the texts again.
    """
    if recipe is None:
        return None, "the run has no recipe that names its base"
    name = recipe.base.model
    if recipe.base.server is not None:
        return None, "the base is on a server"
    if name is None or not isinstance(items, TokenTexts):
        return None, "the base is no language model, and has no tokens"
    parts = [part for part in recipe.proposal.parts(Source) if part.mixture is None]
    models = {part.round_trip.back if part.round_trip else part.model or name for part in parts}
    others, limit, encode = sorted(models - {name}), recipe.max_tokens, None
    if others:
        from quasir.guides.vocabulary import same_tokenizer
        from quasir.text.loading import load_tokenizer

        try:
            tokenizer = load_tokenizer(name, recipe.base.revision)
            if not all(same_tokenizer(load_tokenizer(other), tokenizer) for other in others):
                encode = tokenizer
        except InputError as error:
            return None, f"the proposal may have other tokens than the base, and {error}"

    def count(texts: Items) -> NDArray[np.int64]:
        if encode is None:
            lengths = np.diff(texts.offsets)
        else:
            ids = encode(read_texts(texts), add_special_tokens=False).input_ids
            lengths = np.array([len(one) for one in ids], np.int64)
        # A text of `limit` tokens was cut and has no end token, as in `quasir.metrics.perplexity`.
        ends = (lengths < limit) & (encode is None or encode.eos_token_id is not None)
        counts: NDArray[np.int64] = lengths + ends
        return counts

    return count, ""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One sampler at one rate."""

    sampler: str  # its name on the command line
    method: str  # its name in the table
    cost: Cost
    n: int
    runs: int
    cells: dict[Key, Cell]  # by quantity: draws_per_sample, Moment(feature), ppl, ..., tvd, kl
    warnings: tuple[tuple[str, ...], ...]  # of each run

    @classmethod
    def of(cls, sampler: str, method: str, cost: Cost, n: int, measured: list[Measured]) -> Row:
        """Put the runs of one sampler together."""
        cells: dict[Key, Cell] = {
            quantity: Cell(tuple(run.numbers[quantity] for run in measured))
            for quantity in measured[0].numbers
        }
        for quantity in ("tvd", "kl"):
            estimates = [run.distances[quantity] for run in measured if run.distances]
            cells[quantity] = Cell.of(estimates, UNKNOWN)
        return cls(
            sampler=sampler,
            method=method,
            cost=cost,
            n=n,
            runs=len(measured),
            cells=cells,
            warnings=tuple(run.warnings for run in measured),
        )

    @property
    def acceptance_rate(self) -> float:
        """Samples per proposal; burn-in and the wait for a start count as proposals."""
        return 1 / self.cells["draws_per_sample"].runs.mean

    def to_dict(self) -> dict[str, Any]:
        """Return a flat JSON-ready dictionary."""
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
    runs: int  # runs that were asked for
    boolean: dict[str, bool]  # whether a feature is shown in per cent
    wanted: dict[str, float]  # the means that the recipe wants
    no_ppl: str = ""  # why no row has a perplexity; empty where some row may have one


def write_comparison(folder: Path, name: str, found: Comparison) -> dict[str, Path]:
    """Write the table into a folder; return the files by name."""
    make_folder(folder)
    files = {name: folder / name for name in ("samplers.csv", "samplers.md")}
    write_text(files["samplers.csv"], as_csv([row.to_dict() for row in found.rows]))
    table = samplers_markdown(found, f"Samplers at equal cost: {name}")
    write_text(files["samplers.md"], table)
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
    return [*_size_notes(found), *_cell_notes(found)] + [
        f"! {row.method} at {row.cost.rate:.4g}: warnings in {len(warned)} of {_runs(row.runs)}, "
        f"such as: {' '.join(warned[0])}"
        for row in found.rows
        if (warned := [warnings for warnings in row.warnings if warnings])
    ]


def _size_notes(found: Comparison) -> Iterator[str]:
    small = [one for one in found.stretches if (one.n, one.runs) != (found.n, found.runs)]
    for one in small:
        given = f"{_runs(one.runs)} of {one.n:,} samples, not {found.runs} of {found.n:,}"
        why = f"each run takes {one.length:,} draws"
        if not one.n:
            given, why = "nothing", f"some sampler gets no sample from {one.length:,} draws"
        yield f"At {one.cost.rate:.4g}: {given}, since {why}."
    if small:
        yield (
            f"The pool has {found.pool_size:,} draws; all that was asked for needs about "
            f"{max(one.wanted for one in small):,}: draw that many (--draws)."
        )
    if len({row.n for row in found.rows}) > 1:
        yield "Self-BLEU and the share of unique samples depend on n: compare rows of the same n."
    yield (
        "Mean ± standard deviation over the runs, which share no draw. At one rate all samplers "
        "use the same draws. AR is the rate asked for; draws/sample is the true cost, including "
        "burn-in and the wait for a draw with P(x) > 0."
    )


def _cell_notes(found: Comparison) -> Iterator[str]:
    """Say why a cell has no number, or what it has instead."""

    def those(wanted: Callable[[Row], bool]) -> str:
        return ", ".join(dict.fromkeys(row.method for row in found.rows if wanted(row)))

    if found.no_ppl:
        yield f"PPL is not given: {found.no_ppl}."
    elif names := those(lambda row: not row.cells["ppl"].known):
        yield f"PPL of {names} is not given: the base has not scored draws with P(x) = 0."
    if names := those(
        lambda row: any(isinstance(k, Moment) and not c.known for k, c in row.cells.items())
    ):
        yield (
            f"Some moments of {names} are missing: their features are expensive and were not "
            "computed where P(x) = 0."
        )
    if not any(row.cells["self_bleu"].known for row in found.rows):
        yield f"Self-BLEU-{BLEU} is not given: it needs two or more texts."
    if names := those(lambda row: not row.cells["tvd"].values):
        yield (
            f"TVD and KL of {names} are unknown: the distribution of their samples can be neither "
            "scored nor compared with p (appendix F). QRS estimates its own."
        )
    if names := those(lambda row: row.cells["tvd"].unseen > 0):
        yield (
            f"≤: in some runs of {names} no draw lies above beta, so TVD and KL are 0 on those "
            "draws; the table shows the largest of the runs' 95 % bounds."
        )
    if names := those(lambda row: row.cells["tvd"].certain):
        yield f"0, certain: no item, drawn or not, can have a ratio above the beta of {names}."
    if unbounded := [row for row in found.rows if math.isinf(row.cells["kl"].high)]:
        at = dict.fromkeys(f"{row.method} at {row.cost.rate:.4g}" for row in unbounded)
        yield (
            f"KL of {', '.join(at)} is unknown in some runs: nothing bounds what a text that was "
            "not drawn may add to it at beta = 0."
        )


def _runs(runs: int) -> str:
    return f"{runs} run{'s' * (runs > 1)}"
