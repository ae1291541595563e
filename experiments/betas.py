"""The table of betas (`tab:betas`): the range that gives acceptance rates from 1 down to 1e-5."""

from __future__ import annotations

import math

from experiments.extra import PANELS, pool_of
from experiments.plots import LOWEST
from experiments.results import Place, Result, Row, main

STATED = {
    "scientists": ("1.0e-12", "9.3e6"),
    "sports": ("1.0e-12", "2.9e7"),
    "female": ("4.0e-7", "4.0e3"),
    "amazing": ("1.0e-12", "5.3e1"),
    "rare": ("1.0e-12", "6.0e0"),
}
NEAR = 0.99
"""The smallest beta shown accepts this share of all draws with P > 0."""


def run(place: Place) -> Result:
    """Find both ends of the range for each panel of the extra figure."""
    rows: list[Row] = []
    draws = {}
    for name, panel in PANELS.items():
        pool = pool_of(place, name)
        draws[pool.folder.name] = len(pool.draws)
        curve = pool.curve
        most = curve.n_possible / curve.n
        if not most:
            rows.append((f"{panel.paper}: beta_min", STATED[name][0], "unknown: no draw has P > 0"))
            continue
        low = curve.at(acceptance_rate=NEAR * most)
        high = curve.at(acceptance_rate=LOWEST)
        log_z = float(high.log_z.value)
        rows += [
            (f"{panel.paper}: beta_min", STATED[name][0], f"{low.beta:.2g} (AR {most:.3g})"),
            (
                f"{panel.paper}: beta_max",
                STATED[name][1],
                f"{high.beta:.3g} = {math.exp(high.log_beta - log_z):.3g} Z",
            ),
        ]
    return Result(
        title="Table of betas (`tab:betas`)",
        rows=rows,
        draws=draws,
        verdict=(
            "Betas themselves cannot be compared: they carry the scale of P, and so that of "
            "exp(lambda phi). Above every ratio AR is Z/beta, so an acceptance rate of 1e-5 is at "
            "beta = 1e5 Z in each of our experiments. Our beta_min is where 99 % of all draws with "
            "P > 0 are accepted: below it hardly anything changes."
        ),
    )


if __name__ == "__main__":
    main("betas", run, __doc__)
