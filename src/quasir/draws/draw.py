"""`draw`: propose items from q and score them under P."""

from __future__ import annotations

from dataclasses import dataclass, replace

from quasir.core.arguments import check_count, check_optional_count
from quasir.core.formatting import short_repr
from quasir.core.progress import Progress, Report, progress_of
from quasir.core.scores import check_pair
from quasir.core.streams import BLOCK, DrawStreams
from quasir.core.types import Proposal, Seed, Target
from quasir.draws.ceiling import BASE_DRAWS, check_by_base, ratio_bounds, refuse_cut_support
from quasir.draws.draw_blocks import AT_ONCE, draw_blocks, draw_pieces
from quasir.draws.draws import Draws
from quasir.engines.engine import Engine, Task, Work
from quasir.errors import InputError

WORTH_CHECKING = 8
"""Draws for each draw of the base that shows whether the proposal reaches all of the target."""


def draw(
    target: Target,
    proposal: Proposal,
    n: int,
    seed: Seed = None,
    batch_size: int | None = None,
    progress: Progress = None,
    engine: Engine | None = None,
) -> Draws:
    """Propose n items from q and score them under P.

    Parameters
    ----------
    target : Target
        P: has ``log_score(items)``, or is a callable that does the same.
    proposal : Proposal
        q: has ``sample(n, rng)`` and ``log_prob(items)``.
    n : int
        How many draws.
    seed : int, numpy Generator or None
        Draw i depends on (seed, i) only.
    batch_size : int, optional
        How many items the target scores at once; changes no draw.
    progress : bool or callable
        By default a line on stderr appears once the work takes seconds; True shows it at once,
        False never; a callable is called with (done, n, proposed).
    engine : Engine, optional
        By default this process draws; `quasir.engines` has others. Changes no draw.

    Examples
    --------
    >>> from scipy import stats
    >>> import quasir as qr
    >>> draws = qr.draw(qr.from_scipy(stats.poisson(11)), qr.from_scipy(stats.poisson(10)),
    ...                 1000, seed=0)
    >>> len(draws.accepted(beta=2)) > len(draws.accepted(beta=3))
    True
    """
    n = check_count("n", n)
    batch_size = check_optional_count("batch_size", batch_size)
    check_pair(target, proposal)
    refuse_cut_support(target, proposal)
    streams, report = DrawStreams.of(seed), progress_of(progress, "drawn")
    if engine is not None:
        draws = _draw_by(engine, _BlockWork(target, proposal, streams, n, batch_size), report)
    else:
        parts, done = [], 0
        for piece in draw_pieces(target, proposal, streams, 0, n, batch_size):
            parts.append(piece)
            done += len(piece)
            report(done, n, done)
        draws = Draws.concatenate(parts)
    known = ratio_bounds(target, proposal)
    if n < WORTH_CHECKING * BASE_DRAWS:
        return replace(draws, known=known)
    check = check_by_base(target, proposal, streams.seed)
    return replace(draws, known=known, base_check=check)


@dataclass(frozen=True)
class _BlockWork:
    """Draws blocks into memory: the work behind ``qr.draw(engine=...)``."""

    target: Target
    proposal: Proposal
    streams: DrawStreams
    n: int
    batch_size: int | None

    what = "the piece from block"

    def __call__(self) -> Work:
        """Return the function that draws a piece; the models were pickled with this object."""
        return self._work

    def _work(self, task: Task) -> Draws:
        how = self.target, self.proposal, self.streams
        return draw_blocks(*how, *task, self.n, self.batch_size)


def _draw_by(engine: Engine, work: _BlockWork, report: Report) -> Draws:
    """Draw pieces with an engine, and join them in their order."""
    if isinstance(engine, type) or not callable(getattr(engine, "map", None)):
        raise InputError(
            f"engine is {short_repr(engine)}, but must be one of quasir.engines, such as Local(2)."
        )
    # Pieces are small, so that each of a few workers gets several.
    n, blocks = work.n, -(-work.n // BLOCK)
    size = max(1, min(AT_ONCE, blocks // 32))
    tasks = [(first, min(size, blocks - first)) for first in range(0, blocks, size)]
    parts, done = {}, 0
    for (first, _), part in engine.map(work, tasks):
        parts[first] = part
        done += len(part)
        report(done, n, done)
    return Draws.concatenate([parts[first] for first, _ in tasks])
