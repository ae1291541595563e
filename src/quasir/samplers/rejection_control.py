"""Rejection control (Liu, Chen and Wong 1998): QRS with weights that lead back to p."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from quasir.core.progress import Progress
from quasir.core.types import Array, Seed
from quasir.draws.draws import Draws
from quasir.errors import InputError
from quasir.estimation.estimate import Z95, Estimate
from quasir.samplers.loop import Collected
from quasir.samplers.qrs import QRS
from quasir.samplers.samples import Samples

__all__ = ["RejectionControl", "Weighted", "log_control_weight"]


@dataclass(frozen=True, eq=False, repr=False)
class Weighted(Samples):
    """Samples of p_beta with the weights of p over p_beta.

    Attributes
    ----------
    log_weight : array
        log max(1, P(x)/(beta q(x))): the weight up to a constant, which `mean` divides out.
    """

    log_weight: Array = field(kw_only=True)

    def mean(self, values: ArrayLike) -> Estimate:
        """Return the mean under p of a column of values, one for each sample.

        It is self-normalised: consistent, with a bias that falls as 1/n.

        Examples
        --------
        >>> import quasir as qr
        >>> target, proposal = qr.Table({"a": 0.5, "b": 0.5}), qr.Table({"a": 0.9, "b": 0.1})
        >>> samples = qr.RejectionControl(target, proposal, beta=1).sample(1000, seed=0)
        >>> print(samples.mean([item == "a" for item in samples.items]))
        0.5067 ± 0.021 [0.4647, 0.5486]
        """
        column = np.asarray(values, dtype=np.float64)
        if column.shape != (len(self),):
            raise InputError(
                f"values have shape {column.shape}, but there are {len(self)} samples: give one "
                "value for each."
            )
        if not len(self):
            return Estimate(math.nan, math.nan, -math.inf, math.inf)
        weight = np.exp(self.log_weight - self.log_weight.max())
        weight /= weight.sum()
        mean = float(weight @ column)
        se = float(np.sqrt((weight**2) @ (column - mean) ** 2))
        return Estimate(mean, se, mean - Z95 * se, mean + Z95 * se)

    @property
    def distance(self) -> str:
        """What is known of the distance to p: weighted, there is none but that of a finite n."""
        return "0 as n grows, with the weights in log_weight; without them: " + super().distance


class RejectionControl(QRS):
    """QRS whose samples carry the weight max(1, P(x)/(beta q(x))) of p over p_beta.

    Weighted means are consistent for expectations under p whatever beta is, and cheaper than
    importance sampling from q where what is averaged is dear: draws of small ratio are mostly
    rejected before it is computed.

    Examples
    --------
    >>> import quasir as qr
    >>> target, proposal = qr.Table({"a": 0.5, "b": 0.5}), qr.Table({"a": 0.9, "b": 0.1})
    >>> samples = qr.RejectionControl(target, proposal, beta=1).sample(20, seed=0)
    >>> sorted(set(np.exp(samples.log_weight).round(6).tolist()))
    [1.0, 5.0]
    """

    def sample(
        self,
        n: int,
        seed: Seed = None,
        max_proposals: int | None = None,
        batch_size: int | None = None,
        progress: Progress = False,
    ) -> Weighted:
        """Return the n samples that `QRS.sample` gives, weighted."""
        return cast(Weighted, super().sample(n, seed, max_proposals, batch_size, progress))

    def replay(self, draws: Draws, n: int | None = None) -> Weighted:
        """Return the samples that `QRS.replay` gives, weighted."""
        return cast(Weighted, super().replay(draws, n))

    def _samples(self, found: Collected) -> Weighted:
        plain: dict[str, Any] = vars(super()._samples(found))
        log_weight = log_control_weight(plain["log_p"] - plain["log_q"], self.log_beta)
        return Weighted(**plain, log_weight=log_weight)


def log_control_weight(log_ratio: Array, log_beta: float) -> Array:
    """Return log max(1, w/beta), the log of p/p_beta up to a constant."""
    return np.maximum(log_ratio - log_beta, 0.0)
