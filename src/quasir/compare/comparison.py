"""Samplers compared at equal cost on stored draws (appendices F and G of the paper)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from quasir.compare.measures import Counter, Measured, Row, measure_kept, token_counter
from quasir.compare.methods import (
    METHODS,
    WALKS,
    Cost,
    Stretches,
    count_possible,
    keep_first,
    stretches_for,
)
from quasir.core.arguments import as_rate, check_count, check_optional_count
from quasir.core.progress import Progress, Report, progress_of
from quasir.core.streams import Purpose, derived_seed
from quasir.draws.draws import Draws
from quasir.errors import InputError
from quasir.recipes.schema import Recipe

SAMPLERS = tuple(METHODS)
WalkRunner: TypeAlias = Callable[..., tuple[int, list["Measured"]]]
"""Runs a random walk from stored draws, as `Walks` does: samples of a run, and what each gave."""


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


def compare(
    pool: Draws,
    samplers: Sequence[str] = ("qrs", "imh", "imh-reset"),
    rates: Sequence[float] = (1e-1, 1e-3),
    n: int = 1000,
    runs: int = 10,
    *,
    burn_in: int = 1000,
    recipe: Recipe | None = None,
    walk: WalkRunner | None = None,
    walk_steps: int | None = None,
    progress: Progress = False,
) -> Comparison:
    """Run samplers over disjoint stretches of stored draws, and measure what they keep.

    Parameters
    ----------
    pool : Draws
    samplers : sequence of str
        Of `SAMPLERS`; the proposal itself is always a row.
    rates : sequence of float
        Samples per proposal; rounded to 1/k for whole k, since a chain keeps one state in k.
    n, runs : int
        Samples of each run, and runs; fewer where the pool is too small, see `stretches_for`.
    burn_in : int
        Proposals before the first sample of a chain that is not reset.
    recipe : Recipe, optional
        Says which means are wanted, and how to count tokens for the perplexity.
    walk : callable, optional
        Runs the random walks, which need models because their edits are not stored draws.
    walk_steps : int, optional
        At most so many steps for all runs of one random walk at one rate, since each step calls
        the models. Its runs then have fewer samples, but at least one.
    progress : bool or callable

    Examples
    --------
    >>> from scipy import stats
    >>> import quasir as qr
    >>> target, proposal = qr.from_scipy(stats.poisson(11)), qr.from_scipy(stats.poisson(10))
    >>> pool = qr.draw(target, proposal, 30_000, seed=0)
    >>> found = compare(pool, ["qrs", "imh-reset"], [0.1], n=200, runs=10)
    >>> for row in found.rows:
    ...     print(row.method, row.n, row.runs, row.cells["draws_per_sample"], row.cells["tvd"])
    proposal 200 10 1 ± 0 0.124 ± 0.0012
    QRS 200 10 10 ± 0 ≤ 0.0067
    IMH-reset-10 200 10 10 ± 0 unknown
    """
    check_count("n", n)
    check_count("runs", runs)
    check_count("burn_in", burn_in, least=0)
    check_optional_count("walk_steps", walk_steps)
    names = list(dict.fromkeys(samplers))
    check_names(names)
    if walk is None and (walks := [name for name in names if name in WALKS]):
        raise InputError(
            f"{walks[0]} edits texts with a masked language model, and none was given: name one "
            "with --editor, a folder or a hub id, or leave it out."
        )
    every = stretches_for(pool, _costs(rates, burn_in, pool), names, n=n, runs=runs)
    count, no_ppl = token_counter(recipe, pool.items)
    tasks = [(_within(walk_steps, one, name), name) for one in every for name in names if one.n]
    report = progress_of(progress, "samples measured and steps walked")
    return Comparison(
        rows=[*_proposal_row(pool, every[0], n, count), *_rows(pool, tasks, count, walk, report)],
        pool_size=len(pool),
        stretches=every,
        n=n,
        runs=runs,
        boolean={name: column.dtype == bool for name, column in pool.features.items()},
        wanted={} if recipe is None else dict(recipe.want),
        no_ppl=no_ppl,
    )


def check_names(names: Sequence[str]) -> None:
    """Refuse a sampler that is not known."""
    wrong = [name for name in names if name not in SAMPLERS]
    if wrong:
        raise InputError(f"no sampler is called {wrong[0]!r}: there are {', '.join(SAMPLERS)}.")


def sample_cost(rate: float, burn_in: int, possible: float = 1.0) -> Cost:
    """Return the cost of a sample at a rate; `possible` is the share of draws with P(x) > 0."""
    return Cost(round(1 / as_rate(rate)), burn_in, round(1 / possible) - 1)


def _costs(rates: Sequence[float], burn_in: int, pool: Draws) -> list[Cost]:
    possible = count_possible(pool) / len(pool)
    costs = list(dict.fromkeys(sample_cost(rate, burn_in, possible or 1.0) for rate in rates))
    if not costs:
        raise InputError("there are no rates to compare at: give at least one, such as 0.1.")
    if not possible:
        raise InputError(
            f"none of the {len(pool):,} draws had P(x) > 0, so no sampler can keep a sample: "
            "use a proposal that reaches the target's support, or draw more."
        )
    return costs


def _steps(cost: Cost, name: str) -> tuple[int, int]:
    """Return the steps of a walk's run before its first sample, and for each sample."""
    return (0, cost.chain) if name == "rwmh-reset" else (cost.burn_in, cost.steps)


