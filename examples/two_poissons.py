"""Two Poissons (section 3.1, Fig. 2): sample Poisson(11) with proposals from Poisson(10).

The ratio has no bound, so rejection sampling is impossible, but QRS is not. Five runs of 10
million draws give the five panels of Fig. 2 with bands over runs, and a table of estimates and
exact values.

    python examples/two_poissons.py [--draws 10000000] [--runs 5] [--out figures]
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from scipy import stats

import quasir as qr
from quasir.certificates.figures import COLOURS

BETAS = np.geomspace(0.5, 4.0, 200)
TABLE_BETAS = (0.5, 1.0, 2.0, 3.0, 4.0)


def exact(beta):
    """Return AR, TVD, KL and the bound by summing over the integers below 200."""
    x = np.arange(200)
    p, q = stats.poisson(11).pmf(x), stats.poisson(10).pmf(x)
    p_b = np.minimum(p, beta * q)
    rate, p_b = p_b.sum() / beta, p_b / p_b.sum()
    kl = float((p * np.log(p / p_b)).sum())
    return {
        "acceptance_rate": float(rate),
        "tvd": float(np.abs(p - p_b).sum() / 2),
        "tvd_bound": float(p[p > beta * q].sum()),
        "kl": kl,
    }


def table(curves):
    """Print the first run's estimates beside the exact values, with their z-scores."""
    print(f"\n{'beta':>4}  {'':<15} {'estimate ± se':>22} {'exact':>12} {'z':>6}   over runs")
    for beta in TABLE_BETAS:
        certificates = [curve.at(beta=beta) for curve in curves]
        for i, (name, value) in enumerate(exact(beta).items()):
            parts = [getattr(cert, name) for cert in certificates]
            first, spread = parts[0], np.std([part.value for part in parts])
            z = (first.value - value) / first.se
            print(
                f"{beta if i == 0 else '':>4}  {name:<15} {first.value:>12.7f} ± {first.se:.7f} "
                f"{value:>12.8f} {z:>6.2f}   sd {spread:.7f}"
            )


def figure(curves):
    """Plot the five panels of Fig. 2: lines are means over runs, bands their range."""
    panels = [
        ("beta", "Level β", {"tvd": "TVD(p, p_β)", "tvd_bound": "upper bound"}, "TVD"),
        ("beta", "Level β", {"kl": "KL(p, p_β)"}, "KL (nats)"),
        ("beta", "Level β", {"acceptance_rate": "AR"}, "Acceptance rate"),
        ("rate", "Acceptance rate", {"tvd": "TVD(p, p_β)", "tvd_bound": "upper bound"}, "TVD"),
        ("rate", "Acceptance rate", {"kl": "KL(p, p_β)"}, "KL (nats)"),
    ]
    drawn = Figure(figsize=(15, 3.1), layout="constrained")
    rate = np.mean([curve.acceptance_rate.value for curve in curves], axis=0)
    for axes, (against, xlabel, lines, ylabel) in zip(drawn.subplots(1, 5), panels, strict=True):
        x = BETAS if against == "beta" else rate
        for (name, label), colour in zip(lines.items(), COLOURS, strict=False):
            runs = np.array([getattr(curve, name).value for curve in curves])
            axes.plot(x, runs.mean(axis=0), color=colour, label=label)
            axes.fill_between(x, runs.min(axis=0), runs.max(axis=0), color=colour, alpha=0.3)
        if ylabel != "Acceptance rate":
            axes.set_yscale("log")
        if len(lines) > 1:
            axes.legend(frameon=False)
        axes.set_xlabel(xlabel)
        axes.set_ylabel(ylabel)
        axes.grid(alpha=0.25)
    drawn.suptitle(f"Poisson(11) from Poisson(10): {len(curves)} runs of {curves[0].n:,} draws")
    return drawn


def main():
    """Draw, estimate, print and plot."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=10_000_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("figures"))
    arguments = parser.parse_args()

    target, proposal = qr.from_scipy(stats.poisson(11)), qr.from_scipy(stats.poisson(10))
    start, curves = time.perf_counter(), []
    for run in range(arguments.runs):
        print(f"run {run + 1} of {arguments.runs}", file=sys.stderr)
        draws = qr.draw(target, proposal, arguments.draws, seed=run, progress=True)
        curves.append(qr.tradeoff(draws, betas=BETAS))

    print(curves[0])
    table(curves)
    arguments.out.mkdir(parents=True, exist_ok=True)
    path = arguments.out / "two_poissons.png"
    figure(curves).savefig(path, dpi=110)
    cert = curves[0].at(tvd=0.001)
    print(f"\nThe cheapest beta with TVD at most 0.001:\n{cert}")
    sampler = qr.QRS(target, proposal, log_beta=cert.log_beta)
    samples = sampler.sample(10_000, seed=0)
    mean = samples.items.mean()
    print(
        f"\n{len(samples):,} samples from {samples.proposals:,} proposals: mean {mean:.3f} "
        f"(the target's is 11)"
    )
    print(f"{path} written; {time.perf_counter() - start:.1f} s in all")


if __name__ == "__main__":
    main()
