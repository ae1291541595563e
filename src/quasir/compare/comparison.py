"""The comparison of samplers at equal cost (appendices F and G of the paper)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from quasir.compare.cells import UNKNOWN, Cell
from quasir.compare.measures import Measured, measure, perplexity_of
from quasir.compare.methods import METHODS, WALKS, Cost, Kept, label_of, proposal
from quasir.compare.stretches import Share, plan
from quasir.compare.tokens import Counter, token_counter
from quasir.core.arguments import as_rate, check_count
from quasir.core.progress import Progress, Report, progress_of
from quasir.core.streams import Purpose, derived_seed
from quasir.draws.draws import Draws
from quasir.errors import InputError
from quasir.estimation.quantities import Key
from quasir.recipes.schema import Recipe

__all__ = ["SAMPLERS", "Comparison", "Row", "Walk", "compare", "cost_of", "seed_of"]

SAMPLERS = (*METHODS, *WALKS)

Walk: TypeAlias = Callable[[str, Cost, int, int, list[Draws], Report], tuple[int, list[Measured]]]
"""From a sampler's name, its cost, n, a seed, the draws that the chains of each run may start at,
and what to tell progress, to the samples of a run and what was measured, one a run."""


@dataclass(frozen=True)
class Row:
    """One sampler at one rate.

    Attributes
    ----------
    sampler, method : str
        As the command line has it, and as the table calls it.
    cost : Cost
    n, runs : int
        Samples a run, and runs.
    cells : dict of Cell
        By quantity: ``draws_a_sample``, `Moment` of each feature, ``ppl``, ``self_bleu``,
        ``unique``, ``tvd``, ``kl``.
    doubts : tuple of tuples of str
        Of each run.
    """

    sampler: str
    method: str
    cost: Cost
    n: int
    runs: int
    cells: dict[Key, Cell]
    doubts: tuple[tuple[str, ...], ...]

    @property
    def acceptance_rate(self) -> float:
        """Samples per proposal, burn-in and waiting for a start included."""
        return 1 / self.cells["draws_a_sample"].runs.mean

    def to_dict(self) -> dict[str, Any]:
        """Return a flat JSON-ready dictionary."""
        filled: dict[str, Any] = {
            "method": self.method,
            "sampler": self.sampler,
            "rate": self.cost.rate,
            "n": self.n,
            "runs": self.runs,
        }
        for key, cell in self.cells.items():
            filled |= cell.columns(str(key))
        return filled


@dataclass(frozen=True)
class Comparison:
    """The rows of the table, and what must be known to read them.

    Attributes
    ----------
    rows : list of Row
    pool : int
        Draws in the pool.
    shares : list of Share
        Which of them were whose.
    n, runs : int
        Samples a run and runs that were asked for.
    boolean : dict
        Whether each feature is true or false, and so shown in per cent.
    wanted : dict
        The means that the recipe wants, where it wants any.
    no_ppl : str
        Why there is no perplexity at all, if there is none.
    """

    rows: list[Row]
    pool: int
    shares: list[Share]
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
    walk: Walk | None = None,
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
        Samples a run, and runs; fewer where the pool is too small, see `plan`.
    burn_in : int
        Of chains that are not reset.
    recipe : Recipe, optional
        Tells which means are wanted, and how to count tokens for the perplexity.
    walk : callable, optional
        Runs random walks, whose edits no stored draws can stand for; see `quasir.compare.walks`.
    walk_steps : int, optional
        Most steps of all runs of a random walk at a rate, since each asks the models: its runs have
        as many samples as these give, and at least one.
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
    possible = float((pool.log_p > -np.inf).mean())
    costs = _costs(rates, burn_in, possible)
    if not possible:
        raise InputError(
            f"none of the {len(pool):,} draws had P(x) > 0, so no sampler has anything to keep: "
            "use a proposal that reaches the target's support, or draw more."
        )
    shares = plan(pool, costs, names, n, runs)
    count, no_ppl = token_counter(recipe, pool.items)
    tasks = [
        (share, name, min(share.n, _affords(walk_steps, share, name)))
        for share in shares
        for name in names
        if share.n
    ]
    report, done = progress_of(progress, "samples measured and steps walked"), 0
    total = sum(_effort(*task) for task in tasks)
    rows = list(_proposal_row(pool, shares[0], n, count))
    for share, name, size in tasks:
        before, done = done, done + _effort(share, name, size)
        if name in WALKS:
            assert walk is not None

            def tell(_: int, __: int, steps: int, before: int = before, end: int = done) -> None:
                report(min(before + steps, end), total, min(before + steps, end))

            rows.append(_walk_row(pool, replace(share, n=size), name, walk, tell))
        else:
            rows.append(_row(pool, share, name, count))
        report(done, total, done)
    return Comparison(
        rows,
        len(pool),
        shares,
        n,
        runs,
        {name: column.dtype == bool for name, column in pool.features.items()},
        {} if recipe is None else dict(recipe.want),
        no_ppl,
    )


def cost_of(rate: float, burn_in: int, possible: float = 1.0) -> Cost:
    """Return the whole number of proposals that a rate comes closest to.

    `possible` is the share of draws with P(x) > 0.

    Examples
    --------
    >>> cost_of(0.001, 1000).steps, cost_of(0.3, 1000).steps, cost_of(0.3, 1000, 0.04).wait
    (1000, 3, 24)
    """
    return Cost(round(1 / as_rate(rate)), burn_in, round(1 / possible) - 1)


def seed_of(seed: int, steps: int, run: int) -> int:
    """Return the seed of a run at a rate, for what is random besides the draws."""
    return derived_seed(seed, Purpose.COMPARE, steps, run)


def _checked(samplers: Sequence[str], walk: Walk | None) -> list[str]:
    names = list(dict.fromkeys(samplers))
    for name in names:
        if name not in SAMPLERS:
            raise InputError(f"no sampler is called {name!r}: there are {', '.join(SAMPLERS)}.")
        if name in WALKS and walk is None:
            raise InputError(
                f"{name} edits texts by a masked language model, and none was given: name one "
                "with --editor, a folder or a hub id, or leave it out."
            )
    return names


def _costs(rates: Sequence[float], burn_in: int, possible: float) -> list[Cost]:
    if burn_in != 0:
        check_count("burn_in", burn_in)
    costs = list(dict.fromkeys(cost_of(rate, burn_in, possible or 1.0) for rate in rates))
    if not costs:
        raise InputError("there are no rates to compare at: give at least one, such as 0.1.")
    return costs


def _proposal_row(pool: Draws, share: Share, n: int, count: Counter | None) -> Iterator[Row]:
    """Yield the row of the proposal: the first draws of the first rate's stretches."""
    size = share.n or min(n, share.length)
    if size:
        measured = []
        for run in range(share.runs):
            stretch = pool.take(share.places(run))
            measured.append(_measured(stretch, proposal(stretch, size), count))
        yield _gather("proposal", Cost(1, 0), size, measured)


