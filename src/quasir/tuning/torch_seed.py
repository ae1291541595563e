"""Seeding torch temporarily, from a seed of `quasir.core.streams`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

__all__ = ["seeded"]


@contextmanager
def seeded(device: torch.device, seed: int) -> Iterator[None]:
    """Seed torch, which takes 63 bits, in a `with` block; restore its generators afterwards."""
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed % 2**63)
        yield
