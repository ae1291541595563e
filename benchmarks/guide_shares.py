"""What share of the base a guided proposal should have, for estimates and for guarantees.

    python -m benchmarks.guide_shares scientists

With the guide of a built-in recipe, draws of the guided model and of the base are made, and scored
by both. From these, draws at any share are put together (with replacement), and beta is chosen for
TVD 0.1, by the estimate and by the guarantee. A larger share wastes more draws, but lowers the
ceiling, on which guarantees rest.
"""

import argparse
import math
from pathlib import Path

import numpy as np

import quasir as qr
from quasir import recipes
from quasir.recipes.building import build, resolve

CONSTRAINT, REPEATS, PART = 0.1, 6, 1024


def pool(target, q, n, of_guide, rng):
    """Return log a, log of the guided model, and log b of n draws."""
    parts = []
    for _ in range(0, n, PART):
        if of_guide:
            items, log_guided, log_a = q.sample_scored(PART, rng)
        else:
            items, log_a = q.base.sample(PART, rng)
            _, log_guided = q.log_prob_each(items)
        log_p = target.scores(items, log_base=log_a).log_p
        parts.append((log_a, log_guided, log_p - log_a))
    return [np.concatenate(column) for column in zip(*parts, strict=True)]


def row(guided, base, share, n, log_most):
    """Return the mean acceptance rates at TVD 0.1, by the estimate and by the guarantee."""
    rates = []
    for seed in range(REPEATS):
        rng = np.random.default_rng(seed)
        own = rng.binomial(n, share)
        places = rng.integers(0, len(base[0]), own), rng.integers(0, len(guided[0]), n - own)
        log_a, log_guided, log_b = (
            np.concatenate([one[places[0]], other[places[1]]])
            for one, other in zip(base, guided, strict=True)
        )
        log_q = np.logaddexp(math.log(share) + log_a, math.log1p(-share) + log_guided)
        top = log_most - math.log(share) + 1e-6
        curve = qr.tradeoff(qr.Draws.from_arrays(log_a + log_b, log_q, log_ceiling=top))
        certificates = curve.at(tvd=CONSTRAINT), curve.at(tvd=CONSTRAINT, confidence=0.95)
        rates.append([cert.acceptance_rate.value for cert in certificates])
    return np.mean(rates, axis=0)


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description="The share of the base in a guided proposal.")
    parser.add_argument("recipe")
    parser.add_argument("--guided", type=int, default=12 * PART)
    parser.add_argument("--base", type=int, default=8 * PART)
    arguments = parser.parse_args()
    path = recipes.find(arguments.recipe)
    recipe = recipes.read(Path(path))
    built = build(recipe, path.parent)
    _, target = resolve(recipe, built)
    q = built.base.guided(built.proposal.guide)
    rng = np.random.default_rng(5)
    guided = pool(target, q, arguments.guided, True, rng)
    base = pool(target, q, arguments.base, False, rng)
    log_most = sum(factor.log_most() for factor in target.factors)
    print("| share | draws | M/Z | estimated | guaranteed |\n|---|---|---|---|---|")
    z = float(np.exp(base[2]).mean())
    for share in (0.05, 0.1, 0.2, 0.3, 0.4, 0.5):
        for n in (20_000, 40_000):
            estimated, guaranteed = row(guided, base, share, n, log_most)
            ratio = math.exp(log_most) / share / z
            print(
                f"| {share} | {n:,} | {ratio:.0f} | {estimated:.4f} | {guaranteed:.4f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
