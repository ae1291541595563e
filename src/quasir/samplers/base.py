"""What samplers share: P and q, `sample` and `replay`, the loop over proposals and its budget."""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from quasir.core.arguments import MOST, check_count, check_optional_count, exp_or_inf
from quasir.core.formatting import level_text, short_repr
from quasir.core.progress import Progress, progress_of
from quasir.core.scores import check_pair
from quasir.core.streams import BLOCK, DrawStreams
from quasir.core.types import Proposal, Seed, Target
from quasir.draws.acceptance import log_normaliser, log_p_beta
from quasir.draws.ceiling import refuse_cut_support
from quasir.draws.draw_blocks import draw_blocks
from quasir.draws.draws import Draws
from quasir.errors import BudgetExceeded, InputError, QuasirWarning
from quasir.samplers.results import SampleSet

__all__ = ["CollectingSampler", "Collector", "Sampler"]

MOST_BLOCKS = 64  # blocks proposed at once, at most
STUCK = 0.1  # a chain is warned if it stayed on one state for more than this share of its steps
STAYED = 20  # a stay of at most this many steps raises no warning, however short the chain is

Indices = NDArray[np.intp]

Result_co = TypeVar("Result_co", bound=SampleSet, covariant=True)


class Request(NamedTuple):
    n: int
    seed: Seed
    max_proposals: int | None = None
    batch_size: int | None = None
    progress: Progress = None


@dataclass(eq=False, repr=False)
class Sampler(ABC, Generic[Result_co]):
    """P and q. A sampler says in `_sample` how it makes n samples; its options are its fields."""

    target: Target
    proposal: Proposal
    log_beta: float = field(init=False)  # if the sampler has a beta
    verb: ClassVar[str] = "found"  # what happens to a draw that becomes a sample

    def __post_init__(self) -> None:
        check_pair(self.target, self.proposal)

    @abstractmethod
    def _sample(self, asked: Request) -> Result_co:
        """Return the samples that `sample` was asked for."""

    def sample(
        self,
        n: int,
        seed: Seed = None,
        max_proposals: int | None = None,
        batch_size: int | None = None,
        progress: Progress = None,
    ) -> Result_co:
        """Return exactly n samples.

        If the sampler has `replay`, they are those that it finds in
        ``quasir.draw(target, proposal, ..., seed)``.

        Parameters
        ----------
        n : int
            How many.
        seed : int, numpy Generator or None
        max_proposals : int, optional
            The budget, which the steps of a chain count towards too. Without one, a warning
            appears if most samples are still to be found.
        batch_size : int, optional
            How many items the target scores at once, or how many chains make a step at once; it
            does not change the samples.
        progress : bool or callable
            By default a line on stderr appears once the work takes seconds; True shows it at once,
            False never; a callable is called with (found, n, proposed).

        Raises
        ------
        BudgetExceeded
            If `max_proposals` were made; its ``samples`` holds those found.
        """
        check_optional_count("max_proposals", max_proposals)
        check_optional_count("batch_size", batch_size)
        return self._sample(Request(check_count("n", n), seed, max_proposals, batch_size, progress))

    def __repr__(self) -> str:
        parts = [short_repr(self.target, 24), short_repr(self.proposal, 24)]
        options = {each.name: each.default for each in fields(self)[2:] if each.init}
        given = {name: vars(self)[name] for name in options if vars(self)[name] != options[name]}
        parts += [f"{name}={short_repr(value, 20)}" for name, value in given.items()]
        level = f" at beta = {level_text(self.log_beta)}" if hasattr(self, "log_beta") else ""
        return f"{type(self).__name__}({', '.join(parts)}){level}"

    @property
    def beta(self) -> float:
        """The level, if the sampler has one; out of a float's range, see `log_beta`."""
        return exp_or_inf(self.log_beta)