def _row(pool: Draws, share: Share, name: str, count: Counter | None) -> Row:
    measured = []
    for run in range(share.runs):
        stretch = pool.take(share.places(run))
        seed = seed_of(pool.seed, share.cost.steps, len(WALKS) + run)
        kept = METHODS[name].keep(stretch, share.n, share.cost, seed)
        measured.append(_measured(stretch, kept, count))
    return _gather(name, share.cost, share.n, measured)


def _effort(share: Share, name: str, n: int) -> int:
    """Return what a row takes: steps of a walk, which are dear, and samples of the others."""
    if name not in WALKS:
        return share.runs * n
    burn_in, each = _steps(share.cost, name)
    return share.runs * (burn_in + n * each)


def _affords(steps: int | None, share: Share, name: str) -> int:
    """Return how many samples of a run a budget of steps gives to a walk."""
    if steps is None or name not in WALKS:
        return share.n
    burn_in, each = _steps(share.cost, name)
    return max(1, (steps // share.runs - burn_in) // each)


def _steps(cost: Cost, name: str) -> tuple[int, int]:
    """Return the steps that a run of a walk makes before its first sample, and for each."""
    return (0, cost.chain) if name == "rwmh-reset" else (cost.burn_in, cost.steps)


def _walk_row(pool: Draws, share: Share, name: str, walk: Walk, report: Report) -> Row:
    stretches = [pool.take(share.places(run)) for run in range(share.runs)]
    seed = seed_of(pool.seed, share.cost.steps, WALKS.index(name))
    n, measured = walk(name, share.cost, share.n, seed, stretches, report)
    return _gather(name, share.cost, n, measured)


def _measured(stretch: Draws, kept: Kept, count: Counter | None) -> Measured:
    samples = stretch.take(kept.places)
    tokens = None if count is None else count(samples.items)
    items = kept.places if samples.items is None else samples.items
    ppl = perplexity_of(items, samples.log_base, tokens)
    return measure(items, samples.features, kept.proposals, ppl, kept.certificate, kept.doubts)


def _gather(name: str, cost: Cost, n: int, measured: list[Measured]) -> Row:
    """Put the runs of one sampler together."""
    cells: dict[Key, Cell] = {
        quantity: Cell(tuple(run.numbers[quantity] for run in measured))
        for quantity in measured[0].numbers
    }
    for quantity in ("tvd", "kl"):
        estimates = [run.distances[quantity] for run in measured if run.distances]
        cells[quantity] = Cell(
            tuple(float(estimate.value) for estimate in estimates),
            tuple(float(estimate.se) for estimate in estimates),
            tuple(float(estimate.high) for estimate in estimates),
            UNKNOWN,
        )
    return Row(
        name,
        label_of(name, cost.steps),
        cost,
        n,
        len(measured),
        cells,
        tuple(run.doubts for run in measured),
    )
