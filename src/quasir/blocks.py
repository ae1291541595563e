"""Randomness by blocks: draw i of a run depends on (seed, i) only.

Draws come in blocks of `BLOCK`. Block b owns a generator seeded by
``SeedSequence(seed, spawn_key=(b,))``, and that sequence's first child seeds the block's
uniforms. So a run gives the same draws whatever its batch size, its workers, and however
often it was stopped and resumed.
"""

from __future__ import annotations

import numpy as np

from quasir.errors import InputError
from quasir.typing import Array, Seed

__all__ = ["BLOCK", "block_log_u", "block_rng", "log_uniforms", "root_seed", "walk_rng"]

BLOCK = 1024
"""Draws in a block. A constant of the format: another value gives other draws.

Small enough that a proposal that must be asked for whole blocks wastes little on the last
one, large enough that making two generators (35 us) is cheap beside drawing (70 us for the
cheapest proposals).
"""


def root_seed(seed: Seed) -> int:
    """Return the integer that a run is seeded with.

    An integer is itself, None takes fresh entropy from the system, and a Generator gives
    128 of its bits.

    Examples
    --------
    >>> root_seed(7)
    7
    """
    if seed is None:
        entropy = np.random.SeedSequence().entropy
        assert isinstance(entropy, int)
        return entropy
    if isinstance(seed, np.random.Generator):
        return int.from_bytes(seed.bytes(16), "little")
    if isinstance(seed, (int, np.integer)) and not isinstance(seed, bool) and seed >= 0:
        return int(seed)
    raise InputError(f"seed is {seed!r}, but must be an integer >= 0, a numpy Generator, or None.")


def block_rng(seed: int, block: int) -> np.random.Generator:
    """Return the generator that block number `block` proposes with."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(block,)))


def block_log_u(seed: int, block: int) -> Array:
    """Return the `BLOCK` values of log u that belong to a block.

    ``log u = -E`` with E a standard exponential: u is uniform on (0, 1) and never 0, so an
    item with P(x) = 0 is never accepted.
    """
    sequence = np.random.SeedSequence(seed, spawn_key=(block, 0))
    return -np.random.default_rng(sequence).standard_exponential(BLOCK)


def walk_rng(seed: int, index: int) -> np.random.Generator:
    """Return generator number `index` of those that walk or resample, apart from every block's."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(index, 1)))


def log_uniforms(seed: int, n: int) -> Array:
    """Return log u of the first n draws of a run."""
    blocks = [block_log_u(seed, block) for block in range(-(-n // BLOCK))]
    return np.concatenate(blocks)[:n] if blocks else np.empty(0)