class Collector(ABC, Generic[Result_co]):
    """Takes draws piece by piece, new or stored, and keeps those that a sampler needs.

    `n` samples are wanted, or all if it is None. `seen` draws were taken, and the first
    `proposals` of them gave the `count` samples found so far.
    """

    def __init__(self, n: int | None) -> None:
        self.n = n
        self.seen = self.proposals = self.count = 0
        self._kept: list[Draws] = []

    @abstractmethod
    def add(self, piece: Draws) -> None:
        """Take the next draws."""

    @abstractmethod
    def result(self) -> Result_co:
        """Return the samples found so far."""

    @property
    def kept(self) -> Draws:
        """The samples found so far."""
        return Draws.concatenate(self._kept)

    @property
    def in_sight(self) -> int:
        """Samples that are found or certain to come, such as those of a chain that has started."""
        return self.count

    def next_stop(self) -> int | None:
        """Return the number of draws to see next, in all, or None if all samples are found."""
        assert self.n is not None
        if self.count >= self.n:
            return None
        blocks = 1
        if self.proposals:
            rate = max(self.count, 1) / self.proposals
            blocks = max(1, min(math.ceil((self.n - self.count) / rate / BLOCK), MOST_BLOCKS))
        return self.seen + BLOCK * blocks

    def keep(self, piece: Draws, indices: NDArray[np.intp]) -> NDArray[np.intp]:
        """Keep draws of a piece, up to n in all; return the indices of those kept."""
        used = len(piece)
        if self.n is not None and self.count + len(indices) >= self.n:
            indices = indices[: self.n - self.count]
            used = int(indices[-1]) + 1
        self._kept.append(piece.take(indices))
        self.count += len(indices)
        self.proposals = self.seen + used
        self.seen += len(piece)
        return indices


class CollectingSampler(Sampler[Result_co]):
    """A sampler of draws from q. Its `collector` says which of them are samples."""

    verb = "accepted"

    @abstractmethod
    def collector(self, n: int | None) -> Collector[Result_co]:
        """Return an empty collector of n samples, or of all if n is None."""

    def _sample(self, asked: Request) -> Result_co:
        refuse_cut_support(self.target, self.proposal)
        n, budget, streams = asked.n, asked.max_proposals, DrawStreams.of(asked.seed)
        collector, report = self.collector(n), progress_of(asked.progress, self.verb)
        while (stop := collector.next_stop()) is not None:
            if budget is not None:
                if collector.seen >= budget:
                    raise budget_exceeded(collector.result(), n, collector.seen, self.verb)
                stop = min(stop, budget)
            first, skipped = divmod(collector.seen, BLOCK)
            blocks = min(math.ceil(stop / BLOCK) - first, MOST_BLOCKS)
            piece = draw_blocks(
                self.target, self.proposal, streams, first, blocks, stop, asked.batch_size
            )
            if skipped:
                piece = piece.take(np.arange(skipped, len(piece)))
            collector.add(piece)
            report(min(collector.count, n), n, collector.seen)
            warn_if_hopeless(collector.in_sight, n, collector.seen)
        return collector.result()

    def replay(self, draws: Draws, n: int | None = None) -> Result_co:
        """Return the samples among stored draws: the first n, or all.

        Raises
        ------
        BudgetExceeded
            If the draws hold fewer than n; its ``samples`` holds those found.
        """
        n = check_optional_count("n", n, most=MOST)
        collector = self.collector(n)
        collector.add(check_draws(draws))
        found = collector.result()
        if n is not None and collector.next_stop() is not None:
            raise budget_exceeded(found, n, len(draws), self.verb, "draws")
        return found


def sample_columns(draws: Draws, proposals: int) -> dict[str, Any]:
    """Return what every result holds of its draws."""
    columns = {name: getattr(draws, name) for name in ("items", "log_p", "log_q", "features")}
    return columns | {"proposals": proposals}


