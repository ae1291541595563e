"""What a choice of beta by an estimate is worth: its cost's interval, and its warnings.

    python -m benchmarks.choice --replicates 200

On laws of the ratio with known truths, it asks for TVD 0.1 without a confidence and prints: how
often the interval of the cost holds the acceptance rate at which TVD truly is 0.1, how often the
true TVD at the chosen beta is above 0.1, how often no warning was raised, and the median true TVD
where none was.
"""

from __future__ import annotations

import argparse
import math

import numpy as np
from scipy import stats

import quasir as qr
from quasir.core.types import Array

POINTS = 200_000
CONSTRAINT = 0.1
AREA = (np.arange(POINTS) + 0.5) / POINTS
LAWS = {
    "lognormal 0.7": np.exp(0.7 * stats.norm.isf(AREA)),
    "lognormal 1.5": np.exp(1.5 * stats.norm.isf(AREA)),
    "Pareto 0.5": stats.genpareto(0.5).isf(AREA) + 1,
    "Pareto 0.8": stats.genpareto(0.8).isf(AREA) + 1,
}


def tvd(w: Array, beta: float) -> float:
    """Return TVD(p, p_beta) where q is uniform on the ratios w."""
    kept = np.minimum(w, beta)
    return float(0.5 * np.abs(w / w.sum() - kept / kept.sum()).sum())


def true_rate(w: Array) -> float:
    """Return the acceptance rate at which TVD is the constraint."""
    low, high = 0.0, math.log(w.max())
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if tvd(w, math.exp(middle)) <= CONSTRAINT else (middle, high)
    return float(np.minimum(w / math.exp(high), 1).mean())


def row(name: str, n: int, replicates: int) -> str:
    """Return a line of the table."""
    w = LAWS[name]
    rate, covered, above, unmet, silent = true_rate(w), 0, 0, 0, []
    for seed in range(replicates):
        ratios = np.random.default_rng(seed).choice(w, n)
        try:
            cert = qr.tradeoff(qr.Draws.from_arrays(np.log(ratios), np.zeros(n))).at(tvd=CONSTRAINT)
        except qr.errors.UnreachableError:
            unmet += 1
            continue
        _, cost = cert.cost
        covered += cost.low <= rate <= cost.high
        true = tvd(w, cert.beta)
        above += true > CONSTRAINT
        if not cert.warnings:
            silent.append(true)
    met = max(replicates - unmet, 1)
    worst = f"{np.median(silent):.3f}" if silent else "-"
    return (
        f"| {name} | {n:,} | {rate:.4f} | {covered / met:.3f} | {above / met:.3f} | "
        f"{len(silent) / met:.3f} | {worst} | {unmet} |"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="The choice of beta by an estimate.")
    parser.add_argument("--replicates", type=int, default=200)
    replicates = parser.parse_args().replicates
    print(
        f"{replicates} runs, TVD 0.1 asked for without a confidence\n\n"
        "| law | draws | true cost | cost covered | true TVD above 0.1 | no warning | median true "
        "TVD then | refused |\n|---|---|---|---|---|---|---|---|"
    )
    for name in LAWS:
        for n in (5_000, 20_000):
            print(row(name, n, replicates), flush=True)


if __name__ == "__main__":
    main()
