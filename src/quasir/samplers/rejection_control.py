"""Rejection control (Liu, Chen and Wong 1998): QRS with weights that correct it to p."""

from __future__ import annotations

from typing import Any

import numpy as np

from quasir.core.types import Array
from quasir.draws.acceptance import log_ratio_of
from quasir.samplers.qrs import AtBeta
from quasir.samplers.results import WeightedSamples


class RejectionControl(AtBeta[WeightedSamples]):
    """QRS whose samples carry the weight max(1, P(x)/(beta q(x))) of p over p_beta.

    Weighted means are consistent for expectations under p at any beta. They are cheaper than
    importance sampling from q if the averaged function is expensive: most draws of small ratio
    are rejected before it is computed. `log_prob` is that of the samples without their weights.

    Parameters
    ----------
    target, proposal, beta, log_beta
        See `QRS`.

    Examples
    --------
    >>> import quasir as qr
    >>> target, proposal = qr.Table({"a": 0.5, "b": 0.5}), qr.Table({"a": 0.9, "b": 0.1})
    >>> samples = qr.RejectionControl(target, proposal, beta=1).sample(20, seed=0)
    >>> sorted(set(np.exp(samples.log_weight).round(6).tolist()))
    [1.0, 5.0]
    """

    def finish(self, fields: dict[str, Any]) -> WeightedSamples:
        """Return the samples with their weights."""
        log_ratio = log_ratio_of(fields["log_p"], fields["log_q"])
        return WeightedSamples(**fields, log_weight=log_control_weight(log_ratio, self.log_beta))


def log_control_weight(log_ratio: Array, log_beta: float) -> Array:
    """Return log max(1, w/beta), the log of p/p_beta up to a constant."""
    return np.maximum(log_ratio - log_beta, 0.0)
