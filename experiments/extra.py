"""The extra figure of appendix A (`fig:extra-ctg-experiments`), five panels, a constraint each.

Three constraints about biographies, and two words that every text must have. Each panel has its own
file, such as `experiments/extra_sports.py`. The proposals for biographies are tuned by DPG, half
and half with the base; those for words have a guide, which needs no tuning.
"""

from __future__ import annotations

from dataclasses import dataclass

from experiments.controlled import RATES, Pool
from experiments.fig3 import WORD
from experiments.results import Place, Result
from experiments.words import guided

__all__ = ["PANELS", "Panel", "pool_of", "result"]


HALF = 2
"""Pools for words have half the draws: their model is larger."""
ENOUGH = 10
"""Draws with P > 0, below which nothing is compared."""
NEAR = 0.05
"""A TVD that is nearly perfect."""


@dataclass(frozen=True)
class Panel:
    """One row of the paper's figure.

    Attributes
    ----------
    paper : str
        The paper's constraint.
    source : str
        A recipe; for a pointwise panel, a word.
    pointwise : bool
        Whether every text must have a word; q_proj is then marked, as in the paper.
    """

    paper: str
    source: str
    pointwise: bool = False


PANELS = {
    "scientists": Panel("50 % female scientists", "scientists-mixed"),
    "sports": Panel("50 % female, sports", "sports"),
    "female": Panel("50 % female", "female"),
    "amazing": Panel('100 % with "amazing"', "amazing", pointwise=True),
    "rare": Panel(f'100 % with "Wikileaks" (ours: {WORD!r})', WORD, pointwise=True),
}


def pool_of(place: Place, panel: str) -> Pool:
    """Return the pool of a panel."""
    chosen = PANELS[panel]
    if chosen.pointwise:
        return Pool(guided(place, chosen.source, max(1, place.draws // HALF)))
    return Pool(place.pool(chosen.source, chosen.source))


def result(place: Place, panel: str) -> Result:
    """Make one panel."""
    chosen, pool = PANELS[panel], pool_of(place, panel)
    return Result(
        title=f"Extra figure (`fig:extra-ctg-experiments`): {chosen.paper}",
        rows=[(what, "figure only", ours) for what, _, ours in pool.rows()],
        draws={pool.folder.name: len(pool.draws)},
        verdict=verdict(pool, chosen.pointwise),
        figure=pool.figure(project=chosen.pointwise),
        bounds=pool.bounds(RATES),
    )


def verdict(pool: Pool, guide: bool) -> str:
    """Say what the draws show; with too few of them, that they are too few."""
    if pool.curve.n_possible < ENOUGH:
        return (
            f"Only {pool.curve.n_possible} of {pool.curve.n:,} draws have P > 0: too few to "
            "compare anything with the paper."
        )
    cert = pool.at(RATES[-1])
    said = ["As in the paper, TVD, its bounds and KL fall to 0 with the acceptance rate."]
    said.append(
        "The proposal is a guide; the paper's is tuned by DPG."
        if guide
        else f"Moments of samples are within {pool.farthest():.1f} standard errors of predictions."
    )
    if cert is None or cert.tvd.high >= NEAR:
        said.append(
            "Whether a rate of 1e-3 is enough, as the paper finds, these draws are too few to say."
        )
    else:
        said.append(
            "The paper finds a rate of 1e-3 enough to match the target nearly perfectly. "
            + (
                "TVD there is 0 by construction: at this rate beta is above the ceiling that the "
                "share of the base gives, and QRS is rejection sampling. This is no replication."
                if cert.tvd.proved
                else f"So do we: TVD there is at most {cert.tvd.high:.2g} (95 %)."
            )
        )
    return " ".join(said)
