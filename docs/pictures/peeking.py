"""Draw docs/explanation/peeking.png: what looking often does to an interval, and to a guarantee.

    python docs/pictures/peeking.py

The space is finite, so the true TVD is known. Each run looks 40 times between 100 and 20,000 draws.
"""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

import quasir as qr

RUNS, LOOKS = 150, np.unique(np.geomspace(100, 20_000, 40).astype(int))
INTERVAL, GUARANTEE, TRUTH = "#d55e00", "#0072b2", "#555555"


def space(seed=3, n=400):
    """Return log P and log q of each item: ratios of a lognormal, with the scale of P free."""
    rng = np.random.default_rng(seed)
    q = rng.dirichlet(np.ones(n))
    p = q * np.exp(rng.normal(0, 0.7, n))
    return np.log(p), np.log(q)


def true_tvd(log_p, log_q, beta):
    """Return TVD(p, p_beta) by listing all items."""
    p, p_beta = np.exp(log_p), np.minimum(np.exp(log_p), beta * np.exp(log_q))
    return np.abs(p / p.sum() - p_beta / p_beta.sum()).sum() / 2


def one_run(log_p, log_q, beta, seed):
    """Return the upper end of the interval and the guarantee at every look."""
    rng = np.random.default_rng([seed, 1])
    items = rng.choice(len(log_q), LOOKS[-1], p=np.exp(log_q))
    ceiling = float((log_p - log_q).max())
    ends = []
    for n in LOOKS:
        draws = qr.Draws.from_arrays(log_p[items[:n]], log_q[items[:n]], log_ceiling=ceiling)
        cert = qr.tradeoff(draws, betas=[beta]).at(beta=beta)
        ends.append((cert.tvd.high, cert.guarantee.tvd))
    return np.array(ends).T


def main():
    """Simulate, print the shares, and draw."""
    log_p, log_q = space()
    beta = float(np.exp(np.quantile(log_p - log_q, 0.5)))
    truth = true_tvd(log_p, log_q, beta)
    runs = np.array([one_run(log_p, log_q, beta, seed) for seed in range(RUNS)])
    ever = np.maximum.accumulate(runs < truth, axis=2).mean(axis=0)
    print(f"true TVD {truth:.4f}, beta {beta:.3f}, {RUNS} runs, {len(LOOKS)} looks")
    print(f"interval: false at the last look {(runs[:, 0, -1] < truth).mean():.3f}", end=", ")
    print(f"ever {ever[0, -1]:.3f}; guarantee: ever {ever[1, -1]:.3f}")
    shown = int(np.argmax((runs[:, 0] < truth).sum(axis=1)))

    figure = Figure(figsize=(9, 3.3), layout="constrained", dpi=160)
    left, right = figure.subplots(1, 2)
    left.axhline(truth, color=TRUTH, linewidth=1)
    left.annotate("true TVD", (LOOKS[-1], truth), (0, -14), textcoords="offset points", ha="right")
    left.plot(LOOKS, runs[shown, 0], color=INTERVAL, label="upper end of a 95 % interval")
    left.plot(LOOKS, runs[shown, 1], color=GUARANTEE, label="guarantee, 95 %")
    false = runs[shown, 0] < truth
    left.plot(LOOKS[false], runs[shown, 0][false], "x", color=INTERVAL, label="false here")
    left.set_ylabel("upper bound on TVD")
    left.set_ylim(0.85 * truth, None)
    left.set_title("One run, looked at 40 times")
    right.plot(LOOKS, ever[0], color=INTERVAL, label="interval")
    right.plot(LOOKS, ever[1], color=GUARANTEE, label="guarantee", linewidth=3, clip_on=False)
    right.axhline(0.05, color=TRUTH, linewidth=1, linestyle=":")
    right.annotate("allowed: 5 %", (LOOKS[0], 0.05), (0, 4), textcoords="offset points")
    right.set_ylabel("runs that were ever false")
    right.set_ylim(0, 0.25)
    right.yaxis.set_major_formatter(PercentFormatter(1, 0))
    right.set_title(f"{RUNS} runs")
    for axes in (left, right):
        axes.set_xscale("log")
        axes.set_xlabel("draws at this look")
        axes.grid(alpha=0.25)
        axes.legend(frameon=False, fontsize="small")
    figure.savefig(Path(__file__).parents[1] / "explanation" / "peeking.png")


if __name__ == "__main__":
    main()
