"""`draw`: propose items from q and score them under P."""

from __future__ import annotations

from dataclasses import replace

from quasir.core.arguments import check_count, check_optional_count
from quasir.core.progress import Progress, progress_of
from quasir.core.scores import check_pair
from quasir.core.streams import DrawStreams
from quasir.core.types import Proposal, Seed, Target
from quasir.draws.by_engine import draw_by
from quasir.draws.ceiling import known_of
from quasir.draws.draw_blocks import draw_pieces
from quasir.draws.draws import Draws
from quasir.draws.support import BASE_DRAWS, check_by_base, refuse_cut_support
from quasir.engines.engine import Engine

__all__ = ["draw"]

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
        draws = draw_by(engine, target, proposal, n, streams, batch_size, report)
    else:
        parts, done = [], 0
        for piece in draw_pieces(target, proposal, streams, 0, n, batch_size):
            parts.append(piece)
            done += len(piece)
            report(done, n, done)
        draws = Draws.concatenate(parts)
    known = known_of(target, proposal)
    if n < WORTH_CHECKING * BASE_DRAWS:
        return replace(draws, known=known)
    check = check_by_base(target, proposal, streams.seed)
    return replace(draws, known=known, base_check=check)
