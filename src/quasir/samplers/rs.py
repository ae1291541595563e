"""Rejection sampling: exact, where beta bounds every ratio."""

from __future__ import annotations

import numpy as np

from quasir.core.formatting import level_text
from quasir.core.scores import show
from quasir.draws.draws import Draws
from quasir.errors import RatioExceeded
from quasir.samplers.qrs import QRS

__all__ = ["RS"]


class RS(QRS):
    """Rejection sampling (Algorithm 1, in grey): P(x) <= beta q(x) for every x is promised.

    The samples are then from p itself. A draw that breaks the promise is an error, since no
    acceptance probability could make up for it; QRS takes such a beta.

    Examples
    --------
    >>> import quasir as qr
    >>> target, proposal = qr.Table({"a": 0.5, "b": 0.5}), qr.Table({"a": 0.9, "b": 0.1})
    >>> qr.RS(target, proposal, beta=5.0).sample(3, seed=0).acceptance_rate < 1
    True
    """

    def _check(self, piece: Draws) -> None:
        # A ratio equal to beta but for rounding is within the bound.
        slack = 1e-9 * max(1.0, abs(self.log_beta))
        above = np.flatnonzero(piece.log_ratio > self.log_beta + slack)
        if len(above):
            i = int(above[np.argmax(piece.log_ratio[above])])
            raise RatioExceeded(
                f"{len(above)} of {len(piece)} draws have a ratio P(x)/q(x) above beta = "
                f"{level_text(self.log_beta)}, the largest being "
                f"{level_text(float(piece.log_ratio[i]))} for {show(piece.items[i])}: rejection "
                "sampling would be inexact. Raise beta above every ratio, or use QRS, which "
                "needs no bound and says how far from the target it is."
            )
