"""Given tilts stand under `lambda`, what was fitted for a constraint under `fitted`."""

import numpy as np
import pytest

import quasir as qr
from quasir import recipes
from quasir.recipes.building import build, resolve
from quasir.recipes.describe import asked

BASE = {"a": 0.4, "ab": 0.3, "c": 0.2, "d": 0.1}
BOTH = """\
base: {table: {a: 0.4, ab: 0.3, c: 0.2, d: 0.1}}
features: {isa: {contains: a}, long: {search: ..}, never: {contains: x}}
want: {isa: 0.5}
lambda: {long: 3}
"""


def moment(target, feature):
    items = list(BASE)
    weight = np.exp(target.log_score(items))
    return float(weight @ feature(items) / weight.sum())


def test_a_constraint_is_met_together_with_a_tilt(tmp_path):
    recipe = recipes.parse(BOTH, "x.yaml", fit=20_000)
    assert recipe.unfitted == ["isa"]
    built = build(recipe, tmp_path)
    resolved, target = resolve(recipe, built)
    # The standard error of the fit: of 20,000 draws of the base, tilted.
    fit = qr.constrain(
        qr.Product(built.base, [qr.targets.Tilt(built.features["long"], 3.0)]),
        {built.features["isa"]: 0.5},
        n=20_000,
        seed=0,
    )
    assert abs(moment(target, built.features["isa"]) - 0.5) < 4 * fit.achieved["isa"].se
    assert resolved.coefficients == {"long": 3.0}
    assert list(resolved.fitted) == ["isa"]
    assert resolved.unfitted == []
    again, same = resolve(recipes.parse(recipes.dump(resolved), "y.yaml"), built)
    assert again == resolved
    np.testing.assert_array_equal(same.log_score(list(BASE)), target.log_score(list(BASE)))
    said = " ".join(asked(resolved))
    assert "isa should be 0.5, by a tilt with lambda" in said
    assert "long is rewarded" in said
    assert "Also measured: never." in said


def test_without_the_tilt_in_the_fit_the_constraint_is_missed(tmp_path):
    """The fit on the base alone, as it was, must fail the check above."""
    recipe = recipes.parse(BOTH.replace("lambda: {long: 3}\n", ""), "x.yaml")
    built = build(recipe, tmp_path)
    fitted, _ = resolve(recipe, built)
    _, target = resolve(fitted.model_copy(update={"coefficients": {"long": 3.0}}), built)
    assert moment(target, built.features["isa"]) == pytest.approx(0.903, abs=0.01)


@pytest.mark.parametrize(
    ("change", "line", "says"),
    [
        (
            ("long: 3", "long: 3, isa: 1"),
            4,
            "a tilt is given under lambda, a constraint under want",
        ),
        (("long: 3}", "long: 3}\nfitted: {long: 1}"), 5, "no constraint under want"),
        (("long: 3}", "long: 3}\nfitted: {lon: 1}"), 5, "did you mean long?"),
        (("long: 3}", "long: 3}\nfitted: {isa: .nan}"), 5, "finite"),
        (("0.5}", "0.5, never: 0}\nfitted: {isa: 1, never: 2}"), 4, "holds for every item"),
        (("0.5}", "0.5, never: 0.1}\nfitted: {isa: 1}"), 4, "give all of them"),
    ],
)
def test_mistakes(change, line, says):
    with pytest.raises(qr.errors.RecipeError) as caught:
        recipes.parse(BOTH.replace(*change), "mine.yaml")
    assert f"mine.yaml, line {line}" in str(caught.value)
    assert says in str(caught.value)
