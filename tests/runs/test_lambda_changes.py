"""A run goes on with its own lambda, and refuses another by name."""

from pathlib import Path

import pytest

import quasir as qr
from quasir import recipes
from quasir.runs.integrity import refuse_changes

RECIPE = """\
base: {table: {a: 0.4, ab: 0.3, c: 0.2, d: 0.1}}
features: {isa: {contains: a}, long: {search: ..}}
want: {isa: 0.5}
lambda: {long: 3}
fitted: {isa: 1.25}
"""


def refuse(now):
    before = recipes.parse(RECIPE, "before.yaml")
    refuse_changes(before, recipes.parse(now, "now.yaml"), Path("run"))


@pytest.mark.parametrize("fitted", ["fitted: {isa: 1.25}\n", "", "fitted: {}\n"])
def test_what_was_fitted_may_be_left_out(fitted):
    refuse(RECIPE.replace("fitted: {isa: 1.25}\n", fitted))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("lambda: {long: 3}\n", ""), r"lambda was \{'long': 3.0\}, now absent"),
        (("long: 3}", "long: 2}"), r"lambda was \{'long': 3.0\}, now \{'long': 2.0\}"),
        (("isa: 1.25", "isa: 1.5"), r"fitted was \{'isa': 1.25\}, now \{'isa': 1.5\}"),
    ],
)
def test_another_lambda_is_refused_by_name(change, says):
    with pytest.raises(qr.errors.StoreError, match=says):
        refuse(RECIPE.replace(*change))


def test_a_lambda_that_was_not_there_is_refused():
    before = recipes.parse(RECIPE.replace("lambda: {long: 3}\n", ""), "before.yaml")
    with pytest.raises(qr.errors.StoreError, match="lambda was absent, now"):
        refuse_changes(before, recipes.parse(RECIPE, "now.yaml"), Path("run"))
