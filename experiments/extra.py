"""The extra figure of appendix A (`fig:extra-ctg-experiments`), five panels, a wish each.

Three wishes about biographies, and two words that every text must have. Each panel has its own
file, such as `experiments/extra_sports.py`. The proposals are tuned by DPG, half and half with the
base.
"""

from __future__ import annotations

from dataclasses import dataclass

from experiments.controlled import RATES, Pool
from experiments.results import Place, Result

__all__ = ["PANELS", "Panel", "pool_of", "result"]


@dataclass(frozen=True)
class Panel:
    """One row of the paper's figure.

    Attributes
    ----------
    paper : str
        The paper's wish.
    recipe, folder : str
    pointwise : bool
        Whether q_proj is marked, as the paper does for its words.
    """

    paper: str
    recipe: str
    folder: str
    pointwise: bool = False


PANELS = {
    "scientists": Panel("50 % female scientists", "scientists-mixed", "scientists-mixed"),
    "sports": Panel("50 % female, sports", "sports", "sports"),
    "female": Panel("50 % female", "female", "female"),
}


def pool_of(place: Place, panel: str) -> Pool:
    """Return the pool of a panel."""
    chosen = PANELS[panel]
    return Pool(place.pool(chosen.folder, chosen.recipe))


def result(place: Place, panel: str) -> Result:
    """Make one panel."""
    chosen, pool = PANELS[panel], pool_of(place, panel)
    cert = pool.at(RATES[-1])
    known = cert is not None and cert.tvd.high < 0.05
    return Result(
        title=f"Extra figure (`fig:extra-ctg-experiments`): {chosen.paper}",
        rows=[(what, "figure only", ours) for what, _, ours in pool.rows()],
        draws={chosen.folder: len(pool.draws)},
        verdict=(
            "As in the paper, TVD, its bounds and KL fall to 0 with the acceptance rate, and the "
            "moments of the samples are those predicted. "
            + (
                "The paper finds a rate of 1e-3 enough to match the target nearly perfectly, and "
                "so do we."
                if known
                else "Whether a rate of 1e-3 is enough, as the paper finds, these draws are too "
                "few to say."
            )
        ),
        figure=pool.figure(project=chosen.pointwise),
    )