def fields_at_beta(
    kept: Draws, proposals: int, log_beta: float, log_z: float, *parts: Any
) -> dict[str, Any]:
    """Return the fields of `Samples`: accepted draws with their log p_beta, Eq. 1."""
    log_prob = log_p_beta(kept.log_p, kept.log_q, log_beta)
    log_z = log_normaliser(log_z, log_prob, kept.items, *parts)
    level = {"log_p_beta": log_prob - log_z, "log_beta": log_beta, "log_z_beta": log_z}
    return sample_columns(kept, proposals) | level


def check_draws(draws: Draws) -> Draws:
    if not isinstance(draws, Draws) or not len(draws):
        raise InputError(f"draws are {short_repr(draws)}, but must be Draws, of one or more.")
    return draws if draws.items is not None else replace(draws, items=np.arange(len(draws)))


def budget_exceeded(
    samples: SampleSet, n: int, proposals: int, verb: str = "found", what: str = "proposals"
) -> BudgetExceeded:
    found, need = len(samples), f"Nothing was {verb}"
    if found:
        need = f"At this rate {n:,} need about {math.ceil(n * proposals / found):.2g} {what}"
    return BudgetExceeded(
        f"{proposals:,} {what} gave {found:,} of {n:,} samples. {need}: allow for more, lower "
        "beta, or use a proposal closer to the target. This error's .samples has those found.",
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
        stacklevel=4,
    )


@dataclass
class Schedule:
    """Which states of a chain are samples: those after steps burn_in + thin, burn_in + 2 thin, ...

    With ``reset=k`` each is the last state of its own chain of k states, including the start.
    """

    burn_in: int = 0
    thin: int = 1
    reset: int | None = None

    def __post_init__(self) -> None:
        # A numpy integer of few bits would overflow.
        self.burn_in = check_count("burn_in", self.burn_in, least=0)
        self.thin = check_count("thin", self.thin)
        self.reset = check_optional_count("reset", self.reset, most=MOST)
        if self.reset is not None and (self.burn_in or self.thin != 1):
            raise InputError("give reset alone, or burn_in and thin.")

    def states_for(self, n: int) -> int:
        """Return the least number of states that n samples need, including the starts."""
        return 1 + self.burn_in + self.thin * n if self.reset is None else self.reset * n

    def cut(self, possible: NDArray[np.bool_], done: int) -> tuple[Indices, Indices, int]:
        """Return the indices of starts and of samples in a piece of candidates, and `done`.

        A chain starts at the first `possible` one; it had `done` states before this piece.
        """
        n = len(possible)
        if self.reset is None:
            starts = np.flatnonzero(possible)[:1] if done == 0 else np.empty(0, np.intp)
            if done == 0 and len(starts) == 0:
                return starts, starts, 0
            origin = int(starts[0]) if done == 0 else -done
            before = max(0, -(origin + self.burn_in + 1) // self.thin)
            first = origin + self.burn_in + self.thin * (before + 1)
            return starts, np.arange(first, n, self.thin), n - origin
        # The first possible index at or after each.
        ahead = np.minimum.accumulate(np.where(possible, np.arange(n), n)[::-1])[::-1].tolist()
        begun, ended = [], []
        start = -done if done else (ahead[0] if n else n)
        while start < n:
            if start >= 0:
                begun.append(start)
            end = start + self.reset
            if end > n:
                break
            ended.append(end - 1)
            start = ahead[end] if end < n else n
        return np.array(begun, np.intp), np.array(ended, np.intp), max(n - start, 0)


def stuck(longest_stay: int, steps: int) -> tuple[str, ...]:
    """Return the warning about a chain that stayed on one state, or an empty tuple."""
    if longest_stay <= max(STUCK * steps, STAYED):
        return ()
    return (
        f"The chain stayed on one state for {longest_stay:,} of {steps:,} steps: its samples "
        "come from few states. Run it longer, reset it for each sample, or use a better proposal.",
    )
