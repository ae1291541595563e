"""Draws to fit lambda on, as many as it takes: each round goes on where the last one ended."""

from __future__ import annotations

from quasir.core.progress import Progress, progress_of
from quasir.core.streams import BLOCK, DrawStreams, Purpose, derived_seed, root_seed
from quasir.core.types import Proposal, Seed
from quasir.draws.draw_blocks import draw_pieces
from quasir.draws.draws import Draws
from quasir.targets.feature import Feature
from quasir.targets.product import Product

__all__ = ["ROUNDS", "FittingDraws"]

ROUNDS = (4 * BLOCK, 8 * BLOCK, 16 * BLOCK, 32 * BLOCK, 64 * BLOCK, 100_000)
"""Draws in all after each round."""


class FittingDraws:
    """Draws of the base or of a proposal, with columns for the features.

    They have a stream of their own (`Purpose.FIT`), independent of what `draw` gives for the seed.
    """

    def __init__(
        self,
        given: Product,
        wanted: list[Feature],
        proposal: Proposal,
        seed: Seed,
        progress: Progress,
    ) -> None:
        factors = [factor.feature for factor in given.factors]
        self._watching = Product(given.base, watched=[*factors, *wanted])
        self._proposal = proposal
        self._streams = DrawStreams(derived_seed(root_seed(seed), Purpose.FIT))
        self._report = progress_of(progress, "drawn to fit")
        self._parts: list[Draws] = []
        self._drawn = 0

    def upto(self, n: int, most: int) -> Draws:
        """Return the first n draws; `most` is how many there may be in the end."""
        first = self._drawn // BLOCK
        for piece in draw_pieces(self._watching, self._proposal, self._streams, first, n):
            self._parts.append(piece)
            self._drawn += len(piece)
            self._report(self._drawn, most, self._drawn)
        return Draws.concatenate(self._parts)

    def finish(self) -> None:
        """Report that no more are needed."""
        self._report(self._drawn, self._drawn, self._drawn)
