"""An estimate compares, rounds and formats as a number."""

import math

import numpy as np
import pytest

import quasir as qr

TVD = qr.Estimate(0.0512, 0.001, 0.049, 0.053)
UNKNOWN = qr.Estimate(math.nan, math.nan, 0.0, 1.0)
ALONG = qr.Estimate(*(np.array([0.3, 0.1, math.nan]) for _ in range(4)))


def test_it_compares_as_its_value():
    assert TVD < 0.1
    assert 0.1 > TVD
    assert TVD <= 0.0512 <= TVD
    assert not TVD > 0.1
    assert 0 <= TVD < 1
    assert np.float64(0.1) >= TVD
    assert np.float64(0.0) < TVD
    assert qr.Estimate(0.01, 0.1, 0.0, 0.2) < TVD
    assert (TVD < 0.1) is True


def test_what_is_unknown_is_neither_below_nor_above():
    assert not UNKNOWN < 0.1
    assert not UNKNOWN >= 0.1


def test_along_a_curve_it_compares_point_by_point():
    assert (ALONG < 0.2).tolist() == [False, True, False]
    assert (0.2 < ALONG).tolist() == [True, False, False]
    assert (np.array([0.5, 0.0, 0.0]) > ALONG).tolist() == [True, False, False]
    assert (np.array([0.0, 0.1]) < TVD).tolist() == [True, False]


@pytest.mark.parametrize("other", ["0.1", None, [0.1, "a"], 1j, True, object()])
def test_it_does_not_compare_with_what_is_no_number(other):
    with pytest.raises(TypeError):
        TVD < other  # noqa: B015


def test_equality_is_of_all_four_numbers():
    assert qr.Estimate(0.0512, 0.001, 0.049, 0.053) == TVD
    for i in range(4):
        numbers = [0.0512, 0.001, 0.049, 0.053]
        numbers[i] *= 1.01
        assert qr.Estimate(*numbers) != TVD
    assert TVD != 0.0512
    assert ALONG[:2] == ALONG[:2]
    assert ALONG[:1] != ALONG[:2]
    assert len({TVD, qr.Estimate(0.0512, 0.001, 0.049, 0.053)}) == 1


def test_it_formats_and_rounds_as_its_value():
    assert f"{TVD:.3f}" == "0.051"
    assert f"{TVD:8.2%}" == "   5.12%"
    assert f"{TVD}" == str(TVD) == "0.0512 ± 0.001 [0.049, 0.053]"
    assert round(TVD, 3) == 0.051
    assert round(qr.Estimate(2.6, 0.1, 2.4, 2.8)) == 3
    assert float(TVD) == 0.0512
    assert math.isnan(round(UNKNOWN))
    assert f"{UNKNOWN:.2f}" == "nan"
    assert TVD._repr_html_() == str(TVD)


def test_it_is_neither_true_nor_false():
    with pytest.raises(qr.errors.InputError, match="neither true nor false"):
        bool(TVD)


def test_points_of_a_curve():
    assert ALONG[1].value == 0.1
    assert ALONG[1:].value[0] == 0.1
    assert [e.value for e in ALONG[:2]] == [0.3, 0.1]
    with pytest.raises(IndexError):
        ALONG[3]
    for ask in (
        lambda: TVD[0],
        lambda: float(ALONG),
        lambda: f"{ALONG:.2f}",
        lambda: round(ALONG, 2),
        lambda: ALONG.to_dict(),
    ):
        with pytest.raises(qr.errors.InputError):
            ask()
