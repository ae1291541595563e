"""The z-scores of samples against their certificate are z-scores."""

import numpy as np
import pytest

import quasir as qr
from quasir.runs.sampling import AcceptanceSums, compared, sample_run, warnings_of

TARGET = qr.Table(dict(zip("abcdef", [0.3, 0.25, 0.2, 0.1, 0.1, 0.05], strict=True)))
PROPOSAL = qr.Table(dict(zip("abcdef", [0.05, 0.1, 0.1, 0.2, 0.25, 0.3], strict=True)))
PLACE = qr.Feature("place", lambda x: "abcdef".index(x))
WATCHED = qr.Product(TARGET, watched=[PLACE])


def one(seed, stored, n, beta):
    """Return the check of n samples, from `stored` draws and from what is drawn on."""
    draws = qr.draw(WATCHED, PROPOSAL, 4096, seed=seed)
    few = draws.take(np.arange(stored))
    certificate = qr.tradeoff(few, betas=[beta]).at(beta=beta)
    sampled = sample_run(few, certificate, n)
    if len(sampled.samples) < n:
        # The certificate of the first draws against samples that go beyond them.
        more = sample_run(draws, certificate, n)
        assert len(more.samples) == n
        return compared(more.samples, certificate, AcceptanceSums.of(draws, certificate))[0]
    return sampled.checks[0]


@pytest.mark.parametrize(
    ("stored", "n", "beta"),
    [(4096, 1500, 1.0), (4096, 200, 1.0), (1024, 900, 2.0), (4096, 600, 5.0)],
    ids=["most of the draws", "a few of the draws", "more than the draws", "exact"],
)
def test_their_spread_is_1(stored, n, beta):
    z = np.array([one(seed, stored, n, beta).z for seed in range(200)])
    # The sample variance of 200 standard normals is within 0.4 of 1, but for 1 time in 10,000.
    assert abs(z.var() - 1) < 0.4
    assert abs(z.mean()) < 4 / np.sqrt(200)


def test_samples_of_another_beta_are_found_out():
    draws = qr.draw(WATCHED, PROPOSAL, 50_000, seed=0)
    curve = qr.tradeoff(draws)
    right, wrong = curve.at(beta=4.0), curve.at(beta=0.5)
    sampled = sample_run(draws, wrong, 5000)
    assert not warnings_of(sampled.checks)
    (check,) = compared(sampled.samples, right, AcceptanceSums.of(draws, right))
    assert abs(check.z) > 4
    (warning,) = warnings_of([check])
    assert "standard errors apart" in warning


def test_a_moment_that_cannot_vary():
    always = qr.Product(TARGET, watched=[qr.Feature("always", lambda x: True)])
    draws = qr.draw(always, PROPOSAL, 2000, seed=0)
    sampled = sample_run(draws, qr.tradeoff(draws).at(beta=1.0), 100)
    assert sampled.checks[0].z == 0
    assert sampled.checks[0].to_dict()["observed"] == 1.0


def test_no_samples_at_all():
    draws = qr.draw(WATCHED, PROPOSAL, 100, seed=0)
    certificate = qr.tradeoff(draws).at(log_beta=50.0)
    sampled = sample_run(draws, certificate, 10)
    assert len(sampled.samples) == 0
    assert sampled.checks[0].to_dict()["z"] is None
