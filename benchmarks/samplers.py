"""Samplers: replaying stored draws, and many chains at once."""

import numpy as np

import quasir as qr
from benchmarks.show import best
from quasir.samplers import IMH

DRAWS = 10**6


def rows():
    rng = np.random.default_rng(0)
    for spread, how in (
        (0.3, "nearly all accepted"),
        (1.0, "half accepted"),
        (4.0, "few accepted"),
    ):
        log_w = spread * rng.normal(size=DRAWS)
        yield replay_row(qr.Draws.from_arrays(log_w, np.zeros(DRAWS)), how)


def replay_row(draws, how):
    sampler = IMH(None, None)
    ours = best(lambda: sampler.replay(draws))
    bare = best(lambda: bare_pass(draws))
    rate = sampler.replay(draws).move_rate
    return (
        f"IMH: replay over a bare pass, {how}",
        ours / bare,
        "<= 5",
        f"{len(draws):,} draws: {ours:.3f} s against {bare:.3f} s; {rate:.0%} of steps move",
    )


def bare_pass(draws):
    """Run Algorithm 3 as a plain loop over lists, the fastest that Python has for it."""
    log_alpha, log_w = draws.log_alpha.tolist(), draws.log_ratio.tolist()
    here, states, weight = -1, [], -np.inf
    for j, alpha in enumerate(log_alpha):
        if alpha > weight:
            here, weight = j, log_w[j]
        states.append(here)
    return states
