"""What a choice of beta by the same draws does to the samples, and what other draws would cost.

    python -m benchmarks.chosen_samples --replicates 2000

Each run draws N times from a finite space and chooses beta by the estimate of TVD. Its samples are
the accepted draws: of the same N draws, or of the second half after the first half chose. Prints
the Markdown table of docs/records/guarantees.md.
"""

import argparse

import numpy as np

from benchmarks.contexts_guarantee import Space, lognormal, rare

SPACES = {
    "1 in 1,000 has ratio 119": rare(1e-3, 119.0),
    "lognormal 0.7": lognormal(0.7),
    "lognormal 1.5": lognormal(1.5),
}


def one_run(space: Space, n, rng, halved):
    """Return the accepted counts, p_beta, and the acceptance rate at the chosen beta."""
    size = n // 2 if halved else n
    chosen_by = rng.multinomial(size, space.q)
    beta = space.chosen(chosen_by)
    drawn = rng.multinomial(size, space.q) if halved else chosen_by
    kept = space.q * np.minimum(space.w, beta)
    accepted = rng.binomial(drawn, np.minimum(space.w / beta, 1.0))
    return accepted, kept / kept.sum(), kept.sum() / beta


def row(space, n, replicates, halved, rng):
    """Return the shares of the largest ratio, the distance of the pooled samples, and the cost."""
    accepted, laws, rates = map(
        np.array, zip(*(one_run(space, n, rng, halved) for _ in range(replicates)), strict=True)
    )
    samples = accepted.sum(axis=1)
    # What the pooled samples would be if each run's were i.i.d. from its own p_beta.
    expected = (samples[:, None] * laws).sum(axis=0) / samples.sum()
    found = accepted.sum(axis=0) / samples.sum()
    last = int(np.argmax(space.w))
    apart = float(np.abs(found - expected).sum()) / 2
    noise = float(np.sqrt(2 * expected * (1 - expected) / np.pi / samples.sum()).sum()) / 2
    return found[last], expected[last], apart, noise, samples.mean(), rates.std() / rates.mean()


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replicates", type=int, default=2000)
    asked = parser.parse_args()
    print(
        "| space | draws | chosen by | largest ratio: samples | p_beta | pooled samples to p_beta, "
        "TVD | by chance | samples a run | spread of the acceptance rate |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for name, space in SPACES.items():
        for n in (300, 5000):
            for halved in (False, True):
                rng = np.random.default_rng(n)
                made = row(space, n, asked.replicates, halved, rng)
                by = "the first half" if halved else "the same draws"
                print(
                    f"| {name} | {n:,} | {by} | {made[0]:.5f} | {made[1]:.5f} | {made[2]:.5f} "
                    f"| {made[3]:.5f} | {made[4]:,.0f} | {made[5]:.3f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
