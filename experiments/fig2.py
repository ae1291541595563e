"""Fig. 2: Poisson(11) from Poisson(10), five experiments of 10M draws, beta in [0.5, 4].

Every number has an exact value here: both distributions are summed over their support.
"""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from scipy import stats

import quasir as qr
from experiments.plots import new_figure
from experiments.results import Place, Result, Row, main
from quasir.certificates.figures import COLOURS

EXPERIMENTS = 5
TIMES = 10
"""The paper draws 10M here, and 1M in its other experiments."""
BETAS = np.geomspace(0.5, 4.0, 100)
SHOWN = (0.5, 1.0, 2.0, 3.0, 4.0)
BOUNDED = ("tvd", "truncated_mass", "tvd_bound")
NAMES = {"acceptance_rate": "AR", "tvd": "TVD", "tvd_bound": "1 - p(A_β)", "kl": "KL"}


def exact(betas: np.ndarray) -> dict[str, np.ndarray]:
    """Return AR, TVD, its two bounds and KL by summation (Eqs. 2, 3, 9 and 10)."""
    x = np.arange(400)
    p, q = stats.poisson(11).pmf(x), stats.poisson(10).pmf(x)
    rows = []
    for beta in np.asarray(betas, float):
        kept = np.minimum(p, beta * q)
        z = kept.sum()
        inside = kept > 0
        kl = float((p[inside] * np.log(p[inside] / kept[inside])).sum() + np.log(z))
        tvd = np.abs(p - kept / z).sum() / 2
        rows.append((z / beta, tvd, 1 - z, p[p > beta * q].sum(), kl))
    names = ("acceptance_rate", "tvd", "truncated_mass", "tvd_bound", "kl")
    return dict(zip(names, np.array(rows).T, strict=True))


def run(place: Place) -> Result:
    """Draw, compare with the exact values, and plot the five panels."""
    curves, at = [], []
    for seed in range(EXPERIMENTS):
        recipe = {"base": {"poisson": 11}, "proposal": {"poisson": 10}, "seed": seed}
        folder = place.pool(f"poissons-{seed}", recipe, TIMES * place.draws)
        draws = qr.Draws.load(folder, items=False)
        curves.append(qr.tradeoff(draws, BETAS))
        at.append(qr.tradeoff(draws, SHOWN))
    truth = exact(SHOWN)
    rows: list[Row] = []
    worst = 0.0
    for name, label in NAMES.items():
        for i, beta in enumerate(SHOWN):
            found = np.array([getattr(curve, name).value[i] for curve in at])
            se = np.mean([getattr(curve, name).se[i] for curve in at]) / np.sqrt(EXPERIMENTS)
            exactly = truth[name][i]
            worst = max(worst, abs(found.mean() - exactly) / se if se > 0 else 0.0)
            ours = f"{found.mean():.6g} ± {found.std(ddof=1):.1g} (exact {exactly:.6g})"
            rows.append((f"{label} at beta {beta:g}", paper(name, beta), ours))
    return Result(
        title="Fig. 2: two Poissons",
        rows=rows,
        draws={f"poissons-{seed}": curve.n for seed, curve in enumerate(at)},
        verdict=(
            f"{'They agree' if worst < 4 else 'They differ'}: the mean of {EXPERIMENTS} "
            f"experiments is within {worst:.1f} standard errors of the exact value in every row "
            "(± is the standard deviation over the experiments). The paper reads a TVD below 1e-4 "
            f"at an acceptance rate of 0.25; exactly, it is {truth['tvd'][-1]:.3g} at "
            f"{truth['acceptance_rate'][-1]:.4f}."
        ),
        figure=figure(curves),
        bounds=[
            (f"at beta {beta:g}, exactly", *(f"{truth[name][i]:.3g}" for name in BOUNDED))
            for i, beta in enumerate(SHOWN)
        ],
    )


def paper(name: str, beta: float) -> str:
    """Return what the paper's text states."""
    if beta == SHOWN[-1]:
        return {"tvd": "< 1e-4", "acceptance_rate": "0.25"}.get(name, "figure only")
    return "figure only"


def figure(curves: list[qr.Curve]) -> Figure:
    """Draw the paper's five panels; a dashed line is exact."""
    made, (axes,) = new_figure(5, width=2.6)
    truth = exact(BETAS)
    panels = [
        ("tvd", None, "TVD(p, p_β)"),
        ("kl", None, "KL(p, p_β), nats"),
        ("acceptance_rate", None, "Acceptance rate"),
        ("tvd", "acceptance_rate", "TVD(p, p_β)"),
        ("kl", "acceptance_rate", "KL(p, p_β), nats"),
    ]
    for panel, (name, against, label) in zip(axes, panels, strict=True):
        parts = [(name, COLOURS[0], label)]
        if name == "tvd":
            parts.append(("tvd_bound", COLOURS[1], "1 - p(A_β)"))
        for part, colour, text in parts:
            for number, curve in enumerate(curves):
                x = BETAS if against is None else getattr(curve, against).value
                panel.plot(
                    x,
                    getattr(curve, part).value,
                    color=colour,
                    linewidth=1,
                    label=text if not number else None,
                )
            x = BETAS if against is None else truth[against]
            panel.plot(x, truth[part], "--", color="black", linewidth=0.7)
        panel.set_ylabel(label)
        panel.set_xlabel("β" if against is None else "Acceptance rate")
        panel.grid(alpha=0.25)
        if name == "tvd":
            panel.legend(frameon=False, fontsize="small")
    return made


if __name__ == "__main__":
    main("fig2", run, __doc__)
