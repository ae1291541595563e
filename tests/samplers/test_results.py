"""Samples in a notebook: index, slices, iteration, texts, frames, tables, one line."""

import sys

import numpy as np
import pytest
from scipy import stats

import quasir as qr
from quasir.core.items import Text

A, B = qr.Table({"a": 0.5, "b<i>": 0.5}), qr.Table({"a": 0.8, "b<i>": 0.2})
IS_A = qr.Feature("is a", lambda x: x == "a")
TARGET = A * qr.tilt(IS_A, 0.5)
DRAWS = qr.draw(TARGET, B, 500, seed=0)
SETS = {
    "QRS": qr.QRS(TARGET, B, beta=1).replay(DRAWS),
    "RejectionControl": qr.RejectionControl(TARGET, B, beta=1).replay(DRAWS),
    "EmpiricalSupremum": qr.EmpiricalSupremum(TARGET, B).replay(DRAWS),
    "IMH": qr.IMH(TARGET, B).replay(DRAWS),
    "SIR": qr.SIR(TARGET, B, pool=500).replay(DRAWS, 100),
    "draws": DRAWS,
}


@pytest.mark.parametrize("name", SETS)
def test_items_and_selections(name):
    found = SETS[name]
    assert found[0] == found.items[0]
    assert found[-1] == found.items[len(found) - 1]
    assert list(found) == list(found.items) == found.texts
    mask = np.array([item == "a" for item in found])
    for index, places in (
        (slice(2, 9, 3), [2, 5, 8]),
        ([4, 1], [4, 1]),
        (np.array([-1]), [len(found) - 1]),
        (mask, np.flatnonzero(mask)),
        ([], []),
    ):
        part = found[index]
        assert type(part) is type(found)
        assert list(part) == [found.items[i] for i in places]
        np.testing.assert_array_equal(part.log_p, found.log_p[places])
        np.testing.assert_array_equal(part.features["is a"], found.features["is a"][places])
        for column in ("log_p_beta", "log_weight", "log_betas", "log_u"):
            if hasattr(found, column):
                np.testing.assert_array_equal(getattr(part, column), getattr(found, column)[places])


@pytest.mark.parametrize("name", SETS)
def test_wrong_indices_are_refused(name):
    with pytest.raises(IndexError, match="there is no item 100000"):
        SETS[name][100_000]
    for index in ("log_p", 1.5, None, [0.5], [[0]], [10**6], [True], slice("a", None), {}):
        with pytest.raises(qr.errors.InputError, match=r"indices|slice"):
            SETS[name][index]


def test_a_selection_keeps_the_acceptance_rate_of_all():
    found = SETS["QRS"]
    part = found[:10]
    assert part.acceptance_rate == found.acceptance_rate == len(found) / 500
    assert part[:3].acceptance_rate == found.acceptance_rate
    assert repr(part).startswith(f"<Samples: 10 of {len(found)} accepted of 500 proposed")


@pytest.mark.parametrize("name", SETS)
def test_a_frame_has_a_row_for_each(name):
    found = SETS[name]
    frame = found.to_frame()
    assert list(frame["text"]) == found.texts
    np.testing.assert_array_equal(frame["log_p"], found.log_p)
    np.testing.assert_array_equal(frame["is a"], found.features["is a"])
    assert ("log_p_beta" in frame) == isinstance(found, qr.samplers.Samples)
    assert list(found[:0].to_frame()["log_p"]) == []


def test_a_frame_of_numbers_and_of_a_feature_with_a_taken_name():
    draws = qr.Draws.from_arrays(
        [0.0, 1.0], [-1.0, -1.0], items=[3, 4], features={"log_p": [5.0, 6.0]}
    )
    frame = draws.to_frame()
    assert frame["item"].tolist() == [3, 4]
    assert frame["log_p"].tolist() == [0.0, 1.0]
    assert frame["feature:log_p"].tolist() == [5.0, 6.0]


def test_without_pandas_the_error_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(qr.errors.InputError, match="needs pandas"):
        DRAWS.to_frame()


def test_draws_without_items_have_only_numbers():
    draws = qr.Draws.from_arrays([0.0, 1.0], [-1.0, -1.0])
    assert "text" not in draws.to_frame()
    assert len(draws[:1]) == 1
    for ask in (lambda: draws[0], lambda: list(draws), lambda: draws.texts):
        with pytest.raises(qr.errors.InputError, match="no items"):
            ask()


@pytest.mark.parametrize("name", SETS)
def test_the_table_is_short_and_escaped(name):
    page = SETS[name]._repr_html_()
    assert page.count("<tr>") == 11
    assert f"and {len(SETS[name]) - 10:,} more" in page
    assert "b&lt;i&gt;" in page
    assert "<i>" not in page
    long = qr.Draws.from_arrays([0.0], [-1.0], items=["x" * 10_000])
    assert len(long._repr_html_()) < 1000
    assert "more" not in long._repr_html_()


def test_texts_of_a_language_model():
    draws = qr.Draws.from_arrays([0.0], [-1.0], items=[Text("one", (1,))])
    assert draws.texts == draws.to_frame()["text"].tolist() == ["one"]
    assert draws[0] == Text("one", (1,))


SAMPLERS = [
    (qr.QRS(A, B, beta=2), "QRS(<Table of 2 items>, <Table of 2 items>) at beta = 2"),
    (qr.RS(A, B, log_beta=800), "RS(<Table of 2 items>, <Table of 2 items>) at beta = e^800"),
    (
        qr.IMH(A, B, reset=5, bound=3.0),
        "IMH(<Table of 2 items>, <Table of 2 items>, reset=5, bound=3.0)",
    ),
    (
        qr.IncrementalQRS(A, B, 0.25),
        "IncrementalQRS(<Table of 2 items>, <Table of 2 items>, acceptance_rate=0.25)",
    ),
    (qr.SIR(A, B, 10), "SIR(<Table of 2 items>, <Table of 2 items>, pool=10)"),
]


@pytest.mark.parametrize(("sampler", "line"), SAMPLERS)
def test_a_sampler_is_one_line(sampler, line):
    assert repr(sampler) == line


def test_every_repr_fits_a_line():
    class Long:
        def __repr__(self):
            return "a long\nname " * 100

        def log_prob(self, items):
            return np.zeros(len(items))

        sample = log_score = log_prob

    long = Long()
    product = long * qr.Feature("x" * 1000, len) * qr.tilt(IS_A, 1.0)
    curve = qr.tradeoff(DRAWS)
    for thing in (
        long * IS_A,
        product,
        qr.Mixture([long, long, B]),
        qr.Feature("y" * 1000, len),
        qr.QRS(product, qr.Mixture([long, long]), beta=1),
        qr.IMH(product, long, burn_in=10**9, thin=10**9, bound=1e9),
        qr.draw(A, B, 3, seed=2**128 - 1),
        qr.from_scipy(stats.poisson(10.123456789)),
        curve,
        curve.at(beta=1),
        curve.tvd,
        curve.at(beta=1).tvd,
        *SETS.values(),
    ):
        assert "\n" not in repr(thing)
        assert len(repr(thing)) <= 120, repr(thing)
