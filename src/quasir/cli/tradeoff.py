"""`quasir tradeoff`: the table and the figure from stored draws."""

from __future__ import annotations

import json as jsonlib
import math

from quasir.cli.options import Json, RunFolder, Seed, check_seed
from quasir.cli.progress import say
from quasir.run.results import write_figures, write_tradeoff
from quasir.store import Store
from quasir.tradeoff import Curve
from quasir.tradeoff import tradeoff as curve_of

__all__ = ["tradeoff"]


def tradeoff(run: RunFolder, json: Json = False, seed: Seed = None) -> None:
    """Print the trade-off of a run.

    From its stored draws; no model is loaded. Writes tradeoff.csv and figures/tradeoff.png into it.

    Example: quasir tradeoff runs/scientists
    """
    store = Store.open(run)
    check_seed(store, seed)
    curve = curve_of(store.load(items=False))
    write_tradeoff(run, curve)
    figures = write_figures(run, curve)
    print(jsonlib.dumps(as_json(curve)) if json else curve)
    say(f"written: {run / 'tradeoff.csv'}, and {len(figures)} figures in {run / 'figures'}")


def as_json(curve: Curve) -> dict[str, object]:
    """Return a curve as JSON has it; what is not finite is null."""
    return {
        "n": curve.n,
        "n_possible": curve.n_possible,
        "ess": curve.ess,
        "doubts": curve.doubts,
        "proposal": curve.proposal.to_dict(),
        "projection": curve.projection.to_dict(),
        "columns": {
            name: [x if math.isfinite(x) else None for x in column.tolist()]
            for name, column in curve.columns().items()
        },
    }
