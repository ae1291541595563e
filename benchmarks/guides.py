"""Guided decoding against plain decoding: draws a second, in one process, and the fit's time."""

import time

import numpy as np

import quasir as qr

N = 1024
REGEX = r"[^0-9]*[0-9]{4}[^0-9]*"
"""Texts with one year; most are cut before they end."""


def rows():
    base = qr.text.CausalLM("quasir/biographies", device="cpu")
    f = qr.features
    words = {f.science: 12.0, f.female: 4.0}
    cases = {
        "boosted, share 0.2": (base.guided(qr.guides.boost(words), 0.2), ">= 0.9"),
        "masked": (base.guided(qr.guides.regex(REGEX, complete=False)), ">= 0.75"),
        "masked and boosted": (
            base.guided(qr.guides.regex(REGEX, complete=False) * qr.guides.boost(words)),
            ">= 0",
        ),
    }
    for q, _ in cases.values():
        q.sample(32, np.random.default_rng(0))  # the machine is made once
    for name, (q, wanted) in cases.items():
        plain, guided = in_turn(base, q)
        yield (
            f"built-in model: {name}, draws/s against plain decoding",
            plain / guided,
            wanted,
            f"{N / guided:.0f} against {N / plain:.0f} a second of CPU time, each at its best",
        )
    yield fit_row(base)


def in_turn(base, q, times=3):
    """Return the shortest CPU times of both, alternating against the machine's noise."""
    seconds = [(spent(base), spent(q)) for _ in range(times)]
    return tuple(map(min, zip(*seconds, strict=True)))


def spent(proposal):
    start = time.process_time()
    proposal.sample(N, np.random.default_rng(0))
    return time.process_time() - start


def fit_row(base, n=1024):
    """Time the optimiser alone, on a pilot of the `scientists` recipe."""
    from quasir.text import guide_fit

    f = qr.features
    target = base * f.science * qr.tilt(f.female, 2.5035)
    inner, seconds = guide_fit.minimise_distance, []

    def timed(*arguments):
        start = time.process_time()
        fit = inner(*arguments)
        seconds.append(time.process_time() - start)
        return fit

    guide_fit.minimise_distance = timed
    try:
        base.guided(qr.guides.boost([f.science, f.female]), 0.2).fit(
            target, n=n, seed=0, progress=False
        )
    finally:
        guide_fit.minimise_distance = inner
    return (
        "fit of a boost: CPU seconds of the optimiser, each round",
        max(seconds),
        "<= 1",
        f"a pilot of {n} draws, {len(seconds)} rounds fitted",
    )
