"""Constraints for a mean: over all contexts with one lambda, or in each with its own."""

import numpy as np
import pytest

import quasir as qr
from quasir.constraints.dual import solve
from quasir.errors import InfeasibleError, InputError
from tests.contexts.recipes import CONTEXTS, RECIPE, law

MEAN = {key: value for key, value in RECIPE.items() if key != "lambda"} | {
    "want": {"begins": 1, "z": 0.5},
    "fit": 40_000,
    "draws": 8_000,
}


def share(letter, tilt):
    return sum(p for word, p in law(letter, tilt).items() if word.endswith("z"))


def test_over_all_contexts(tmp_path):
    run = qr.run(MEAN | {"over": "contexts"}, out=tmp_path / "r", contexts=CONTEXTS, progress=False)
    tilt = run.recipe.fitted["z"]
    shares = [share(context["letter"], tilt) for context in CONTEXTS]
    assert np.mean(shares) == pytest.approx(0.5, abs=0.02)
    # One lambda meets the constraint in the mean, and not in each.
    assert max(shares) - min(shares) > 0.1
    assert all(not entry.fitted for entry in run.entries)


def test_in_each_context(tmp_path):
    run = qr.run(MEAN | {"over": "each"}, out=tmp_path / "r", contexts=CONTEXTS, progress=False)
    assert not run.recipe.fitted
    for entry in run.entries:
        letter = entry.context.fields["letter"]
        assert share(letter, entry.fitted["z"]) == pytest.approx(0.5, abs=0.03)
    again = qr.run(MEAN | {"over": "each"}, out=tmp_path / "s", contexts=CONTEXTS, progress=False)
    assert [e.fitted for e in again.entries] == [e.fitted for e in run.entries]


def test_which_is_asked_for_is_explicit(tmp_path):
    with pytest.raises(InputError, match="give over: contexts for the mean over all"):
        qr.run(MEAN, out=tmp_path / "r", contexts=CONTEXTS, progress=False)


def test_a_context_whose_constraint_is_infeasible_is_named(tmp_path):
    contexts = [*CONTEXTS, {"letter": "q"}]
    run = qr.run(MEAN | {"over": "each"}, out=tmp_path / "r", contexts=contexts, progress=False)
    assert list(run.certificate.unserved) == [4]
    assert "begins" in run.certificate.unserved[4]
    assert run.store.counts()[4] == 0


def test_constraints_that_contradict(tmp_path):
    recipe = MEAN | {"over": "contexts", "want": {"begins": 1, "z": 1.5}}
    recipe["features"] = RECIPE["features"] | {"z": {"length": "characters"}}
    with pytest.raises(InfeasibleError, match="over all contexts cannot be met"):
        qr.run(recipe, out=tmp_path / "r", contexts=CONTEXTS, progress=False)


def test_a_killed_fit_goes_on(tmp_path, monkeypatch):
    whole = qr.run(
        MEAN | {"over": "contexts"}, out=tmp_path / "w", contexts=CONTEXTS, progress=False
    )
    monkeypatch.setattr(
        "quasir.runs.active_run._all_examined", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt)
    )
    with pytest.raises(KeyboardInterrupt):
        qr.run(MEAN | {"over": "contexts"}, out=tmp_path / "r", contexts=CONTEXTS, progress=False)
    monkeypatch.undo()
    run = qr.run(MEAN | {"over": "contexts"}, out=tmp_path / "r", contexts=CONTEXTS, progress=False)
    assert run.recipe.fitted == whole.recipe.fitted


def test_one_lambda_is_that_of_the_mean_dual():
    rng = np.random.default_rng(0)
    groups = [
        (rng.normal(size=(200, 2)) + shift, rng.normal(size=200)) for shift in (0.0, 0.5, 1.0)
    ]
    mu = np.array([0.6, 0.4])
    coefficients, weights = solve(groups, mu)
    for (phi, log_weight), weight in zip(groups, weights, strict=True):
        tilted = np.exp(log_weight + phi @ coefficients)
        np.testing.assert_allclose(weight, tilted / tilted.sum(), rtol=1e-9)
    means = [w @ phi for (phi, _), w in zip(groups, weights, strict=True)]
    np.testing.assert_allclose(np.mean(means, axis=0), mu, atol=1e-8)
    # The control: pooling all draws under one normaliser is another lambda.
    pooled = solve([tuple(np.concatenate(part) for part in zip(*groups, strict=True))], mu)[0]
    assert np.abs(pooled - coefficients).max() > 1e-3
    assert solve(groups, np.array([50.0, 0.0])) is None
