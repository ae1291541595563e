"""Keys without a purpose, a control: uniforms come from the first child of a block's generator."""

import numpy as np

from quasir.core.streams import BLOCK, DrawStreams


class SharedStreams(DrawStreams):
    """Streams that share random bits wherever a proposal spawns from its generator."""

    def propose(self, block):
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(block,)))

    def log_u(self, block):
        sequence = np.random.SeedSequence(self.seed, spawn_key=(block, 0))
        return -np.random.default_rng(sequence).standard_exponential(BLOCK)
