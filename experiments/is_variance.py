"""The table of variances (`tab:is-variance`): ten runs, their spread, and the errors they claim.

Each run estimates AR, TVD and KL at the same five betas, from draws of its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

import quasir as qr
from experiments.constrained import tuned
from experiments.results import Place, Result, Row, main
from quasir.core.types import Array

RUNS = 10
"""As many as in the paper."""
RATES = (1.0, 1.4e-1, 1.6e-2, 1.3e-3, 9.2e-5)
"""The paper's acceptance rates at its five betas."""
NAMES = {"acceptance_rate": "AR", "tvd": "TVD", "kl": "KL"}
STATED = {
    ("tvd", 1): "0.38 ± 0.01",
    ("kl", 1): "0.83 ± 0.08",
    ("tvd", 2): "0.14 ± 0.01",
    ("kl", 2): "0.21 ± 0.05",
    ("tvd", 3): "0.02 ± 0.01",
    ("kl", 3): "0.02 ± 0.02",
}
"""The paper's mean and sd at its second, third and fourth beta."""


def run(place: Place) -> Result:
    """Draw the pool of scientists, and compare the spread of its ten parts with what each claims.

    Draws are independent, so that ten parts of a pool are ten runs.
    """
    folder = tuned(place, "scientists")
    pool = qr.Draws.load(folder, items=False)
    parts = cut(pool, RUNS)
    size = len(parts[0])
    found = variance(parts)
    rows: list[Row] = []
    for (name, i), paper in STATED.items():
        one = next(s for s in found if s.quantity == name and s.index == i)
        if one.claimed > 0:  # else, in some run no draw lies above beta
            ours = f"{one.mean:.2g} ± {one.sd:.1g}, claimed {one.claimed:.1g}"
            rows.append((f"{NAMES[name]} at AR {RATES[i]:g}", paper, ours))
    ratios = [one.sd / one.claimed for one in found if one.claimed > 0]
    expected = 2 / math.sqrt(2 * (RUNS - 1))
    outside = sum(abs(ratio - 1) > expected for ratio in ratios)
    return Result(
        title="Variance of the estimates (`tab:is-variance`)",
        verdict=(
            ("Agrees" if outside <= len(ratios) / 5 else "Differs")
            + f": over {RUNS} runs, the parts of one pool, of {size:,} draws each (the paper: "
            f"1,000,000) the spread is {min(ratios):.2f} to {max(ratios):.2f} times the error "
            f"that one run claims; {1 - expected:.2f} to "
            f"{1 + expected:.2f} is expected of ten runs, and {outside} of {len(ratios)} lie "
            "outside. Ratios have heavy tails: few draws carry TVD and KL, and where hardly any "
            "lie above beta a run cannot know its error (rows left out). So it is with the paper's "
            "TVD of 1.6e-6 at its last beta: a certificate gives an upper end instead."
        ),
        rows=rows,
        draws={folder.name: len(pool)},
        numbers={
            f"{one.quantity} at beta {one.index + 1}": {
                "log_beta": one.log_beta,
                "mean": one.mean,
                "sd": one.sd,
                "claimed": one.claimed if math.isfinite(one.claimed) else None,
            }
            for one in found
        },
    )


@dataclass(frozen=True)
class Spread:
    """A quantity at one of the betas: mean and sd over runs, and the mean of their claimed errors.

    `claimed` is NaN where in some run no draw lies above beta.
    """

    quantity: str
    index: int
    log_beta: float
    mean: float
    sd: float
    claimed: float


def cut(pool: qr.Draws, runs: int) -> list[qr.Draws]:
    """Return disjoint parts of a pool; its draws are independent, so each is a run."""
    length = len(pool) // runs
    return [pool.take(np.arange(run * length, (run + 1) * length)) for run in range(runs)]


def variance(parts: Sequence[qr.Draws], log_betas: Sequence[float] | None = None) -> list[Spread]:
    """Estimate everything from each of several runs, at the same betas."""
    levels = choose_betas(parts) if log_betas is None else np.asarray(log_betas, np.float64)
    curves = [qr.tradeoff(part, log_betas=levels) for part in parts]
    spreads = []
    for name in NAMES:
        values = np.array([getattr(curve, name).value for curve in curves])
        errors = np.array(
            [np.broadcast_to(getattr(curve, name).se, len(levels)) for curve in curves]
        )
        for i, level in enumerate(levels):
            mean, sd = values[:, i].mean(), values[:, i].std(ddof=1)
            spreads.append(Spread(name, i, float(level), mean, sd, float(errors[:, i].mean())))
    return spreads


def choose_betas(parts: Sequence[qr.Draws]) -> Array:
    """Return the log betas at which all runs together have the paper's acceptance rates."""
    numbers = {
        name: np.concatenate([getattr(part, name) for part in parts]) for name in ("log_p", "log_q")
    }
    curve = qr.tradeoff(qr.Draws.from_arrays(**numbers))
    most = curve.n_possible / curve.n
    return np.array([curve.at(acceptance_rate=min(ar, 0.99 * most)).log_beta for ar in RATES])


if __name__ == "__main__":
    main("is_variance", run, __doc__)
