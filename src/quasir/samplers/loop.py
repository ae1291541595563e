"""Collecting accepted draws, and knowing when that is hopeless."""

from __future__ import annotations

import math
import warnings

import numpy as np

from quasir.core.formatting import level_text
from quasir.core.streams import BLOCK
from quasir.draws.draws import Draws
from quasir.errors import BudgetExceeded, QuasirWarning
from quasir.samplers.samples import Samples

__all__ = ["Collected", "out_of_budget", "warn_if_hopeless"]


class Collected:
    """Draws accepted so far at one beta, and the acceptance probabilities of all."""

    def __init__(self, log_beta: float) -> None:
        self.log_beta = log_beta
        self.proposals = 0
        self._accepted: list[Draws] = []
        self._count = 0
        self._scored = 0
        self._sum = 0.0

    def __len__(self) -> int:
        return self._count

    def add(self, piece: Draws, wanted: int | None = None) -> None:
        """Keep what is accepted of a piece, up to `wanted` in all."""
        accepted = piece.accepted(log_beta=self.log_beta)
        proposed = len(piece)
        if wanted is not None and self._count + len(accepted) >= wanted:
            accepted = accepted[: wanted - self._count]
            proposed = int(accepted[-1]) + 1
        self._accepted.append(piece.take(accepted))
        self._count += len(accepted)
        self.proposals += proposed
        self._scored += len(piece)
        self._sum += float(np.exp(np.minimum(piece.log_ratio - self.log_beta, 0.0)).sum())

    def blocks_for(self, n: int, most: int) -> int:
        """Return how many blocks are expected to hold the samples that are missing."""
        if not self.proposals:
            return 1
        rate = max(self._count, 1) / self.proposals
        return int(min(max(1, math.ceil((n - self._count) / rate / BLOCK)), most))

    @property
    def log_z_beta(self) -> float:
        """Log of beta times the mean acceptance probability (Eqs. 2 and 6)."""
        return self.log_beta + math.log(self._sum / self._scored) if self._sum > 0 else -math.inf

    def samples(self, log_z_beta: float) -> Samples:
        """Return what was accepted, normalised."""
        draws = Draws.concatenate(self._accepted)
        log_p_beta = np.minimum(draws.log_p, self.log_beta + draws.log_q) - log_z_beta
        return Samples(
            draws.items,
            log_p_beta,
            draws.log_p,
            draws.log_q,
            self.log_beta,
            log_z_beta,
            self.proposals,
            features=draws.features,
        )


def out_of_budget(samples: Samples, n: int, max_proposals: int) -> BudgetExceeded:
    """Return the error for a budget that ran out, with what was found."""
    found = len(samples)
    if found:
        need = f"At this rate {n:,} need about {math.ceil(n * max_proposals / found):.2g} proposals"
    else:
        need = "Nothing was accepted"
    return BudgetExceeded(
        f"{max_proposals:,} proposals gave {found:,} of {n:,} samples at beta = "
        f"{level_text(samples.log_beta)}. {need}: raise max_proposals, lower beta, or use a "
        "proposal closer to the target. The samples found are in this error's .samples.",
        samples,
    )


def warn_if_hopeless(accepted: int, n: int, proposals: int) -> None:
    """Warn, each time the proposals have grown tenfold, while under 1 % of n was accepted."""
    decade = 10.0 ** math.floor(math.log10(max(proposals, 1)))
    fresh = proposals - decade < 64 * BLOCK
    if proposals < 100_000 or not fresh or accepted >= 0.01 * n:
        return
    ahead = f"about {proposals * n / accepted:.1e} in all" if accepted else "no end in sight"
    warnings.warn(
        f"{proposals:,} proposals have given {accepted:,} of {n:,} samples ({ahead}). Set "
        "max_proposals to bound the search, lower beta, or use a better proposal.",
        QuasirWarning,
        stacklevel=3,
    )