def _within(walk_steps: int | None, stretches: Stretches, name: str) -> Stretches:
    """Return the stretches of a sampler, with fewer samples where a walk has too few steps."""
    if walk_steps is None or name not in WALKS:
        return stretches
    burn_in, each = _steps(stretches.cost, name)
    most = max(1, (walk_steps // stretches.runs - burn_in) // each)
    return replace(stretches, n=min(stretches.n, most))


def _effort(stretches: Stretches, name: str) -> int:
    """Return the steps of a walk, which are expensive; the samples of any other sampler."""
    burn_in, each = _steps(stretches.cost, name) if name in WALKS else (0, 1)
    return stretches.runs * (burn_in + stretches.n * each)


def run_seed(seed: int, steps: int, run: int) -> int:
    """Return the seed of a run's own random choices at a rate; the stored draws have theirs."""
    return derived_seed(seed, Purpose.COMPARE, steps, run)


def _proposal_row(
    pool: Draws, stretches: Stretches, n: int, count: Counter | None
) -> Iterator[Row]:
    """Yield the row of the proposal: the first draws of the first rate's stretches."""
    size = stretches.n or min(n, stretches.length)
    if size:
        parts = stretches.cut(pool)
        measured = [measure_kept(part, keep_first(part, size), count) for part in parts]
        yield Row.of("proposal", Cost(1, 0), size, measured)


def _rows(
    pool: Draws,
    tasks: Sequence[tuple[Stretches, str]],
    count: Counter | None,
    walk: WalkRunner | None,
    report: Report,
) -> Iterator[Row]:
    """Make the rows one after another, and report the progress over all of them."""
    total, done = sum(_effort(*task) for task in tasks), 0
    for stretches, name in tasks:
        before, done = done, done + _effort(stretches, name)
        n, cost, parts = stretches.n, stretches.cost, stretches.cut(pool)
        keep = METHODS[name].keep
        if keep is None:
            assert walk is not None

            def within(_: int, __: int, steps: int, before: int = before, end: int = done) -> None:
                report(min(before + steps, end), total, min(before + steps, end))

            seed = run_seed(pool.seed, cost.steps, WALKS.index(name))
            n, measured = walk(name=name, cost=cost, n=n, seed=seed, stretches=parts, report=within)
        else:
            measured = []
            for run, part in enumerate(parts):
                seed = run_seed(pool.seed, cost.steps, len(WALKS) + run)
                measured.append(measure_kept(part, keep(part, n, cost, seed), count))
        yield Row.of(name, cost, n, measured)
        report(done, total, done)
