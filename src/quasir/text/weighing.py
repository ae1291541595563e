"""A guide's weights times a model's probabilities: the arithmetic of drawing and of scoring."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from quasir.guides.machine import Weights

__all__ = ["apply_weights", "dense", "log_sums", "log_weighed", "rescued"]

LOG_TINY = -69.0
"""A sum whose log is below this may have lost terms to underflow, and is computed again."""


def apply_weights(probabilities: Tensor, weights: Weights) -> None:
    """Multiply the probabilities of each row's tokens by the guide's weights, in place."""
    vocabulary = probabilities.shape[1]
    if weights.mask is not None:
        bits = np.unpackbits(weights.mask.view(np.uint8), axis=1, bitorder="little")
        allowed = torch.from_numpy(bits[:, :vocabulary])
        probabilities.mul_(allowed.to(probabilities.device, non_blocking=True))
    flat = probabilities.view(-1)
    for row, token, value, _ in weights.entries:
        if len(row):
            at = torch.from_numpy(row * vocabulary + token).to(flat.device)
            times = torch.from_numpy(value).to(flat.device, flat.dtype)
            flat[at] = flat[at] * times


def dense(weights: Weights, row: int, vocabulary: int) -> Tensor:
    """Return the weights of every token in one row, in float64."""
    line = torch.ones((1, vocabulary), dtype=torch.float64)
    own = [part.at(part.row == row) for part in weights.entries]
    own = [part._replace(row=np.zeros_like(part.row)) for part in own]
    mask = None if weights.mask is None else np.ascontiguousarray(weights.mask[row : row + 1])
    apply_weights(line, Weights(mask, tuple(own)))
    return line[0]


def log_sums(below: Tensor, weights: Weights) -> tuple[Tensor, Tensor, Tensor]:
    """Return the weighted probabilities, and the logs of their sums before and after weighing.

    Parameters
    ----------
    below : tensor (rows, vocabulary)
        Logits, of which the largest in each row is 0.

    Returns
    -------
    weighed : tensor (rows, vocabulary)
    log_total, log_mass : tensor (rows,)
        In float64; log_mass is -inf where the guide allows nothing.
    """
    weighed = below.exp()
    log_total = weighed.sum(dim=-1).double().log()
    apply_weights(weighed, weights)
    log_mass = weighed.sum(dim=-1).double().log()
    for row in rescued(log_mass, weights):
        log_mass[row] = log_weighed(below, weights, row).logsumexp(0)
    return weighed, log_total, log_mass


def rescued(log_mass: Tensor, weights: Weights) -> list[int]:
    """Return the rows whose sum may have lost terms to underflow; not those that allow nothing."""
    tiny = (log_mass < LOG_TINY).cpu().numpy()
    if weights.mask is not None and tiny.any():
        tiny &= weights.mask.any(axis=1)
    rows: list[int] = np.flatnonzero(tiny).tolist()
    return rows


def log_weighed(below: Tensor, weights: Weights, row: int) -> Tensor:
    """Return the logs of one row's weighted probabilities, in float64."""
    log_weights = dense(weights, row, below.shape[1]).log()
    return below[row].double() + log_weights.to(below.device)
