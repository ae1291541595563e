"""Features that are thought of after drawing."""

import numpy as np
import pytest

import quasir as qr

LETTERS = qr.Table({"a": 0.4, "bb": 0.3, "ccc": 0.2, "dddd": 0.1})
FLAT = qr.Table(dict.fromkeys(["a", "bb", "ccc", "dddd", "e"], 1))
LENGTH = qr.Feature("letters", len, low=1, high=4)
HAS_B = qr.features.contains("b", name="has b")


class Rows:
    """Rows of four zeros and ones."""

    def sample(self, n, rng):
        rows = (rng.random((n, 4)) < 0.5).astype(np.int8)
        return rows, self.log_prob(rows)

    def log_prob(self, rows):
        return np.full(len(rows), -4 * np.log(2))


def ones(rows):
    return 0.3 * np.asarray(rows).sum(axis=1)


def test_they_are_as_if_they_had_been_watched(tmp_path):
    after = qr.draw(qr.Product(LETTERS), FLAT, 5_000, seed=0).with_features(LENGTH, HAS_B)
    before = qr.draw(qr.Product(LETTERS).watch(LENGTH, HAS_B), FLAT, 5_000, seed=0)
    plain = qr.draw(qr.Product(LETTERS), FLAT, 5_000, seed=0)
    plain.save(tmp_path / "run")
    stored = qr.Draws.load(tmp_path / "run").with_features(LENGTH, HAS_B)
    wanted = qr.tradeoff(before).at(beta=1.5)
    for draws in (after, stored):
        got = qr.tradeoff(draws).at(beta=1.5)
        assert got.to_dict() == wanted.to_dict()
        assert set(got.guarantee.moments) == {"letters", "has b"}
    low, high = wanted.moments["letters"].low, wanted.moments["letters"].high
    exact = np.minimum([0.4, 0.3, 0.2, 0.1], 1.5 * 0.2)
    assert low < exact @ [1, 2, 3, 4] / exact.sum() < high
    after.save(tmp_path / "more")
    assert qr.tradeoff(tmp_path / "more").at(beta=1.5).to_dict() == wanted.to_dict()


def test_rows_of_an_array_have_moments_from_a_store(tmp_path):
    """The tutorial's own kind of target: save, load, and ask for a mean."""
    qr.draw(ones, Rows(), 20_000, seed=0).save(tmp_path / "run")
    first = qr.Feature("first", lambda row: bool(row[0]), boolean=True)
    draws = qr.Draws.load(tmp_path / "run").with_features(first)
    assert draws.items.shape == (20_000, 4)
    cert = qr.tradeoff(draws).at(beta=100.0)
    share = np.exp(0.3) / (1 + np.exp(0.3))
    assert cert.moments["first"].low < share < cert.moments["first"].high


def test_an_expensive_feature_is_asked_where_p_is_above_0():
    asked = []
    dear = qr.Feature("dear", lambda x: asked.append(x) or len(x), expensive=True)
    drawn = qr.draw(LETTERS * qr.Feature("long", lambda x: len(x) > 2), FLAT, 500, seed=0)
    # A column over a small support would ask for all of that.
    draws = qr.Draws.from_arrays(drawn.log_p, drawn.log_q, items=list(drawn))
    made = draws.with_features(dear)
    assert all(len(item) > 2 for item in asked)
    impossible = draws.log_p == -np.inf
    assert np.isnan(made.features["dear"][impossible]).all()
    assert not np.isnan(made.features["dear"][~impossible]).any()
    assert qr.tradeoff(made).at(beta=0.5).moments["dear"].value > 2


def test_what_cannot_be():
    draws = qr.draw(LETTERS, FLAT, 100, seed=0)
    with pytest.raises(qr.errors.InputError, match=r"has b.*already: use feature.renamed"):
        draws.with_features(HAS_B).with_features(HAS_B)
    with pytest.raises(qr.errors.InputError, match=r"qr\.Feature\(name, function\)"):
        draws.with_features(len)
    with pytest.raises(qr.errors.InputError, match="have no items"):
        qr.Draws.from_arrays([0.0], [0.0]).with_features(LENGTH)
