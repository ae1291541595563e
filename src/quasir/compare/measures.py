"""What is measured on the samples of each run, and the rows of the table."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from quasir.certificates.certificate import Certificate
from quasir.compare.methods import Cost, Kept
from quasir.core.arguments import exp_or_inf
from quasir.core.items import Coded, TokenTexts
from quasir.core.types import Items
from quasir.draws.draws import Draws
from quasir.errors import InputError
from quasir.estimation.estimate import Estimate, Key, Moment
from quasir.metrics import Runs, over_runs, self_bleu, unique_share
from quasir.metrics.diversity import read_texts
from quasir.recipes.schema import Recipe, Source

NAMES = {
    "proposal": "proposal",
    "qrs": "QRS",
    "imh": "IMH",
    "imh-reset": "IMH-reset",
    "sir": "SIR",
    "rwmh": "RWMH",
    "rwmh-reset": "RWMH-reset",
}
"""The names of samplers in tables; a chain's is followed by its steps."""
UNKNOWN, NONE = "unknown", "-"
BLEU = 5  # longest n-grams of Self-BLEU, as in the paper's tables
Counter: TypeAlias = Callable[[Items], NDArray[np.int64]]
"""Returns the number of tokens of each item."""


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
    def of(cls, name: str, cost: Cost, n: int, measured: list[Measured]) -> Row:
        """Put the runs of one sampler together."""
        cells: dict[Key, Cell] = {
            quantity: Cell(tuple(run.numbers[quantity] for run in measured))
            for quantity in measured[0].numbers
        }
        for quantity in ("tvd", "kl"):
            estimates = [run.distances[quantity] for run in measured if run.distances]
            cells[quantity] = Cell.of(estimates, UNKNOWN)
        return cls(
            sampler=name,
            method=f"{NAMES[name]}-{cost.steps}" if "mh" in name else NAMES[name],
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
