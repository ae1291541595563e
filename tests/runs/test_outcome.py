"""What was wanted is compared with what the target has, and the certificate says so."""

import numpy as np
import pytest

import quasir as qr
from quasir.certificates.certificate import wanted_moments

LETTERS = {
    "base": {"table": {"a": 0.4, "ab": 0.3, "c": 0.2, "d": 0.1}},
    "features": {"isa": {"contains": "a"}, "c": {"contains": "c"}},
    "proposal": {"table": {"a": 1, "ab": 1, "c": 2, "d": 2}},
    "draws": 20_000,
    "choose": {"tvd": 0.1},
    "samples": 500,
}


def test_a_constraint_that_the_target_meets_is_no_warning(tmp_path):
    run = qr.run(
        LETTERS | {"want": {"isa": 0.5}, "fit": 20_000}, out=tmp_path / "run", progress=False
    )
    (wanted,) = run[0].result.wanted
    assert wanted.target.value == pytest.approx(0.5, abs=4 * wanted.target.se)
    assert wanted.warning is None
    assert not [warning for warning in run.certificate.warnings if "should have a mean" in warning]
    # A boolean feature's mean differs by at most TVD.
    assert abs(wanted.at_beta.value - wanted.target.value) <= wanted.tvd.value + 1e-12
    assert "The target has" in run.report.read_text()


def test_a_target_that_misses_the_constraint_is_a_warning_with_both_numbers(tmp_path):
    """Fitted on 300 draws, lambda is so far off that 200,000 draws show it."""
    few = LETTERS | {"want": {"isa": 0.5}, "fit": 300, "draws": 200_000, "seed": 3}
    run = qr.run(few, out=tmp_path / "run", progress=False)
    (wanted,) = run[0].result.wanted
    exact = target_mean(run, "isa")
    assert abs(wanted.target.value - exact) < 5 * wanted.target.se
    assert abs(exact - 0.5) > 4 * wanted.target.se, "choose another seed"
    (warning,) = [
        warning for warning in run.certificate.warnings if "should have a mean" in warning
    ]
    assert "0.5" in warning
    assert f"{wanted.target.value:.4g}" in warning
    assert warning in run.outcome.shortfalls
    assert "which is not what was wanted" in run.report.read_text()


def target_mean(run, name):
    """Return the mean of a feature under the target, by enumeration."""
    table = run.recipe.base.table
    fitted = {**run.recipe.coefficients, **run.recipe.fitted}
    holds = {x: ("a" in x) if name == "isa" else (name in x) for x in table}
    p = {x: a * np.exp(fitted[name] * holds[x]) for x, a in table.items()}
    return sum(p[x] for x in p if holds[x]) / sum(p.values())


def test_a_pointwise_constraint_is_met_exactly(tmp_path):
    run = qr.run(
        LETTERS | {"want": {"isa": 1, "c": 0}}, out=tmp_path / "run", draws=2000, progress=False
    )
    assert [wanted.z for wanted in run[0].result.wanted] == [0.0, 0.0]


def test_a_constant_that_is_not_the_constraint_is_a_warning():
    draws = qr.Draws.from_arrays(
        np.zeros(500), np.zeros(500), features={"f": np.ones(500, dtype=bool)}
    )
    curve = qr.tradeoff(draws)
    (wanted,) = wanted_moments(curve, curve.at(beta=1), {"f": 0.9, "absent": 1.0}, ["f"])
    assert wanted.z == np.inf
    assert "but the target itself has 1 ± 0" in wanted.warning


def test_nothing_is_known_where_no_draw_is_possible():
    draws = qr.Draws.from_arrays(
        np.full(50, -np.inf), np.zeros(50), features={"f": np.ones(50, dtype=bool)}
    )
    curve = qr.tradeoff(draws)
    assert wanted_moments(curve, curve.at(beta=1), {"f": 1.0}) == ()
