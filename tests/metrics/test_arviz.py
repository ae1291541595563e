"""What ArviZ is handed, and by the real arviz-base where it is installed, what it makes of it."""

import importlib.util
import sys

import numpy as np
import pytest

import quasir as qr
from quasir.metrics import to_arviz
from quasir.metrics.chains import to_groups


def some_draws():
    rng = np.random.default_rng(0)
    log_p = np.where(rng.random(50) < 0.2, -np.inf, rng.normal(size=50))
    columns = {"f": rng.random(50) < 0.5, "g": rng.normal(size=50)}
    base = rng.normal(size=50)
    return qr.Draws.from_arrays(
        log_p, rng.normal(size=50), items=np.arange(50), log_base=base, features=columns
    )


def test_draws_are_of_the_proposal_and_have_their_weights():
    draws = some_draws()
    groups = to_groups(draws)
    assert set(groups) == {"proposal", "sample_stats"}
    assert set(groups["proposal"]) == {"item", "f", "g"}
    stats = groups["sample_stats"]
    assert set(stats) == {"log_p", "log_q", "log_u", "log_ratio", "log_base"}
    np.testing.assert_array_equal(stats["log_ratio"], (draws.log_p - draws.log_q)[None])
    assert all(column.shape == (1, 50) for group in groups.values() for column in group.values())


def test_samples_are_a_posterior():
    table = qr.Table({"a": 0.5, "b": 0.5})
    target = table * qr.features.contains("a", name="a")
    samples = qr.QRS(target, table, beta=1.0).sample(20, seed=0)
    groups = to_groups(samples)
    assert set(groups) == {"posterior", "sample_stats"}
    assert groups["posterior"]["a"].all()
    assert "item" not in groups["posterior"]  # texts are no numbers
    np.testing.assert_array_equal(groups["sample_stats"]["log_p_beta"][0], samples.log_p_beta)


def test_chains_of_one_and_two_dimensions():
    groups = to_groups({"x": np.arange(5.0), "y": np.zeros((1, 5, 2))})
    assert groups["posterior"]["x"].shape == (1, 5)
    assert groups["posterior"]["y"].shape == (1, 5, 2)
    for wrong in ({"x": np.zeros((2, 5)), "y": np.zeros(5)}, {"x": 3.0}, {}, np.zeros(5)):
        with pytest.raises(qr.errors.InputError, match="chains"):
            to_groups(wrong)


def test_without_arviz_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz_base", None)  # as if not installed
    with pytest.raises(qr.errors.InputError, match="pip install arviz-base"):
        to_arviz({"x": np.arange(5.0)})


@pytest.mark.parametrize("name", ["and/or", "chain", "draw"])
def test_names_that_a_tree_cannot_have(name):
    with pytest.raises(qr.errors.InputError, match=f"'{name}' cannot name"):
        to_arviz({name: np.arange(5.0)})


@pytest.mark.skipif(importlib.util.find_spec("arviz_base") is None, reason="needs arviz-base")
def test_the_tree_of_the_real_arviz():
    draws = some_draws()
    tree = to_arviz(draws)
    assert tree["proposal"]["f"].dims == ("chain", "draw")
    np.testing.assert_array_equal(tree["sample_stats"]["log_ratio"].values[0], draws.log_ratio)
    assert tree["proposal"].attrs["inference_library"] == "quasir"
    chains = to_arviz({"x": np.zeros((2, 30)), "y": np.zeros((2, 30, 3))})
    assert chains["posterior"]["y"].shape == (2, 30, 3)
