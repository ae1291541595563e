"""Guarantees: how often they are false, how tight they are, and what they cost.

    python -m benchmarks.guarantees --replicates 100

It draws from ten finite spaces whose truths are known, looks 40 times between 5,000 and 1,000,000
draws, and prints the Markdown tables of docs/records/guarantees.md.
"""

import argparse
import math
import time
from dataclasses import dataclass

import numpy as np

import quasir as qr
from benchmarks.show import best
from quasir.estimation.betting import (
    Bet,
    acceptance_rate_at_least,
    acceptance_rate_at_most,
    moment_bounds,
    upper_bounds,
)
from quasir.estimation.binned_draws import BinnedDraws
from quasir.estimation.guarantee import Assumptions, guaranteed_level, guarantees
from quasir.estimation.ratios import SortedRatios
from quasir.store import Store

FIRST, LAST, LOOKS = 5_000, 1_000_000, 40
CONSTRAINT = 0.1
RATES = (0.6, 0.2, 0.05)
"""Acceptance rates of the levels looked at, as shares of the largest."""
CHOICES = 40
"""Runs in which the guaranteed beta is searched for."""
PARTS = ("tvd", "truncated_mass", "kl", "acceptance_rate", "moment", "choice")


@dataclass(frozen=True)
class Space:
    """A finite space: items with the mass q and the ratio w; `flag` is the feature's chance."""

    name: str
    q: np.ndarray
    w: np.ndarray

    @property
    def flag(self):
        return 0.1 + 0.6 * (self.w > np.median(self.w[self.w > 0]))

    @property
    def log_ceiling(self):
        return float(np.log(self.w.max()))

    @property
    def z(self):
        return float((self.q * self.w).sum())

    def truncated_mass(self, g):
        return float((self.q * np.maximum(self.w - g, 0)).sum()) / self.z

    def rate(self, beta):
        return float((self.q * np.minimum(self.w / beta, 1)).sum())

    def truth(self, beta):
        """Return the exact value of everything that is guaranteed."""
        kept = self.q * np.minimum(self.w, beta)
        p, p_beta = self.q * self.w / self.z, kept / kept.sum()
        seen = p > 0
        return {
            "tvd": float(np.abs(p - p_beta).sum()) / 2,
            "truncated_mass": self.truncated_mass(beta),
            "kl": float((p[seen] * np.log(p[seen] / p_beta[seen])).sum()),
            "acceptance_rate": self.rate(beta),
            "moment": float((p_beta * self.flag).sum()),
        }

    def level(self, wanted, of):
        """Return the beta at which a quantity that falls with beta is `wanted`."""
        low, high = -30.0, self.log_ceiling
        for _ in range(100):
            middle = (low + high) / 2
            low, high = (middle, high) if of(math.exp(middle)) > wanted else (low, middle)
        return math.exp(high)

    def ideal(self, tau=CONSTRAINT):
        """Return the least beta whose TVD is at most tau."""
        return self.level(tau, lambda beta: self.truth(beta)["tvd"])


