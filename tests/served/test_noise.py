"""Noise in log q - log a, injected into a model that can be enumerated."""

import dataclasses
import itertools

import numpy as np
import pytest

import quasir as qr
from quasir.draws.draw_blocks import log_ratio_noise, tvd_of_noise
from tests.text import tiny

P = np.array([0.30, 0.25, 0.20, 0.15, 0.07, 0.03])
Q = np.array([0.10, 0.15, 0.15, 0.20, 0.20, 0.20])


def tvd(p, q):
    return 0.5 * np.abs(p / p.sum() - q / q.sum()).sum()


def accepted(ratio, beta):
    """Return the distribution that QRS accepts, from the ratios that it is given."""
    found = Q * np.minimum(1, ratio / beta)
    return found / found.sum()


@pytest.mark.parametrize("delta", [0.001, 0.05, 0.4, 1.5])
def test_noise_adds_at_most_what_is_stated_at_every_level(delta):
    worst = 0.0
    for signs in itertools.product((-1.0, 0.0, 1.0), repeat=len(P)):
        ratio = P / Q * np.exp(delta * np.array(signs))
        for beta in (0.2, 0.7, 1.0, 2.0, 4.0, 50.0):
            certified = tvd(Q * ratio, accepted(ratio, beta))
            true = tvd(P, accepted(ratio, beta))
            assert true <= certified + tvd_of_noise(delta) + 1e-12
            worst = max(worst, (true - certified) / tvd_of_noise(delta))
    assert worst > 0.9  # it is not far below either


def test_the_bound_is_reached_and_a_smaller_one_would_be_false():
    delta = 0.3
    up = 1 / (1 + np.exp(delta))  # the mass whose ratios are too large
    p = np.array([up, 1 - up])
    noisy = p * np.exp([delta, -delta])
    assert tvd(p, noisy) == pytest.approx(tvd_of_noise(delta), abs=1e-12)


def test_random_noise_that_averages_out_adds_less():
    rng, delta, beta = np.random.default_rng(0), 0.4, 50.0
    noise = delta * (1 - 2 * rng.integers(0, 2, (20_000, len(P))))
    share = (Q * np.minimum(1, P / Q * np.exp(noise) / beta)).mean(axis=0)
    assert tvd(P, share) < tvd_of_noise(delta) / 20


class Noisy:
    """A table whose `log_prob` is off, as a server's is, and says by how much."""

    mismatch = 0.2

    def __init__(self, weights):
        self.table = qr.Table({str(i): w for i, w in enumerate(weights)})

    def sample(self, n, rng):
        return self.table.sample(n, rng)

    def log_prob(self, items):
        signs = np.array([1 - 2 * (int(item) % 2) for item in items])
        return self.table.log_prob(items) + self.mismatch * signs

    log_score = log_prob


def test_draws_carry_the_warning_and_estimates_are_right_up_to_it():
    base, other = Noisy(P), Noisy(Q)
    assert log_ratio_noise(base, base) == 0.0
    assert log_ratio_noise(base, other) == pytest.approx(0.2)
    assert log_ratio_noise(base, qr.Mixture([base, other])) == pytest.approx(0.4)
    draws = qr.draw(base, other, 40_000, seed=0)
    (warning,) = draws.warnings
    assert "up to 0.2 nats" in warning
    assert f"{tvd_of_noise(0.2):.2g}" in warning
    beta = 4.0  # above every ratio, with noise
    items = [str(draws.items[i]) for i in draws.accepted(beta=beta)]
    share = np.array([items.count(str(i)) for i in range(len(P))]) / len(items)
    certificate = qr.tradeoff(draws).at(beta=beta)
    true, se = tvd(P, share), np.sqrt(len(P) / len(items))
    assert tvd_of_noise(0.2) / 2 < true < certificate.tvd.high + tvd_of_noise(0.2) + se
    log_z = certificate.log_z
    assert abs(log_z.value) <= 0.2 + 4 * log_z.se


def test_a_model_in_bfloat16_states_its_noise():
    """A pass over a whole text rounds otherwise than one token after another."""
    words = tiny.tokenizer(["a", "b", "c", "d"])
    network = tiny.gpt2(len(words), scale=0.1, n_embd=576, n_layer=3, n_head=9)
    single = qr.text.CausalLM(model=network, tokenizer=words, max_tokens=20)
    assert single.mismatch == 0.0
    half = qr.text.CausalLM(model=network.bfloat16(), tokenizer=words, max_tokens=20)
    assert 0.001 < half.mismatch < 2
    other, target = half.varied(temperature=1.2), half * qr.features.contains("a")
    assert log_ratio_noise(target, other) == half.mismatch
    (warning,) = qr.draw(target, other, 64, seed=0).warnings
    assert f"up to {half.mismatch:.2g} nats away from what they were drawn with" in warning


def test_a_ratio_above_its_ceiling_neither_stops_a_run_nor_is_hidden():
    draws = qr.draw(Noisy(P), Noisy(Q), 2_000, seed=0)
    known = qr.draws.ceiling.RatioBounds(log_ceiling=np.log(3.0), basis="By what q declares.")
    assert draws.log_ratio.max() > np.log(3.0)
    certificate = qr.tradeoff(dataclasses.replace(draws, known=known)).at(beta=3.5)
    assert "The ceiling or the scores are wrong" in " ".join(str(certificate).split())
