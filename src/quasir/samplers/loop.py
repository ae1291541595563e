"""The loop of every sampler of global proposals, and the error when its budget is used up.

The `Collector` of a sampler decides which draws it keeps. It sees the same draws in the same order
whether they are new or stored, so `sample` and `replay` agree.
"""

from __future__ import annotations

import math
import warnings
from typing import Protocol, TypeVar

import numpy as np

from quasir.core.arguments import check_count, check_optional_count
from quasir.core.progress import Progress, progress_of
from quasir.core.streams import BLOCK, DrawStreams
from quasir.core.types import Proposal, Seed, Target
from quasir.draws.draw_blocks import draw_blocks
from quasir.draws.draws import Draws
from quasir.draws.support import refuse_cut_support
from quasir.errors import BudgetExceeded, InputError, QuasirWarning
from quasir.samplers.results import SampleSet

__all__ = [
    "Collector",
    "blocks_for",
    "budget_exceeded",
    "check_draws",
    "check_sizes",
    "collect",
    "collect_stored",
    "warn_if_hopeless",
]

MOST_BLOCKS = 64
"""Blocks proposed at once, at most."""

Result_co = TypeVar("Result_co", bound=SampleSet, covariant=True)


class Collector(Protocol[Result_co]):
    """Takes draws piece by piece, and keeps those that a sampler needs.

    Attributes
    ----------
    seen : int
        Draws seen so far.
    verb : str
        What happens to a draw that becomes a sample: accepted, kept, found.
    """

    seen: int
    verb: str

    @property
    def count(self) -> int:
        """Samples found so far."""
        ...

    @property
    def in_sight(self) -> int:
        """Samples that are found or certain to come, such as those of a chain that has started."""
        ...

    def next_stop(self) -> int | None:
        """Return the number of draws to see next, in all, or None if all samples are found."""
        ...

    def add(self, piece: Draws) -> None:
        """Take the next draws."""
        ...

    def result(self) -> Result_co:
        """Return the samples found so far."""
        ...


def collect(
    collector: Collector[Result_co],
    target: Target,
    proposal: Proposal,
    n: int,
    seed: Seed = None,
    *,
    max_proposals: int | None = None,
    batch_size: int | None = None,
    progress: Progress = None,
) -> Result_co:
    """Draw until the collector has its n samples.

    Raises
    ------
    BudgetExceeded
        If `max_proposals` were made; its ``samples`` holds those found.
    """
    refuse_cut_support(target, proposal)
    streams, report = DrawStreams.of(seed), progress_of(progress, collector.verb)
    while (stop := collector.next_stop()) is not None:
        if max_proposals is not None:
            if collector.seen >= max_proposals:
                raise budget_exceeded(collector.result(), n, collector.seen, collector.verb)
            stop = min(stop, max_proposals)
        first, skipped = divmod(collector.seen, BLOCK)
        blocks = min(math.ceil(stop / BLOCK) - first, MOST_BLOCKS)
        piece = draw_blocks(target, proposal, streams, first, blocks, stop, batch_size)
        if skipped:
            piece = piece.take(np.arange(skipped, len(piece)))
        collector.add(piece)
        report(min(collector.count, n), n, collector.seen)
        warn_if_hopeless(collector.in_sight, n, collector.seen)
    return collector.result()


def collect_stored(collector: Collector[Result_co], draws: Draws, n: int | None) -> Result_co:
    """Give stored draws to the collector; with n, they must hold n samples.

    Raises
    ------
    BudgetExceeded
        If the draws hold fewer than n; its ``samples`` holds those found.
    """
    check_draws(draws)
    collector.add(draws)
    found = collector.result()
    if n is not None and len(found) < n:
        raise budget_exceeded(found, n, len(draws), collector.verb, "draws")
    return found


def check_sizes(n: int, max_proposals: int | None = None, batch_size: int | None = None) -> int:
    """Return n; refuse a number of samples, proposals or items that is no positive integer."""
    check_optional_count("max_proposals", max_proposals)
    check_optional_count("batch_size", batch_size)
    return check_count("n", n)


def check_draws(draws: Draws) -> None:
    """Raise an error unless these are one or more stored draws."""
    if not isinstance(draws, Draws):
        raise InputError(
            f"draws are a {type(draws).__name__}, but must be Draws: from qr.draw, "
            "Draws.from_arrays or Draws.load."
        )
    if not len(draws):
        raise InputError("there are no draws: give at least one.")


def blocks_for(missing: int, found: int, proposals: int) -> int:
    """Return how many blocks are expected to hold the missing samples."""
    if not proposals:
        return 1
    rate = max(found, 1) / proposals
    return max(1, min(math.ceil(missing / rate / BLOCK), MOST_BLOCKS))


def budget_exceeded(
    samples: SampleSet, n: int, proposals: int, verb: str = "found", what: str = "proposals"
) -> BudgetExceeded:
    """Return the error for a used-up budget, with the samples found."""
    found = len(samples)
    need = (
        f"At this rate {n:,} need about {math.ceil(n * proposals / found):.2g} {what}"
        if found
        else f"Nothing was {verb}"
    )
    return BudgetExceeded(
        f"{proposals:,} {what} gave {found:,} of {n:,} samples. {need}: allow for more, lower "
        "beta, ask for less burn-in, thinning or resetting, or use a proposal closer to the "
        "target. The samples found are in this error's .samples.",
        samples,
    )


def warn_if_hopeless(accepted: int, n: int, proposals: int) -> None:
    """Warn at each tenfold number of proposals while less than 1 % of n is found."""
    decade = 10.0 ** math.floor(math.log10(max(proposals, 1)))
    fresh = proposals - decade < MOST_BLOCKS * BLOCK
    if proposals < 100_000 or not fresh or accepted >= 0.01 * n:
        return
    ahead = f"about {proposals * n / accepted:.1e} in all" if accepted else "no end in sight"
    warnings.warn(
        f"{proposals:,} proposals have given {accepted:,} of {n:,} samples ({ahead}). Set "
        "max_proposals to bound the search, lower beta, or use a better proposal.",
        QuasirWarning,
        stacklevel=3,
    )
