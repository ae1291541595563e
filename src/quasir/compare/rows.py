"""The rows of the table: a sampler at one rate, measured on each of its runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from quasir.compare.cells import UNKNOWN, Cell
from quasir.compare.measures import Measured, measure, perplexity_of
from quasir.compare.methods import METHODS, WALKS, Cost, Kept, label_of, proposal
from quasir.compare.stretches import Stretches
from quasir.compare.tokens import Counter
from quasir.core.progress import Report
from quasir.core.streams import Purpose, derived_seed
from quasir.draws.draws import Draws
from quasir.estimation.quantities import Key

__all__ = ["Row", "WalkRunner", "proposal_row", "replay_row", "seed_of", "walk_row"]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One sampler at one rate.

    Attributes
    ----------
    sampler, method : str
        Its name on the command line, and its name in the table.
    cost : Cost
    n, runs : int
        Samples a run, and runs.
    cells : dict of Cell
        By quantity: ``draws_a_sample``, `Moment` of each feature, ``ppl``, ``self_bleu``,
        ``unique``, ``tvd``, ``kl``.
    doubts : tuple of tuples of str
        The doubts of each run.
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
        """Samples per proposal; burn-in and the wait for a start count as proposals."""
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


class WalkRunner(Protocol):
    """Runs a random walk from stored draws; see `quasir.compare.walks.Walks`."""

    def __call__(
        self,
        *,
        name: str,
        cost: Cost,
        n: int,
        seed: int,
        stretches: list[Draws],
        report: Report,
    ) -> tuple[int, list[Measured]]:
        """Return how many samples each run gave, and what was measured on each run.

        Parameters
        ----------
        name : str
            Of `WALKS`.
        cost : Cost
        n : int
            Samples wanted from each run.
        seed : int
        stretches : list of Draws
            For each run, the draws that its chains may start at.
        report : callable
            Called with the progress.
        """
        ...


def seed_of(seed: int, steps: int, run: int) -> int:
    """Return the seed of a run's own random choices at a rate; the stored draws have theirs."""
    return derived_seed(seed, Purpose.COMPARE, steps, run)


def proposal_row(pool: Draws, stretches: Stretches, n: int, count: Counter | None) -> Iterator[Row]:
    """Yield the row of the proposal: the first draws of the first rate's stretches."""
    size = stretches.n or min(n, stretches.length)
    if size:
        measured = []
        for run in range(stretches.runs):
            stretch = pool.take(stretches.places(run))
            measured.append(_measured(stretch, proposal(stretch, size), count))
        yield _gathered("proposal", Cost(1, 0), size, measured)


def replay_row(pool: Draws, stretches: Stretches, name: str, count: Counter | None) -> Row:
    """Return the row of a sampler that replays stored draws."""
    n, cost, measured = stretches.n, stretches.cost, []
    for run in range(stretches.runs):
        stretch = pool.take(stretches.places(run))
        seed = seed_of(pool.seed, cost.steps, len(WALKS) + run)
        measured.append(_measured(stretch, METHODS[name].keep(stretch, n, cost, seed), count))
    return _gathered(name, cost, n, measured)


def walk_row(
    pool: Draws, stretches: Stretches, name: str, *, walk: WalkRunner, report: Report
) -> Row:
    """Return the row of a random walk."""
    cost = stretches.cost
    n, measured = walk(
        name=name,
        cost=cost,
        n=stretches.n,
        seed=seed_of(pool.seed, cost.steps, WALKS.index(name)),
        stretches=[pool.take(stretches.places(run)) for run in range(stretches.runs)],
        report=report,
    )
    return _gathered(name, cost, n, measured)


def _measured(stretch: Draws, kept: Kept, count: Counter | None) -> Measured:
    samples = stretch.take(kept.places)
    tokens = None if count is None else count(samples.items)
    items = kept.places if samples.items is None else samples.items
    return measure(
        items,
        samples.features,
        proposals=kept.proposals,
        ppl=perplexity_of(items, samples.log_base, tokens),
        certificate=kept.certificate,
        doubts=kept.doubts,
    )


def _gathered(name: str, cost: Cost, n: int, measured: list[Measured]) -> Row:
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
        sampler=name,
        method=label_of(name, cost.steps),
        cost=cost,
        n=n,
        runs=len(measured),
        cells=cells,
        doubts=tuple(run.doubts for run in measured),
    )
