"""The comparison of samplers at equal cost (appendices F and G of the paper)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from quasir.compare.methods import METHODS, WALKS, Cost
from quasir.compare.rows import Row, WalkRunner, proposal_row, replay_row, walk_row
from quasir.compare.stretches import Stretches, stretches_for
from quasir.compare.tokens import Counter, token_counter
from quasir.core.arguments import as_rate, check_count
from quasir.core.progress import Progress, Report, progress_of
from quasir.draws.draws import Draws
from quasir.errors import InputError
from quasir.recipes.schema import Recipe

__all__ = ["SAMPLERS", "Comparison", "compare", "cost_of"]

SAMPLERS = (*METHODS, *WALKS)


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The rows of the table, and what must be known to read them.

    Attributes
    ----------
    rows : list of Row
    pool_size : int
        Draws in the pool.
    stretches : list of Stretches
        The draws of each run, one entry for each rate.
    n, runs : int
        Samples a run, and runs, as asked for.
    boolean : dict
        Whether each feature is true or false, and so shown in per cent.
    wanted : dict
        The means that the recipe wants, where it wants any.
    no_ppl : str
        Why no row has a perplexity; empty where some row may have one.
    """

    rows: list[Row]
    pool_size: int
    stretches: list[Stretches]
    n: int
    runs: int
    boolean: dict[str, bool]
    wanted: dict[str, float]
    no_ppl: str = ""


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
        Samples a run, and runs; fewer where the pool is too small, see `stretches_for`.
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
    ...     print(row.method, row.n, row.runs, row.cells["draws_a_sample"], row.cells["tvd"])
    proposal 200 10 1 ± 0 0.124 ± 0.0012
    QRS 200 10 10 ± 0 ≤ 0.0067
    IMH-reset-10 200 10 10 ± 0 unknown
    """
    check_count("n", n)
    check_count("runs", runs)
    if walk_steps is not None:
        check_count("walk_steps", walk_steps)
    names = _checked(samplers, walk)
    costs = _costs(rates, burn_in, pool)
    every = stretches_for(pool, costs, names, n=n, runs=runs)
    count, no_ppl = token_counter(recipe, pool.items)
    tasks = [
        _Task.within(walk_steps, stretches, name)
        for stretches in every
        for name in names
        if stretches.n
    ]
    report = progress_of(progress, "samples measured and steps walked")
    first = proposal_row(pool, every[0], n, count)
    return Comparison(
        rows=[*first, *_rows(pool, tasks, count=count, walk=walk, report=report)],
        pool_size=len(pool),
        stretches=every,
        n=n,
        runs=runs,
        boolean={name: column.dtype == bool for name, column in pool.features.items()},
        wanted={} if recipe is None else dict(recipe.want),
        no_ppl=no_ppl,
    )


def cost_of(rate: float, burn_in: int, possible: float = 1.0) -> Cost:
    """Return the cost of a sample at a rate, in a whole number of proposals.

    `possible` is the share of draws with P(x) > 0.

    Examples
    --------
    >>> cost_of(0.001, 1000).steps, cost_of(0.3, 1000).steps, cost_of(0.3, 1000, 0.04).wait
    (1000, 3, 24)
    """
    return Cost(round(1 / as_rate(rate)), burn_in, round(1 / possible) - 1)


@dataclass(frozen=True)
class _Task:
    """A row that is still to be made; the stretches' n is the size of its runs."""

    stretches: Stretches
    name: str

    @classmethod
    def within(cls, walk_steps: int | None, stretches: Stretches, name: str) -> _Task:
        """Return the task of a sampler, with fewer samples where a walk has too few steps."""
        if walk_steps is None or name not in WALKS:
            return cls(stretches, name)
        burn_in, each = _steps(stretches.cost, name)
        most = max(1, (walk_steps // stretches.runs - burn_in) // each)
        return cls(replace(stretches, n=min(stretches.n, most)), name)

    @property
    def effort(self) -> int:
        """The steps of a walk, which are expensive; the samples of any other sampler."""
        stretches = self.stretches
        if self.name not in WALKS:
            return stretches.runs * stretches.n
        burn_in, each = _steps(stretches.cost, self.name)
        return stretches.runs * (burn_in + stretches.n * each)


def _steps(cost: Cost, name: str) -> tuple[int, int]:
    """Return a run's steps before its first sample, and its steps for each sample."""
    return (0, cost.chain) if name == "rwmh-reset" else (cost.burn_in, cost.steps)


def _rows(
    pool: Draws,
    tasks: Sequence[_Task],
    *,
    count: Counter | None,
    walk: WalkRunner | None,
    report: Report,
) -> Iterator[Row]:
    """Make the rows one after another, and report the progress over all of them."""
    total, done = sum(task.effort for task in tasks), 0
    for task in tasks:
        before, done = done, done + task.effort
        if task.name in WALKS:
            assert walk is not None

            def within(_: int, __: int, steps: int, before: int = before, end: int = done) -> None:
                report(min(before + steps, end), total, min(before + steps, end))

            yield walk_row(pool, task.stretches, task.name, walk=walk, report=within)
        else:
            yield replay_row(pool, task.stretches, task.name, count)
        report(done, total, done)


def _checked(samplers: Sequence[str], walk: WalkRunner | None) -> list[str]:
    names = list(dict.fromkeys(samplers))
    for name in names:
        if name not in SAMPLERS:
            raise InputError(f"no sampler is called {name!r}: there are {', '.join(SAMPLERS)}.")
        if name in WALKS and walk is None:
            raise InputError(
                f"{name} edits texts with a masked language model, and none was given: name one "
                "with --editor, a folder or a hub id, or leave it out."
            )
    return names


def _costs(rates: Sequence[float], burn_in: int, pool: Draws) -> list[Cost]:
    if burn_in != 0:
        check_count("burn_in", burn_in)
    possible = float((pool.log_p > -np.inf).mean())
    costs = list(dict.fromkeys(cost_of(rate, burn_in, possible or 1.0) for rate in rates))
    if not costs:
        raise InputError("there are no rates to compare at: give at least one, such as 0.1.")
    if not possible:
        raise InputError(
            f"none of the {len(pool):,} draws had P(x) > 0, so no sampler can keep a sample: "
            "use a proposal that reaches the target's support, or draw more."
        )
    return costs
