"""A constraint on a small base: all scientists, half of them women, and texts not too long.

The base is a table of 30 one-line biographies, so every number can be checked by enumeration.
To use a language model instead, only the base has to change.

    python examples/constraint.py
"""

import itertools

import numpy as np

import quasir as qr

NAMES = {"She": 0.15, "He": 0.85}
JOBS = {"chemist": 0.02, "historian": 0.03, "footballer": 0.25, "singer": 0.3, "politician": 0.4}
ENDS = {"from Oslo": 0.3, "born in Lima in 1912": 0.5, "who lived in Rome and in Cairo": 0.2}


def biographies():
    """Return the base: a probability for each biography."""
    # Women are rarer among scientists than elsewhere, as in the data that the paper corrects.
    table = {}
    for (who, a), (job, b), (end, c) in itertools.product(
        NAMES.items(), JOBS.items(), ENDS.items()
    ):
        rarer = 0.5 if who == "She" and job in ("chemist", "historian") else 1.0
        table[f"{who} is a {job} {end}."] = a * b * c * rarer
    return qr.Table(table)


def main():
    """Print the constraint, lambda, the moments that are reached, and the cost of sampling."""
    base = biographies()
    length = qr.features.length("words", name="words")
    constraint = {qr.features.science: 1.0, qr.features.female: 0.5, length: 7.0}
    target = qr.constrain(base, constraint, n=200_000, seed=0)
    print("The constraint, the coefficients, and the moments of the target:\n")
    print(target)

    texts = list(base.support)
    p = np.exp(target.log_score(texts))
    p /= p.sum()
    print("\nThe same by enumeration:")
    for feature in constraint:
        print(f"{feature.name:<24} {p @ feature(texts):>8.4f}")
    a = np.exp(base.log_prob(texts))
    inside = p > 0
    print(f"KL(p, a) = {p[inside] @ np.log(p[inside] / a[inside]):.4f} nats")

    print("\nOn 200,000 fresh draws:")
    for name, part in target.check(200_000, seed=1).items():
        print(f"{name:<24} {part}")

    draws = qr.draw(target, base, 200_000, seed=2)
    cert = qr.tradeoff(draws).at(tvd=0.01)
    print(f"\n{cert}\n")
    for item in qr.QRS(target, base, log_beta=cert.log_beta).sample(6, seed=3).items:
        print(f"  {item}")


if __name__ == "__main__":
    main()
