"""A sampler to copy: rejection at a fixed beta that keeps every `thin`-th accepted draw."""

from __future__ import annotations

from dataclasses import dataclass

from quasir.core.arguments import as_log_beta, check_count
from quasir.core.types import Proposal, Target
from quasir.draws.draws import Draws
from quasir.samplers.base import CollectingSampler, Collector, sample_columns
from quasir.samplers.results import SampleSet


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class ThinnedSamples(SampleSet):
    """What it returns: `SampleSet`, and what is known about the distance to p."""

    distance: str = "that of p_beta to p: qr.tradeoff estimates it"


class Thinned(CollectingSampler[ThinnedSamples]):
    """QRS (Algorithm 1) that keeps every `thin`-th accepted draw: each follows p_beta.

    `sample` (with its budget, progress and messages), `replay` and the repr come from the base.

    Parameters
    ----------
    target, proposal : Target, Proposal
        P and q.
    beta : float
        The level.
    thin : int
        How many accepted draws there are per sample.
    """

    def __init__(self, target: Target, proposal: Proposal, beta: float, thin: int = 2) -> None:
        super().__init__(target, proposal)
        self.log_beta, self.thin = as_log_beta(beta), check_count("thin", thin)

    def collector(self, n: int | None) -> Collector[ThinnedSamples]:
        """Return an empty collector: it takes the draws piece by piece."""
        return _Thinning(self, n)


class _Thinning(Collector[ThinnedSamples]):
    def __init__(self, sampler: Thinned, n: int | None) -> None:
        super().__init__(n)
        self.sampler, self.accepted = sampler, 0

    def add(self, piece: Draws) -> None:
        """Keep the samples among the next draws; a piece may end anywhere."""
        accepted = piece.accepted(log_beta=self.sampler.log_beta)
        first = -self.accepted % self.sampler.thin
        self.accepted += len(accepted)
        self.keep(piece, accepted[first :: self.sampler.thin])

    def result(self) -> ThinnedSamples:
        return ThinnedSamples(**sample_columns(self.kept, self.proposals))
