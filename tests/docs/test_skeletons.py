"""The skeletons that CONTRIBUTING gives to copy are right."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

import quasir as qr
from quasir.certificates import evaluator
from quasir.core.types import Proposal
from quasir.estimation import formulas
from quasir.estimation.quantities import QUANTITIES
from tests.reference import exact
from tests.statistical.goodness import fits

SKELETONS = Path(__file__).parents[2] / "docs" / "skeletons"
P, Q = [0.4, 0.3, 0.2, 0.1], [0.1, 0.2, 0.3, 0.4]
TARGET, PROPOSAL = (qr.Table(dict(zip("abcd", weights, strict=True))) for weights in (P, Q))


def skeleton(name):
    spec = importlib.util.spec_from_file_location(f"skeleton_{name}", SKELETONS / f"{name}.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("beta", [0.5, 1.5, 4.0])
def test_the_samples_follow_p_beta(beta):
    sampler = skeleton("sampler").Thinned(TARGET, PROPOSAL, beta, thin=3)
    samples = sampler.sample(20_000, seed=1)
    assert fits(samples.items, "abcd", exact(Q, P, beta)["p_beta"])
    assert not fits(samples.items, "abcd", Q)


def test_the_sampler_is_thinned_replays_and_keeps_to_its_budget():
    sampler = skeleton("sampler").Thinned(TARGET, PROPOSAL, 1.5, thin=3)
    draws = qr.draw(TARGET, PROPOSAL, 5000, seed=2)
    every_third = draws.accepted(beta=1.5)[::3]
    assert list(sampler.sample(100, seed=2)) == list(draws.take(every_third[:100]))
    assert list(sampler.replay(draws)) == list(draws.take(every_third))
    with pytest.raises(qr.errors.BudgetExceeded):
        sampler.sample(1000, seed=2, max_proposals=1000)


def test_the_proposal_sums_to_1_and_draws_what_it_scores():
    geometric = skeleton("proposal").Geometric(0.3)
    assert isinstance(geometric, Proposal)
    support = np.arange(200)
    probabilities = np.exp(geometric.log_prob(support))
    assert probabilities.sum() == pytest.approx(1.0, abs=1e-12)
    items, log_q = geometric.sample(20_000, np.random.default_rng(0))
    np.testing.assert_array_equal(log_q, geometric.log_prob(items))
    assert fits(items.tolist(), support.tolist(), probabilities)
    few, _ = geometric.sample(50, np.random.default_rng(0))
    np.testing.assert_array_equal(few, items[:50])
    assert geometric.log_prob([-1, 0.5]).tolist() == [-np.inf, -np.inf]


def test_the_feature_works_in_python_and_in_a_recipe(tmp_path):
    feature = skeleton("feature").double_letters()
    assert feature(["book", "bok", ""]).tolist() == [True, False, False]
    assert feature.spans("balloon") == [(2, 4), (4, 6)]
    (tmp_path / "feature.py").write_text((SKELETONS / "feature.py").read_text())
    (tmp_path / "mine.yaml").write_text(
        "base: {table: {book: 1, bok: 3}}\nwant: {doubled: 1}\ndraws: 2000\nsamples: 50\n"
        'features: {doubled: {python: "feature.py:has_double", boolean: true}}\n'
    )
    run = qr.run(tmp_path / "mine.yaml", out=tmp_path / "run", allow_code=True, progress=False)
    assert {sample for sample in run.samples} == {"book"}


def test_the_quantity_is_on_the_certificate(monkeypatch):
    made = skeleton("quantity")

    def estimate(sums_at, log_beta, *, everything=False, **options):
        raw = formulas.estimate(sums_at, log_beta, everything=everything, **options)
        terms = formulas._terms(sums_at(log_beta), log_beta, everything)
        raw.pairs["proposals_per_sample"] = made.proposals_per_sample(terms)
        return raw

    monkeypatch.setitem(QUANTITIES, "proposals_per_sample", made.QUANTITY)
    monkeypatch.setattr(evaluator, "estimate", estimate)
    certificate = qr.tradeoff(qr.draw(TARGET, PROPOSAL, 20_000, seed=3)).at(beta=1.5)
    found = certificate.proposals_per_sample
    assert found.value == pytest.approx(1 / certificate.acceptance_rate.value)
    truth = float(1 / exact(Q, P, 1.5)["acceptance_rate"])
    assert 0 < found.se < 0.02
    assert abs(found.value - truth) < 5 * found.se
    assert "proposals per sample" in str(certificate)
    assert "proposals_per_sample" in certificate.to_dict()
