"""The trade-off: the cost and the quality of QRS at every beta, from one set of draws."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from quasir.certificates.curve import Curve
from quasir.certificates.evaluator import Evaluator
from quasir.certificates.search import largest_accepting
from quasir.core.arguments import as_log_betas, check_bool
from quasir.core.progress import Progress
from quasir.core.types import Array
from quasir.draws.base_check import BaseCheck, seen_by_base
from quasir.draws.draws import Draws
from quasir.draws.known import Known
from quasir.errors import InputError
from quasir.estimation.columns import Basis, basis_of
from quasir.estimation.summary import Summary
from quasir.estimation.summary_cache import summarise
from quasir.store import Store

__all__ = ["Curve", "curve_of", "is_large", "summary_basis", "tradeoff"]

POINTS = 200
STREAMED = 20_000_000
"""A store of more draws than this is streamed: to sort them would take over a gigabyte."""


def tradeoff(
    draws: Draws | Store | str | Path,
    betas: ArrayLike | None = None,
    *,
    log_betas: ArrayLike | None = None,
    stream: bool | None = None,
    progress: Progress = None,
) -> Curve:
    """Estimate everything the paper estimates, at every beta.

    Parameters
    ----------
    draws : Draws, Store, or the folder of a run
        From `draw` or `Draws.from_arrays`, or on disk.
    betas, log_betas : array, optional
        The levels; by default 200, evenly spaced in log, from where the acceptance rate begins
        to fall up to the largest ratio seen.
    stream : bool, optional
        Whether to reduce draws on disk to summaries, shard by shard, instead of loading them: it
        then takes the memory of a few shards, for any number of draws. By default, above 20
        million draws.
    progress : bool or callable
        For streaming: True shows a line on stderr, a callable is called with (done, n, done).

    Notes
    -----
    A streamed curve knows the ratios by bins (`quasir.estimation.bins`), and its betas are edges
    of bins: a given beta moves to the nearest edge, at most half a bin's width away in log, and
    `Curve.log_betas` has the edges. There every estimate is that of all the draws, except TVD,
    which is known to within `Curve.tvd_slack`; its interval allows for that.

    Examples
    --------
    >>> import quasir as qr
    >>> target = qr.Table({"a": 0.5, "b": 0.3, "c": 0.2})
    >>> proposal = qr.Table({"a": 0.2, "b": 0.3, "c": 0.5})
    >>> curve = qr.tradeoff(qr.draw(target, proposal, 10_000, seed=0))
    >>> cert = curve.at(tvd=0.05)
    >>> round(cert.tvd.value, 6)
    0.05
    """
    if stream is not None:
        check_bool("stream", stream)
    if not isinstance(draws, Draws):
        return _of_store(draws, betas, log_betas, stream, progress)
    if stream:
        raise InputError("only draws on disk can be streamed: give the folder of a run.")
    return curve_of(basis_of(draws), betas, log_betas)


def is_large(store: Store) -> bool:
    """Return whether a store is streamed by default."""
    return len(store) > STREAMED


def _of_store(
    store: Store | str | Path,
    betas: ArrayLike | None,
    log_betas: ArrayLike | None,
    stream: bool | None,
    progress: Progress,
) -> Curve:
    if isinstance(store, (str, Path)):
        store = Store.open(store)
    if not isinstance(store, Store):
        raise InputError(
            f"draws are a {type(store).__name__}, but must be Draws, a Store or a run's folder."
        )
    if not (is_large(store) if stream is None else stream):
        return curve_of(basis_of(Draws.load(store, items=False)), betas, log_betas)
    basis = summary_basis(store, summarise(store, progress=progress))
    return curve_of(basis, betas, log_betas)


def summary_basis(store: Store, summary: Summary) -> Basis:
    """Return the basis of a store's draws from their summary."""
    check = BaseCheck.from_dict(store.manifest.base_check)
    largest = float(summary.log_w[-1]) if len(summary.log_w) else -np.inf
    known = Known.from_dict(store.manifest.known)
    return summary.basis(store.doubts + seen_by_base(check, largest), known, check)


def curve_of(
    basis: Basis, betas: ArrayLike | None = None, log_betas: ArrayLike | None = None
) -> Curve:
    """Return the curve of a basis, by default on 200 levels."""
    evaluator = Evaluator(basis)
    return Curve(evaluator, _grid(evaluator, betas, log_betas))


def _grid(evaluator: Evaluator, betas: ArrayLike | None, log_betas: ArrayLike | None) -> Array:
    if betas is not None or log_betas is not None:
        return evaluator.ratios.snap(as_log_betas(betas, log_betas))
    return _default_levels(evaluator)


def _default_levels(evaluator: Evaluator) -> Array:
    """Return 200 levels from where the acceptance rate begins to fall to the largest ratio."""
    if not evaluator.n_possible:
        return np.zeros(1)
    top = evaluator.ratios.log_max
    start = largest_accepting(evaluator.ratios, 0.99 * evaluator.n_possible / evaluator.n)
    if start is None or start >= top:
        return evaluator.ratios.snap(np.array([top]), np.ceil)
    grid = np.linspace(start, top, POINTS)
    grid[-1] = top
    if evaluator.ratios.exact_between:
        return grid
    # Levels moved to edges of bins may coincide; the last must not be below the largest ratio.
    snapped = evaluator.ratios.snap(grid)
    snapped[-1] = evaluator.ratios.snap(grid[-1:], np.ceil)[0]
    return np.unique(snapped)
