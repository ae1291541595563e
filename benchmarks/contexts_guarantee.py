"""The guarantee over contexts: how often it is false, and how tight it is.

    python -m benchmarks.contexts_guarantee --replicates 200

Contexts are finite spaces whose truths are known. In each run the draws choose the betas (by the
estimate of TVD), and also how many draws each context gets next: those with the worst guarantee get
twice as many. It looks after every round, and prints the tables of docs/records/guarantees.md.
"""

import argparse
import math
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

from quasir.estimation.betting import upper_bounds
from quasir.estimation.binned_draws import BinnedDraws
from quasir.estimation.guarantee import LEVELS, Assumptions, mean_guarantee, tvd_evidence

CONSTRAINT = 0.05


@dataclass(frozen=True, eq=False)
class Space:
    """A finite space: items with the mass q and the ratio w."""

    q: np.ndarray
    w: np.ndarray

    @property
    def log_ceiling(self):
        return math.log(self.w.max())

    def tvd(self, beta, q=None):
        """Return the exact TVD at beta, or the one of draws with the shares q."""
        q = self.q if q is None else q
        kept = q * np.minimum(self.w, beta)
        p = q * self.w
        return float(np.abs(p / p.sum() - kept / kept.sum()).sum()) / 2

    def spread(self, counts):
        order = np.argsort(self.w)
        order = order[(self.w[order] > 0) & (counts[order] > 0)]
        return BinnedDraws.of_sorted(int(counts.sum()), np.log(self.w[order]), often=counts[order])

    def chosen(self, counts):
        """Return the beta at which the estimate of TVD meets the constraint."""
        q = counts / counts.sum()
        seen = self.w[(counts > 0) & (self.w > 0)]
        low, high = math.log(seen.min()), math.log(seen.max())
        for _ in range(30):
            middle = (low + high) / 2
            met = self.tvd(math.exp(middle), q) <= CONSTRAINT
            low, high = (low, middle) if met else (middle, high)
        return math.exp(high)


def lognormal(scale, impossible=0.0, points=200):
    area = (np.arange(points) + 0.5) / points
    q = np.append(impossible, np.full(points, (1 - impossible) / points))
    return Space(q, np.append(0.0, np.exp(scale * norm.isf(area))))


def rare(chance, ratio):
    return Space(np.array([1 - chance, chance]), np.array([1.0, ratio]))


KINDS = (lognormal(0.7), lognormal(1.2, 0.7), rare(2e-3, 100.0), rare(0.02, 10.0))


@dataclass
class Look:
    """What one look shows: truth, estimate, our guarantee, and the one of a union bound."""

    draws: float
    true: float
    estimate: float
    guarantee: float
    union: float


def looks(contexts, first, rounds, rng, confidence=0.95, ceiling=None, kinds=KINDS):
    """Yield the looks of one run; `ceiling(space, counts)` may give a wrong one."""
    every = [kinds[i % len(kinds)] for i in range(contexts)]
    counts = [rng.multinomial(first, space.q) for space in every]
    for round_ in range(rounds):
        found = []
        for space, count in zip(every, counts, strict=True):
            beta = space.chosen(count)
            spread = space.spread(count)
            top = space.log_ceiling if ceiling is None else ceiling(space, count)
            known = tvd_evidence(spread, math.log(beta), Assumptions(log_ceiling=top))
            found.append((space.tvd(beta), space.tvd(beta, count / count.sum()), known, beta, top))
        true, estimate, evidence, betas, tops = map(list, zip(*found, strict=True))
        guarantee = mean_guarantee(evidence, contexts, confidence)
        yield Look(
            draws=float(np.mean([count.sum() for count in counts])),
            true=float(np.mean(true)),
            estimate=float(np.mean(estimate)),
            guarantee=guarantee.tvd,
            union=_mean_bound(every, counts, betas, tops, (1 - confidence) / contexts),
        )
        if round_ < rounds - 1:
            # The half with the least wealth gets twice as many draws as the others.
            order = np.argsort(
                [float(np.clip(known.log_wealth, -50, 50).sum()) for known in evidence]
            )
            for rank, i in enumerate(order):
                more = counts[i].sum() * (2 if rank < contexts // 2 else 1)
                counts[i] = counts[i] + rng.multinomial(more, every[i].q)


def _mean_bound(every, counts, betas, tops, alpha):
    """Return the mean of the contexts' own bounds at 1 - alpha each."""
    bounds = [
        upper_bounds("tvd", space.spread(count), np.log([beta]), alpha=alpha, log_ceiling=top)[0]
        for space, count, beta, top in zip(every, counts, betas, tops, strict=True)
    ]
    return float(np.mean(bounds))


def main():
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replicates", type=int, default=200)
    parser.add_argument("--contexts", type=int, nargs="+", default=[4, 20, 100, 400])
    parser.add_argument("--first", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=4)
    asked = parser.parse_args()
    print(
        f"Betas by the estimate of TVD ({CONSTRAINT:g}), {len(LEVELS)} levels, confidence 95 %.\n"
    )
    print(
        "| contexts | runs | ever false, % | draws a context | true | estimate | guarantee | union "
        "|"
    )
    print("|---|---|---|---|---|---|---|---|")
    for contexts in asked.contexts:
        runs = max(10, min(asked.replicates, 40 * asked.replicates // contexts))
        rng = np.random.default_rng(contexts)
        made = [list(looks(contexts, asked.first, asked.rounds, rng)) for _ in range(runs)]
        false = np.mean([any(look.guarantee < look.true for look in run) for run in made])
        for i in (0, asked.rounds - 1):
            at = [run[i] for run in made]
            mean = {name: np.mean([getattr(look, name) for look in at]) for name in vars(at[0])}
            print(
                f"| {contexts} | {runs} | {100 * false:.1f} | {mean['draws']:,.0f} "
                f"| {mean['true']:.4f} | {mean['estimate']:.4f} | {mean['guarantee']:.4f} "
                f"| {mean['union']:.4f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
