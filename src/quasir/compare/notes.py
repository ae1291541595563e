"""The notes under the table: sizes, costs, what is unknown and why."""

from __future__ import annotations

import math
from collections.abc import Iterator

from quasir.compare.comparison import Comparison
from quasir.compare.measures import BLEU
from quasir.compare.rows import Row
from quasir.estimation.quantities import Moment

__all__ = ["notes_of"]


def notes_of(found: Comparison) -> list[str]:
    """Return the notes under the table; those that begin with ! are doubts."""
    return [*_sizes(found), *_columns(found), *_unknown(found), *_doubts(found)]


def _sizes(found: Comparison) -> Iterator[str]:
    asked = found.n, found.runs
    small = [one for one in found.stretches if (one.n, one.runs) != asked]
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


def _columns(found: Comparison) -> Iterator[str]:
    yield (
        "AR is the rate asked for; draws/sample is the true cost of a sample, including burn-in "
        "and the wait for a draw with P(x) > 0 that a chain can start at."
    )
    yield from _waits(found)
    if any(name in found.boolean for name in found.wanted):
        yield "In brackets after a feature: the mean that the recipe wants."
    if found.no_ppl:
        yield f"PPL is not given: {found.no_ppl}."
    else:
        rows = [row for row in found.rows if not row.cells["ppl"].known]
        if rows:
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


def _waits(found: Comparison) -> Iterator[str]:
    reset = [row for row in found.rows if row.sampler.endswith("-reset") and row.cost.wait]
    if reset:
        chains = {row.cost.steps: row.cost.chain for row in reset}
        lengths = ", ".join(f"{chain:,} for {steps:,}" for steps, chain in chains.items())
        yield (
            f"One draw in {reset[0].cost.wait + 1:,} has P(x) > 0. A chain that is reset has fewer "
            "steps, so that with its wait it costs no more than other samplers: it has "
            f"{lengths} proposals a sample."
        )


def _unknown(found: Comparison) -> Iterator[str]:
    rows = [row for row in found.rows if not row.cells["tvd"].values]
    if rows:
        yield (
            f"TVD and KL of {_names(rows)} are unknown: the law of their samples tends to p with "
            "longer chains, or more draws to resample, but can be neither scored nor compared "
            "with p (appendix F). QRS estimates its own."
        )
    unseen = [row for row in found.rows if row.cells["tvd"].unseen]
    if unseen:
        yield (
            f"≤: in some runs of {_names(unseen)} no draw lies above beta, so TVD and KL are 0 on "
            "those draws; the table shows the largest of the runs' 95 % bounds."
        )
    certain = [row for row in found.rows if row.cells["tvd"].certain]
    if certain:
        yield (
            "0, certain: no item, drawn or not, can have a ratio above the beta of "
            f"{_names(certain)}."
        )
    unbounded = [row for row in found.rows if math.isinf(row.cells["kl"].high)]
    if unbounded:
        at = dict.fromkeys(f"{row.method} at {row.cost.rate:.4g}" for row in unbounded)
        yield (
            f"KL of {', '.join(at)} is unknown in some runs: nothing bounds what a text that was "
            "not drawn may add to it at beta = 0."
        )


def _doubts(found: Comparison) -> Iterator[str]:
    for row in found.rows:
        doubted = [doubts for doubts in row.doubts if doubts]
        if doubted:
            yield (
                f"! {row.method} at {row.cost.rate:.4g}: doubts in {len(doubted)} of "
                f"{_runs(row.runs)}, such as: {' '.join(doubted[0])}"
            )


def _names(rows: list[Row]) -> str:
    return ", ".join(dict.fromkeys(row.method for row in rows))


def _runs(runs: int) -> str:
    return f"{runs} run{'s' * (runs > 1)}"
