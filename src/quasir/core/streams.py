"""Random streams: every random number of quasir has a purpose, and no two purposes share a bit.

The key of a stream is ``SeedSequence(seed, spawn_key=(purpose, index, part))``, of fixed length, so
spawning never gives another's. Block b of the draws proposes with (`PROPOSE`, b) and decides with
(`ACCEPT`, b): draw i of a run depends on (seed, i) only. No other module makes a generator.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from quasir.core.formatting import short_repr
from quasir.core.types import Array, Seed
from quasir.errors import InputError

BLOCK = 1024
"""Draws in a block, a constant of the format: another value gives other draws.

It is small, so that little of the last block is wasted, and large enough that making two generators
(35 us) costs less than drawing (70 us at the least).
"""
VERSION = 2  # version of the keys, which is the format of runs on disk: others are refused
WORD = 2**32  # numpy cuts a key into words of 32 bits; a longer number would run into the next one
LARGEST_SEED = 2**128 - 1  # numpy gives a seed four words; a longer one would run into the key


class Purpose(IntEnum):
    """What random numbers are for. The values are part of the format: never change one."""

    # They begin far above the children of ``SeedSequence(seed)``, which are counted from 0.
    PROPOSE = 2**31  # items of a block of draws
    ACCEPT = 2**31 + 1  # uniforms of a block of draws
    FIT = 2**31 + 2  # draws that lambda is fitted on
    CHECK = 2**31 + 3  # draws that the moments of a fitted target are checked on
    NORMALISE = 2**31 + 4  # draws that Z_beta is estimated on
    WALK = 2**31 + 5  # moves of a Markov chain; the index is the chain
    RESAMPLE = 2**31 + 6  # choice from a pool of draws
    COMPARE = 2**31 + 7  # a run (the part) of a comparison; the index is the proposals per sample
    TUNE_DRAW = 2**31 + 8  # draws of a round (the index) of tuning, from a proposal (the part)
    TUNE_THIN = 2**31 + 9  # which of those draws are kept
    TUNE_BATCH = 2**31 + 10  # minibatch of a step of tuning
    TUNE_DROPOUT = 2**31 + 11  # dropout of a step of tuning
    TUNE_INITIAL = 2**31 + 12  # initial weights of an adapter
    SUPPORT = 2**31 + 13  # draws of the base that show what the proposal does not reach
    GUIDE = 2**31 + 14  # draws that a guide's factors are fitted on; the index is the round
    CONTEXT = 2**31 + 15  # a context: its index, and the hash of its text
    LEARNED = 2**31 + 16  # items of a proposal that learned from draws: its hash is in the key
    SEARCH_DRAW = 2**31 + 17  # draws of the search for a proposal; the index is the stage
    SEARCH_TRAIN = 2**31 + 18  # the training of a head; the index is the round
    MISMATCH = 2**31 + 19  # draws that are scored again, to see the rounding


def root_seed(seed: Seed) -> int:
    """Return the integer of a seed: itself, 128 bits of a Generator, or fresh entropy for None."""
    if seed is None:
        entropy = np.random.SeedSequence().entropy
        assert isinstance(entropy, int)
        return entropy
    if isinstance(seed, np.random.Generator):
        return int.from_bytes(seed.bytes(16), "little")
    whole = isinstance(seed, (int, np.integer)) and not isinstance(seed, bool)
    if whole and 0 <= seed <= LARGEST_SEED:
        return int(seed)
    raise InputError(
        f"seed is {short_repr(seed)}, but must be an integer from 0 to 2**128 - 1, a numpy "
        "Generator, or None."
    )


def stream(seed: int, purpose: Purpose, index: int = 0, part: int = 0) -> np.random.Generator:
    """Return the generator of a purpose, at a place."""
    return np.random.default_rng(_sequence(seed, purpose, index, part))


def derived_seed(seed: int, purpose: Purpose, index: int = 0, part: int = 0) -> int:
    """Return a seed of 128 bits, for a purpose that needs a whole run of its own."""
    return _seed_of(_sequence(seed, purpose, index, part))


def context_seed(seed: int, index: int, text: str) -> int:
    """Return the seed of a context: it depends on the run's seed, its index and its text only."""
    # The whole hash is in the key: no other stream has this purpose, or a key of this length.
    words = _words(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest())
    key = (int(Purpose.CONTEXT), index, *words)
    return _seed_of(np.random.SeedSequence(seed, spawn_key=key))


def learned_stream(rng: np.random.Generator, learned: str) -> np.random.Generator:
    """Return a generator for what was learned, by its hash: none of its teachers' numbers again."""
    key = (int(Purpose.LEARNED), *_words(bytes.fromhex(learned)))
    return np.random.default_rng(np.random.SeedSequence(root_seed(rng), spawn_key=key))


def _words(digest: bytes) -> list[int]:
    return [int(word) for word in np.frombuffer(digest, "<u4")]


def _seed_of(sequence: np.random.SeedSequence) -> int:
    state = sequence.generate_state(4, np.uint32)
    return int.from_bytes(state.astype("<u4").tobytes(), "little")


def _sequence(seed: int, purpose: Purpose, index: int, part: int) -> np.random.SeedSequence:
    if not (0 <= index < WORD and 0 <= part < WORD):
        raise InputError(f"places go from 0 to 2**32 - 1, but one is ({index}, {part}).")
    return np.random.SeedSequence(seed, spawn_key=(int(purpose), index, part))


@dataclass(frozen=True)
class DrawStreams:
    """The random numbers of a run's draws, block by block."""

    seed: int

    @classmethod
    def of(cls, seed: Seed) -> DrawStreams:
        """Return the streams of a new run."""
        return cls(root_seed(seed))

    def propose(self, block: int) -> np.random.Generator:
        """Return the generator for proposing the items of a block."""
        return stream(self.seed, Purpose.PROPOSE, block)

    def log_u(self, block: int) -> Array:
        """Return the log u of a block: u is never 0, so P(x) = 0 is never accepted."""
        return -stream(self.seed, Purpose.ACCEPT, block).standard_exponential(BLOCK)


def log_uniforms(seed: int, n: int) -> Array:
    """Return log u of the first n draws of a run."""
    streams = DrawStreams(seed)
    blocks = [streams.log_u(block) for block in range(-(-n // BLOCK))]
    return np.concatenate(blocks)[:n] if blocks else np.empty(0)
