"""Randomness of a run: every number comes from (seed, what it is for, its place in the run)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

__all__ = ["DRAWS", "INITIAL", "STEP", "THINNING", "rng_of", "seed_of", "seeded"]

DRAWS, THINNING, STEP, INITIAL = range(4)
"""What random numbers are for, as the first part of their key."""


def rng_of(seed: int, *key: int) -> np.random.Generator:
    """Return the generator of one place in the run."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


def seed_of(seed: int, *key: int) -> int:
    """Return a seed for torch, of 63 bits.

    Examples
    --------
    >>> seed_of(0, STEP, 1) == seed_of(0, STEP, 1) != seed_of(0, STEP, 2)
    True
    """
    return int(rng_of(seed, *key).integers(2**63))


@contextmanager
def seeded(device: torch.device, seed: int) -> Iterator[None]:
    """Seed torch for a while, and leave its generators as they were."""
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        yield
