"""Fig. 2: Poisson(11) from Poisson(10), five experiments of ten million draws, beta in [0.5, 4].

Every number has an exact value here: both distributions are summed over their support.
"""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from scipy import stats

import quasir as qr
from experiments.plots import COLOURS, LINES, key, lines_of, new_figure
from experiments.results import Place, Result, main

EXPERIMENTS, DRAWS = 5, 10_000_000
"""As many as in the paper, whatever the draws of a pool: they take seconds, and none are stored."""
BETAS = np.geomspace(0.5, 4.0, 100)
SHOWN = (0.5, 1.0, 2.0, 3.0, 4.0)
EVERY = 6
"""One in so many betas has a dot with its exact value."""
QUANTITIES = ("acceptance_rate", "tvd", "truncated_mass", "tvd_bound", "kl")


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
    return dict(zip(QUANTITIES, np.array(rows).T, strict=True))


def run(_: Place) -> Result:
    """Draw, compare with the exact values, and plot the five panels."""
    n = DRAWS
    p, q = (qr.from_scipy(stats.poisson(rate)) for rate in (11, 10))
    every = np.union1d(BETAS, SHOWN)
    at = np.searchsorted(every, SHOWN)
    curves = [
        qr.tradeoff(qr.draw(p, q, n, seed=seed, progress=False), every)
        for seed in range(EXPERIMENTS)
    ]
    truth = exact(np.asarray(SHOWN))
    worst, numbers = 0.0, {}
    for name in QUANTITIES:
        found = np.array([getattr(curve, name).value[at] for curve in curves])
        se = np.mean([getattr(curve, name).se[at] for curve in curves], axis=0) / EXPERIMENTS**0.5
        worst = max(worst, float(np.nanmax(np.abs(found.mean(0) - truth[name]) / se)))
        numbers[name] = {
            f"beta {beta:g}": {"mean": m, "sd": s, "exact": e}
            for beta, m, s, e in zip(
                SHOWN, found.mean(0), found.std(0, ddof=1), truth[name], strict=True
            )
        }
    rate, tvd = (numbers[name]["beta 4"] for name in ("acceptance_rate", "tvd"))
    return Result(
        title="Fig. 2: two Poissons",
        verdict=(
            f"{'Agrees' if worst < 4 else 'Differs'}: all curves of five experiments of "
            f"{n:,} draws lie on the exact ones (black dots), and no mean over the experiments "
            f"is farther than {worst:.1f} standard errors from its exact value. The log axis shows "
            "what the paper's linear one cannot: where the bounds and TVD part."
        ),
        rows=[("AR at β = 4", "0.25", said(rate)), ("TVD at β = 4", "below 1e-4", said(tvd))],
        draws={f"experiment {seed + 1}": n for seed in range(EXPERIMENTS)},
        numbers=numbers,
        figure=figure(curves),
    )


def said(one: dict[str, float]) -> str:
    """Return mean and sd over the experiments, and the exact value."""
    return f"{one['mean']:.4g} ± {one['sd']:.0e} (exactly {one['exact']:.4g})"


def figure(curves: list[qr.Curve]) -> Figure:
    """Draw the paper's five panels, the distances on log axes; dots are exact."""
    made, axes = new_figure(3, 2)
    truth = exact(curves[0].betas)
    panels = [
        (("tvd", "truncated_mass", "tvd_bound"), None, "TVD and its bounds"),
        (("kl",), None, "KL(p, p_β), nats"),
        (("acceptance_rate",), None, "Acceptance rate"),
        (("tvd", "truncated_mass", "tvd_bound"), "acceptance_rate", "TVD and its bounds"),
        (("kl",), "acceptance_rate", "KL(p, p_β), nats"),
    ]
    for panel, (names, against, label) in zip(axes, panels, strict=False):
        for name in names:
            colour, style = LINES.get(name, (COLOURS[5], "-"))
            for curve in curves:
                x = curve.betas if against is None else getattr(curve, against).value
                panel.plot(x, getattr(curve, name).value, style, color=colour, linewidth=1.2)
            x = curves[0].betas if against is None else truth[against]
            panel.plot(x[::EVERY], truth[name][::EVERY], "k.", markersize=3)
        if names != ("acceptance_rate",):
            panel.set_yscale("log")
        panel.set_ylabel(label)
        panel.set_xlabel("β" if against is None else "Acceptance rate")
        panel.grid(alpha=0.25)
        if against is not None:
            panel.invert_xaxis()
    axes[-1].set_axis_off()
    lines = [*lines_of("tvd", "truncated_mass", "tvd_bound", "kl"), ("AR", COLOURS[5], "-")]
    key(made, [*lines, ("exact values", "black", ".")], (), columns=1, axes=axes[-1])
    return made


if __name__ == "__main__":
    main("fig2", run, __doc__)