def quantiles(size=4000, smallest=1e-6):
    """Return masses and upper tail areas of a law, the tail as fine as the rest."""
    areas = np.concatenate(
        [np.linspace(1, 0.02, size // 2), np.geomspace(0.02, smallest, size // 2)[1:]]
    )
    return np.append(areas[:-1] - areas[1:], areas[-1]), np.append(
        (areas[:-1] + areas[1:]) / 2, areas[-1] / 2
    )


def spaces():
    from scipy.stats import norm

    mass, area = quantiles()
    for spread in (0.7, 1.5, 2.5):
        yield Space(f"lognormal {spread}", mass, np.exp(spread * norm.isf(area)))
    for k in (0.5, 0.8):
        yield Space(f"Pareto {k}", mass, area**-k)
    tokens = np.arange(31)
    chance = np.exp(norm.logpdf(tokens, 15, 2.7))
    yield Space("product of 30 tokens", chance / chance.sum(), np.exp(0.45 * (tokens - 15.0)))
    q = np.append(0.7, 0.3 * mass)
    yield Space("product, 70 % impossible", q, np.append(0.0, np.exp(norm.isf(area))))
    yield Space("two points, 1 in 10,000", np.array([1 - 1e-4, 1e-4]), np.array([1.0, 2000.0]))
    yield Space("two points, 1 in 100,000", np.array([1 - 1e-5, 1e-5]), np.array([1.0, 15_000.0]))
    # Half of q is the base: w = 2 b/(1 + r) with b = 1 on a rare part that the other half favours.
    r = np.exp(1.5 * norm.isf(area) - 1.0)
    w = 2 / (1 + r)
    q = np.append(1 - 0.0236, 0.0236 * mass)
    yield Space("mixture with the base", q, np.append(0.0, w))


def spread_of(space, counts, flags):
    """Return the spread of draws that are known by how often each item was drawn."""
    order = np.argsort(space.w)
    order = order[(space.w[order] > 0) & (counts[order] > 0)]
    often = counts[order]
    return BinnedDraws.of_sorted(
        int(counts.sum()),
        np.log(space.w[order]),
        often=often,
        features={"flag": flags[order] / often},
        bounds={"flag": (0.0, 1.0)},
    )


def watch(space, rng, sizes):
    """Yield the spread of the draws so far, at each number of draws."""
    counts = np.zeros(len(space.q), np.int64)
    flags = np.zeros(len(space.q), np.int64)
    for more in np.diff(sizes, prepend=0):
        new = rng.multinomial(more, space.q / space.q.sum())
        counts, flags = counts + new, flags + rng.binomial(new, space.flag)
        yield spread_of(space, counts, flags)


def false_ones(spread, levels, truths, log_ceiling, ideal):
    """Return, for each part and level, whether its guarantee is false.

    An upper bound is below the truth if and only if the wealth at the truth is enough; a chosen
    beta is below the ideal one if and only if it is enough there. So no bound is searched for.
    """
    log_beta, rows, need = np.log(levels), np.arange(len(levels)), -math.log(0.05)
    bet, at_ideal = Bet(spread, log_beta, log_ceiling), Bet(spread, np.log([ideal]), log_ceiling)
    wrong = [getattr(bet, name)(truths[name], rows) >= need for name in PARTS[:3]]
    rate = [
        bound(spread, log_beta, alpha=0.025)
        for bound in (acceptance_rate_at_least, acceptance_rate_at_most)
    ]
    moment = moment_bounds(spread, "flag", log_beta, alpha=0.025)
    for name, (low, high) in (("acceptance_rate", rate), ("moment", moment)):
        wrong.append((low > truths[name]) | (high < truths[name]))
    chosen = at_ideal.tvd(np.array([CONSTRAINT]), rows[:1]) >= need
    return np.array([*wrong, np.broadcast_to(chosen, len(levels))])


def simulate(space, replicates, sizes):
    """Return what was false by run, look, part and level, and the chosen acceptance rates."""
    most, top = space.rate(1e-300), 0.9 * space.w.max()
    levels = [min(space.level(rate * most, space.rate), top) for rate in RATES]
    each, ideal = [space.truth(beta) for beta in levels], space.ideal()
    truths = {name: np.array([truth[name] for truth in each]) for name in each[0]}
    ground = Assumptions(log_ceiling=space.log_ceiling, basis="known")
    false = np.zeros((replicates, len(sizes), len(PARTS), len(levels)), bool)
    shares = {j: [] for j in nearest(sizes)}
    for i in range(replicates):
        rng = np.random.default_rng([i, 18])
        for j, spread in enumerate(watch(space, rng, sizes)):
            false[i, j] = false_ones(spread, levels, truths, space.log_ceiling, ideal * (1 - 1e-6))
            if j in shares and i < CHOICES:
                chosen = guaranteed_level(spread, "tvd", CONSTRAINT, ground)
                shares[j].append(space.rate(math.exp(chosen)) / space.rate(ideal))
    return false, shares


def simulation_tables(replicates):
    sizes = np.unique(np.geomspace(FIRST, LAST, LOOKS).round().astype(int))
    every, tightness = [], []
    print(
        f"{replicates} runs of each space at {len(RATES)} levels, of confidence 95 %. Per cent of"
    )
    print("runs in which the guarantee at a level was ever false, at the worst of the levels:\n")
    print("| space | M/Z | " + " | ".join(PARTS) + " |")
    print("|---|" + "---|" * (1 + len(PARTS)))
    for space in spaces():
        false, shares = simulate(space, replicates, sizes)
        every.append(false)
        tightness.append((space, shares))
        ever = false.any(axis=1).mean(axis=0).max(axis=1)
        cells = " | ".join(f"{100 * x:.1f}" for x in ever)
        over = math.exp(space.log_ceiling) / space.z
        print(f"| {space.name} | {over:.3g} | {cells} |", flush=True)
    together = np.concatenate(every)
    lines = [
        (f"all spaces and levels, at any of {len(sizes)} looks", together.any(axis=1)),
        *(
            (f"all spaces and levels, at {sizes[j]:,} draws", together[:, j])
            for j in nearest(sizes)
        ),
    ]
    for what, false in lines:
        cells = " | ".join(f"{100 * x:.2f}" for x in false.mean(axis=(0, 2)))
        print(f"| **{what}** | | {cells} |")
    print(
        f"\nThe acceptance rate of the beta guaranteed for TVD {CONSTRAINT}, as a share of the "
        "ideal one:"
    )
    print("the median of", min(CHOICES, replicates), "runs.\n")
    print("| space | ideal rate | " + " | ".join(f"{sizes[j]:,}" for j in nearest(sizes)) + " |")
    print("|---|---|" + "---|" * 4)
    for space, shares in tightness:
        cells = " | ".join(f"{np.median(share):.2f}" for share in shares.values())
        print(f"| {space.name} | {space.rate(space.ideal()):.3g} | {cells} |", flush=True)


def nearest(sizes):
    """Return the looks nearest to 5,000, 20,000, 100,000 and 1,000,000 draws."""
    return [int(np.abs(np.log(sizes / n)).argmin()) for n in (5_000, 20_000, 100_000, 1_000_000)]


def run_table(folder):
    """Print the guarantees of a run's draws, and the choice on resamples of them."""
    store = Store.open(folder)
    draws = qr.Draws.load(store, items=False)
    w, often = np.unique(np.exp(draws.log_p - draws.log_q), return_counts=True)
    space = Space(str(folder), often / often.sum(), w)
    ground = Assumptions(log_ceiling=store.log_ceiling, basis="known")
    betas = np.array([0.5, 1, 1.515, 2, 3, 5, 8])
    spread = spread_of(space, often, np.zeros(len(w), int))
    bounds = upper_bounds("tvd", spread, np.log(betas), alpha=0.05, log_ceiling=ground.log_ceiling)
    print(f"\n| {len(draws):,} draws: beta | " + " | ".join(f"{beta:g}" for beta in betas) + " |")
    print("|---|" + "---|" * len(betas))
    print("| TVD guaranteed | " + " | ".join(f"{bound:.4f}" for bound in bounds) + " |")
    ideal = space.rate(space.ideal())
    print(f"\nthe choice on 200 resamples, as a share of the ideal rate {ideal:.4f}, by draws:\n")
    print("| draws | median | least |\n|---|---|---|")
    rng = np.random.default_rng(0)
    for n in (20_000, 100_000, 1_000_000):
        shares = [
            space.rate(
                math.exp(guaranteed_level(next(watch(space, rng, [n])), "tvd", CONSTRAINT, ground))
            )
            / ideal
            for _ in range(200)
        ]
        print(f"| {n:,} | {np.median(shares):.3f} | {min(shares):.3f} |")


def cost_table(n):
    """Print what the guarantees of a curve cost beside the curve itself."""
    rng = np.random.default_rng(0)
    log_q = rng.normal(size=n)
    log_ratio = np.minimum(rng.normal(0, 1.5, n), 5.0)
    flag = rng.random(n) < 0.2
    draws = qr.Draws.from_arrays(log_q + log_ratio, log_q, features={"flag": flag})
    seconds = best(lambda: qr.tradeoff(draws), 2)
    curve = qr.tradeoff(draws)
    ratios = SortedRatios(log_ratio, [flag], [flag])
    ground = Assumptions(log_ceiling=5.0, basis="known")

    def spread():
        return BinnedDraws.of_sorted(
            n, ratios.log_w, features={"flag": ratios._low[0]}, bounds={"flag": (0.0, 1.0)}
        )

    made = spread()
    spreading = best(spread, 2)
    guaranteeing = best(lambda: guarantees(made, curve.log_betas, ground), 2)
    one = best(lambda: upper_bounds("tvd", made, np.zeros(1), alpha=0.05, log_ceiling=5.0), 5)
    choosing = best(lambda: guaranteed_level(made, "tvd", CONSTRAINT, ground), 5)
    print(f"\n| {n:,} draws, {len(curve)} betas | seconds | times the trade-off |\n|---|---|---|")
    for what, took in (
        ("the trade-off", seconds),
        ("all guarantees of the curve, with one feature", spreading + guaranteeing),
        ("of which binning the sorted draws", spreading),
        ("one upper bound on TVD, from the bins", one),
        ("the guaranteed beta for TVD 0.1, from the bins", choosing),
    ):
        print(f"| {what} | {took:.4f} | {took / seconds:.3g} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replicates", type=int, default=100)
    parser.add_argument("--draws", type=int, default=10_000_000, help="draws of the table of costs")
    parser.add_argument("--run", help="the folder of a run, for the tightness on its draws")
    arguments = parser.parse_args()
    start = time.perf_counter()
    if arguments.replicates:
        simulation_tables(arguments.replicates)
    if arguments.draws:
        cost_table(arguments.draws)
    if arguments.run:
        run_table(arguments.run)
    print(f"\n{time.perf_counter() - start:.0f} seconds")


if __name__ == "__main__":
    main()
