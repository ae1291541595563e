"""How often the 95 % intervals cover the exact value, on many finite spaces.

    python -m benchmarks.coverage --replicates 400

For each space and acceptance rate it prints how often our intervals cover AR, TVD, KL and the
bound, in brackets how often value +- 1.96 se does, and the share of replicates with warnings. The
table of docs/records/intervals.md is its output.
"""

import argparse

import numpy as np

import quasir as qr

KINDS = ("mild", "impossible", "skewed, flat", "skewed, uneven", "skewed, very uneven")
NAMES = ("acceptance_rate", "tvd", "kl", "tvd_bound")


def space(kind, seed):
    rng = np.random.default_rng(seed)
    if kind == "mild":
        q = rng.dirichlet(np.ones(50))
        return q, q * np.exp(rng.normal(0, 0.5, 50))
    if kind == "impossible":
        q = rng.dirichlet(np.ones(100))
        return q, np.where(rng.random(100) < 0.7, 0.0, q * np.exp(rng.normal(0, 0.7, 100)))
    evenness = {"skewed, flat": np.inf, "skewed, uneven": 1.0, "skewed, very uneven": 0.3}[kind]
    p = np.ones(400) if evenness == np.inf else rng.dirichlet(np.full(400, evenness))
    q = p * np.exp(1.5 * rng.normal(size=400))
    return q / q.sum(), p / p.sum()


def exact(q, p, beta):
    p_b = np.minimum(p, beta * q)
    rate, z = p_b.sum() / beta, p.sum()
    p, p_b, above = p / z, p_b / p_b.sum(), p > beta * q
    with np.errstate(divide="ignore", invalid="ignore"):
        kl = np.where(p > 0, p * np.log(p / p_b), 0).sum()
    return rate, np.abs(p - p_b).sum() / 2, kl, p[above].sum()


def beta_at(q, p, rate):
    low, high = -20.0, 20.0
    for _ in range(80):
        middle = (low + high) / 2
        accepts = np.minimum(p / np.exp(middle), q).sum() > rate
        low, high = (middle, high) if accepts else (low, middle)
    return float(np.exp(low))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replicates", type=int, default=400)
    parser.add_argument("--draws", type=int, default=20_000)
    arguments = parser.parse_args()
    print("| space | rate | above beta | AR | TVD | KL | bound | warnings |")
    print("|---|---|---|---|---|---|---|---|")
    for kind in KINDS:
        for seed in range(3):
            q, p = space(kind, seed)
            rates = (0.9, 0.5, 0.3) if kind in ("mild", "impossible") else (0.4, 0.1, 0.02)
            betas = [beta_at(q, p, rate * q[p > 0].sum()) for rate in rates]
            row(kind, seed, rates, betas, q, p, arguments)


def row(kind, seed, rates, betas, q, p, arguments):
    truth = [exact(q, p, beta) for beta in betas]
    rng = np.random.default_rng(100 + seed)
    with np.errstate(divide="ignore"):
        log_p, log_q = np.log(p), np.log(q)
    ours, plain = np.zeros((2, len(betas), len(NAMES)))
    warnings = np.zeros(len(betas))
    for _ in range(arguments.replicates):
        code = np.repeat(np.arange(len(q)), rng.multinomial(arguments.draws, q))
        curve = qr.tradeoff(qr.Draws.from_arrays(log_p[code], log_q[code]), betas=betas)
        for i, cert in enumerate(curve):
            warnings[i] += bool(cert.warnings)
            for j, name in enumerate(NAMES):
                part, value = getattr(cert, name), truth[i][j]
                ours[i, j] += part.low <= value <= part.high
                plain[i, j] += abs(part.value - value) <= 1.96 * part.se
    n = arguments.replicates
    for i, rate in enumerate(rates):
        above = arguments.draws * q[p > betas[i] * q].sum()
        cells = " | ".join(
            f"{100 * a / n:.1f} ({100 * b / n:.0f})" for a, b in zip(ours[i], plain[i], strict=True)
        )
        print(f"| {kind} {seed} | {rate} | {above:.0f} | {cells} | {100 * warnings[i] / n:.0f} % |")


if __name__ == "__main__":
    main()
