"""The core: the trade-off, the samplers, and the import."""

import subprocess
import sys
import tracemalloc

import numpy as np
from scipy import stats

import quasir as qr
from benchmarks.show import best

N, BETAS = 10_000_000, 200
SAMPLED = 2_000_000


def rows():
    yield from tradeoff_rows()
    yield from sampler_rows()
    yield import_row()


def one_beta(w, beta):
    """Compute Eqs. 2, 7, 9 and 10 with delta-method standard errors, directly as in the paper."""
    n = len(w)
    w_b = np.minimum(w, beta)
    z, z_b = w.mean(), w_b.mean()
    y, v = w / z, w_b / z_b
    above = w > beta
    bound = y[above].sum() / n
    c = y > v
    excess = np.where(c, y - v, 0)
    p_c, q_c = y[c].sum() / n, v[c].sum() / n
    gain = y * np.log(w / w_b)
    k = gain.mean()
    influences = (v - 1, y * (above - bound), excess - p_c * y + q_c * v, v - y + gain - k * y)
    values = (z_b / beta, bound, excess.mean(), np.log(z_b / z) + k)
    return values, [np.sqrt((i**2).mean() / n) for i in influences]


def tradeoff_rows():
    rng = np.random.default_rng(0)
    log_w = rng.normal(0, 1.5, N)
    draws = qr.Draws.from_arrays(log_w, np.zeros(N))
    log_betas = np.linspace(-3, 7, BETAS)
    ours = best(lambda: qr.tradeoff(draws, log_betas=log_betas))
    sort = best(lambda: np.sort(log_w))
    w, few = np.exp(log_w), [0.5, 20.0]
    naive = best(lambda: [one_beta(w, beta) for beta in few], 1) / len(few) * BETAS
    curve = qr.tradeoff(draws, betas=few)
    for i, beta in enumerate(few):
        values, errors = one_beta(w, beta)
        for j, name in enumerate(("acceptance_rate", "tvd_bound", "tvd", "kl")):
            np.testing.assert_allclose(getattr(curve, name).value[i], values[j], rtol=1e-9)
            if j:
                np.testing.assert_allclose(getattr(curve, name).se[i], errors[j], rtol=1e-7)
    detail = f"{N:,} draws, {BETAS} betas: {ours:.3f} s"
    yield (
        "trade-off: times faster than one beta at a time",
        naive / ours,
        ">= 100",
        f"{detail} against {naive:.0f} s (two betas measured, times {BETAS // len(few)})",
    )
    yield "trade-off: times the cost of np.sort", ours / sort, "<= 8", f"np.sort {sort:.3f} s"
    tracemalloc.start()
    qr.tradeoff(draws, log_betas=log_betas)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    yield (
        "trade-off: peak memory, in arrays of that length",
        peak / log_w.nbytes,
        "<= 8",
        f"{peak / 1e6:.0f} MB above the draws",
    )


def bare(score, batch=65_536):
    """Propose, score and compare with numpy, and nothing else."""
    rng = np.random.default_rng(0)
    kept = []
    for _ in range(SAMPLED // batch):
        x = rng.poisson(10, batch)
        kept.append(x[rng.random(batch) < np.exp(score(x) - np.log(2.0))])
    return np.concatenate(kept)


def sampler_rows():
    target, proposal = qr.from_scipy(stats.poisson(11)), qr.from_scipy(stats.poisson(10))
    p, q = stats.poisson(11), stats.poisson(10)
    made = SAMPLED // 65_536 * 65_536
    scipy_rate = made / best(lambda: bare(lambda x: p.logpmf(x) - q.logpmf(x)))
    closed_rate = made / best(lambda: bare(lambda x: x * np.log(1.1) - 1.0))
    sampler = qr.QRS(target, proposal, beta=2)
    wanted = int(SAMPLED * 0.49)
    proposed = sampler.sample(wanted, seed=0).proposals
    rate = proposed / best(lambda: sampler.sample(wanted, seed=0))
    incremental = qr.IncrementalQRS(target, proposal, acceptance_rate=0.5)
    incremental_rate = SAMPLED / best(lambda: incremental.sample(SAMPLED // 2, seed=0))
    sparse = qr.IncrementalQRS(target, proposal, acceptance_rate=1e-2)
    sparse_rate = SAMPLED / best(lambda: sparse.sample(SAMPLED // 100, seed=0))
    for name, value, wanted_ratio in (
        ("QRS", rate, ">= 0.5"),
        ("IncrementalQRS at 0.5", incremental_rate, ">= 0.4"),
        ("IncrementalQRS at 0.01", sparse_rate, ">= 0.4"),
    ):
        for bare_name, bare_rate in (("scipy", scipy_rate), ("closed-form", closed_rate)):
            yield (
                f"{name}: proposals/s against bare numpy with {bare_name} scores",
                value / bare_rate,
                wanted_ratio,
                f"{value / 1e6:.2f} against {bare_rate / 1e6:.2f} million a second",
            )


def import_row():
    def seconds(modules):
        code = f"import time; s = time.perf_counter(); import {modules}; e = time.perf_counter()"
        code += "; print(e - s)"
        runs = [
            subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
            for _ in range(7)
        ]
        return min(float(run.stdout) for run in runs)

    ours, theirs = seconds("quasir"), seconds("numpy, scipy.special")
    return (
        "import quasir: times the import of numpy and scipy.special",
        ours / theirs,
        "<= 2",
        f"{ours:.3f} s against {theirs:.3f} s, the best of seven each",
    )
