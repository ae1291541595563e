"""Rejection sampling: exact if beta bounds every ratio (Algorithm 1, `al:QRS`, in grey)."""

from __future__ import annotations

import numpy as np

from quasir.core.arguments import as_log_beta, exp_or_inf
from quasir.core.formatting import level_text
from quasir.core.progress import Progress
from quasir.core.scores import check_pair, show
from quasir.core.types import Array, Items, Proposal, Seed, Target
from quasir.draws.draws import Draws
from quasir.errors import RatioExceededError
from quasir.samplers.at_beta import AtBeta
from quasir.samplers.describe import describe
from quasir.samplers.results import Samples

__all__ = ["RS"]


class RS:
    """Rejection sampling: the caller asserts that P(x) <= beta q(x) for every x.

    The samples then follow p itself. A draw with a larger ratio raises an error, since no
    acceptance probability could correct for it; `QRS` allows such a beta.

    Parameters
    ----------
    target, proposal : Target, Proposal
        P and q.
    beta, log_beta : float
        Exactly one of them.

    Examples
    --------
    >>> import quasir as qr
    >>> target, proposal = qr.Table({"a": 0.5, "b": 0.5}), qr.Table({"a": 0.9, "b": 0.1})
    >>> qr.RS(target, proposal, beta=5.0).sample(3, seed=0).acceptance_rate < 1
    True
    """

    def __init__(
        self,
        target: Target,
        proposal: Proposal,
        beta: float | None = None,
        *,
        log_beta: float | None = None,
    ) -> None:
        check_pair(target, proposal)
        self.target, self.proposal = target, proposal
        self.log_beta = as_log_beta(beta, log_beta)
        self._level = AtBeta(target, proposal, self.log_beta)

    @property
    def beta(self) -> float:
        """The level; if it is out of a float's range, see `log_beta`."""
        return exp_or_inf(self.log_beta)

    def __repr__(self) -> str:
        return describe(self, f" at beta = {level_text(self.log_beta)}")

    def sample(
        self,
        n: int,
        seed: Seed = None,
        max_proposals: int | None = None,
        batch_size: int | None = None,
        progress: Progress = None,
    ) -> Samples:
        """Return exactly n samples; the parameters are those of `QRS.sample`.

        Raises
        ------
        RatioExceededError
            If a draw has a ratio above beta.
        BudgetExceeded
            If `max_proposals` were made; its ``samples`` holds those found.
        """
        return self._level.sample(
            n, seed, max_proposals, batch_size, progress, check=self._must_be_below
        )

    def replay(self, draws: Draws, n: int | None = None) -> Samples:
        """Return the samples among stored draws: the first n, or all."""
        return self._level.replay(draws, n, check=self._must_be_below)

    def log_prob(self, items: Items) -> Array:
        """Return log p(x), as `QRS.log_prob` does."""
        return self._level.log_prob(items)

    def _must_be_below(self, piece: Draws) -> None:
        # A ratio that equals beta up to rounding is within the bound.
        slack = 1e-9 * max(1.0, abs(self.log_beta))
        above = np.flatnonzero(piece.log_ratio > self.log_beta + slack)
        if len(above):
            i = int(above[np.argmax(piece.log_ratio[above])])
            raise RatioExceededError(
                f"{len(above)} of {len(piece)} draws have a ratio P(x)/q(x) above beta = "
                f"{level_text(self.log_beta)}, the largest being "
                f"{level_text(float(piece.log_ratio[i]))}{_item(piece, i)}: rejection "
                "sampling would be inexact. Raise beta above every ratio, or use QRS, which "
                "needs no bound and says how far from the target it is."
            )


def _item(piece: Draws, i: int) -> str:
    return "" if piece.items is None else f" for {show(piece.items[i])}"
