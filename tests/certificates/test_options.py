"""Each way to choose beta is declared once, and known to `at`, to recipes and to commands."""

import inspect

import pytest
from scipy import stats

import quasir as qr
from quasir import recipes
from quasir.cli.main import document
from quasir.estimation.quantities import GUARANTEED, OPTIONS
from quasir.recipes.explain import asked

P, Q = qr.from_scipy(stats.poisson(11)), qr.from_scipy(stats.poisson(10))
CURVE = qr.tradeoff(qr.draw(P, Q, 20_000, seed=0))
VALUES = {"acceptance_rate": 0.4, "beta": 1.5, "log_beta": 0.7}


@pytest.mark.parametrize("name", OPTIONS)
def test_everywhere(name):
    value = VALUES.get(name, 0.05)
    found = getattr(CURVE.at(**{name: value}), name)
    found = getattr(found, "value", found)
    assert found == pytest.approx(value) if name in VALUES else found <= value * (1 + 1e-9)
    assert name in inspect.signature(qr.Curve.at).parameters
    recipe = recipes.from_dict({"base": {"poisson": 3}, "choose": {name: value}})
    assert recipe.choose.asked == {name: value}
    assert recipes.parse(recipes.dump(recipe), "again.yaml") == recipe
    assert f"{value:g}" in asked(recipe)[-1]
    assert document().count(f"--{name.replace('_', '-')} ") >= 2  # of sample and of plan


@pytest.mark.parametrize("name", OPTIONS)
def test_its_range_is_the_same_everywhere(name):
    below = {"log_beta": -1e10}.get(name, -0.1)
    with pytest.raises(qr.errors.InputError, match=f"{name} is"):
        CURVE.at(**{name: below})
    with pytest.raises(qr.errors.RecipeError, match=f"choose.{name}: must be"):
        recipes.from_dict({"base": {"poisson": 3}, "choose": {name: below}})


@pytest.mark.parametrize("name", OPTIONS)
def test_advice_names_arguments_that_exist(name):
    """It advised `truncated_mass`, which was none."""
    even = qr.Table(dict.fromkeys("abc", 1 / 3))
    target = even * qr.tilt(qr.features.contains("a"), 1.0)  # so the ratios have a ceiling
    curve = qr.tradeoff(qr.draw(target, even, 20_000, seed=0))
    try:
        made = curve.at(**{name: VALUES.get(name, 0.05)}, confidence=0.9)
    except qr.errors.InputError as error:
        advised = str(error).partition("give one of ")[2].rstrip(".").split(", ")
        assert advised == list(GUARANTEED)
        assert name not in GUARANTEED
        for other in advised:
            assert curve.at(**{other: 0.05}, confidence=0.9).choice.guaranteed
    else:
        assert made.guarantee.confidence == 0.9


def test_exactly_one_and_no_other():
    for wrong in ({}, {"tvd": 0.1, "kl": 0.1}, {"beta": 1, "tvd": 0.1}, {"tvd_at_most": 0.1}):
        with pytest.raises(qr.errors.InputError, match="give exactly one of"):
            CURVE.at(**wrong)


@pytest.mark.parametrize("wanted", [0.3, 0.1, 0.01])
def test_the_mass_above_beta_bounds_tvd(wanted):
    found = CURVE.at(truncated_mass=wanted)
    assert found.truncated_mass.value == pytest.approx(wanted, rel=1e-6)
    assert found.tvd.value <= wanted
    assert CURVE.at(truncated_mass=wanted, confidence=0.99).guarantee.truncated_mass <= wanted
