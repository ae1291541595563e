"""Whether the proposal reaches what the target allows."""

import math

import numpy as np
import pytest
from scipy import stats

import quasir as qr
from quasir.draws.ceiling import BaseCheck, check_by_base
from quasir.runs.draw_shards import draw_into
from quasir.store import Store
from tests.sequences import Unlisted

BASE = qr.Table({"a": 0.5, "b": 0.5})
ONLY_A = qr.Table({"a": 1.0})


def test_a_cut_support_is_an_error_before_drawing_where_it_is_listed():
    """Base {a, b}, proposal {a}: the TVD is 0.5, and was certified as [0, 0.0018]."""
    for target in (BASE, qr.Product(BASE), BASE * qr.tilt(qr.Feature("x", len), 1.0)):
        with pytest.raises(
            qr.errors.InputError, match=r"'b', which have 0\.5 of its mass.*below 0\.5"
        ):
            qr.draw(target, ONLY_A, 2000, seed=0)
        for sampler in (qr.QRS(target, ONLY_A, 1.0), qr.IMH(target, ONLY_A)):
            with pytest.raises(qr.errors.InputError, match="TVD cannot fall below"):
                sampler.sample(10, seed=0)


def test_the_mass_that_is_cut_is_that_of_the_target():
    rare = qr.Feature("b", lambda x: x == "b")
    target = BASE * qr.tilt(rare, math.log(9))
    with pytest.raises(qr.errors.InputError, match=r"have 0\.9 of its mass"):
        qr.draw(target, ONLY_A, 10, seed=0)


def test_what_the_target_forbids_may_be_cut():
    is_a = qr.Feature("a", lambda x: x == "a")
    assert len(qr.draw(BASE * is_a, ONLY_A, 100, seed=0)) == 100
    both = qr.Mixture([ONLY_A, BASE])
    assert len(qr.draw(BASE, both, 100, seed=0)) == 100
    poissons = [qr.from_scipy(stats.poisson(rate)) for rate in (11, 10)]
    assert len(qr.draw(*poissons, 100, seed=0)) == 100


def test_draws_of_the_base_show_a_cut_that_cannot_be_listed(tmp_path):
    base = Unlisted(BASE)
    draws = qr.draw(qr.Product(base), ONLY_A, 4000, seed=0)
    for curve in (qr.tradeoff(draws), saved_curve(draws, tmp_path, stream=True)):
        (warning,) = [warning for warning in curve.at(beta=1.0).warnings if "have q = 0" in warning]
        share = float(warning.split("about ")[1].split(" ")[0])
        assert share == pytest.approx(0.5, abs=4 * 0.5 / 16)


def saved_curve(draws, folder, stream):
    draws.save(folder / "run")
    return qr.tradeoff(folder / "run", stream=stream)


def test_ratios_far_above_those_seen_are_a_warning():
    base = Unlisted(BASE)
    nearly = qr.Table({"a": 1 - 1e-9, "b": 1e-9})
    warnings = qr.tradeoff(qr.draw(qr.Product(base), nearly, 4000, seed=0)).warnings
    assert any("more than twice the largest that was drawn" in warning for warning in warnings)


def test_a_proposal_that_reaches_all_raises_no_warning():
    base = Unlisted(BASE)
    for proposal in (base, qr.Mixture([ONLY_A, base]), qr.Table({"a": 0.4, "b": 0.6})):
        warnings = qr.tradeoff(qr.draw(qr.Product(base), proposal, 4000, seed=0)).warnings
        assert not any("draws of the base" in warning for warning in warnings)


def test_the_share_is_weighted_by_the_target():
    """256 draws of the base stand for the target by P/a: b counts nine times as much."""
    base = Unlisted(BASE)
    target = qr.Product(base) * qr.tilt(qr.Feature("b", lambda x: x == "b"), math.log(9))
    check = check_by_base(target, ONLY_A, seed=0)
    b = sum(1 for x in check.log_ratio if x == math.inf)
    assert check.share_above(1e300)[0] == pytest.approx(9 * b / (9 * b + 256 - b))
    assert check_by_base(qr.Table({"a": 1}), ONLY_A, seed=0) is None


def test_it_is_kept_with_a_store(tmp_path):
    check = BaseCheck(3, (0.5, math.inf), (0.0, -1.0))
    assert BaseCheck.from_dict(check.to_dict()) == check
    assert BaseCheck.from_dict(None) is None
    store = Store.create(tmp_path, 0, base_check=check.to_dict())
    draw_into(store, BASE, ONLY_A, 1024)
    assert qr.Draws.load(tmp_path).base_check == check
    for wrong in ({}, {"draws": 1, "log_ratio": [1.0], "log_weight": []}, {"draws": "x"}):
        with pytest.raises(qr.errors.StoreError, match="base_check cannot be read"):
            BaseCheck.from_dict(wrong)


def test_draws_stay_as_they_were():
    """The check has a stream of its own: the draws are those of the blocks."""
    base = Unlisted(BASE)
    proposal = qr.Table({"a": 0.4, "b": 0.6})
    few = qr.draw(qr.Product(base), proposal, 100, seed=3)
    many = qr.draw(qr.Product(base), proposal, 5000, seed=3)
    np.testing.assert_array_equal(few.log_u, many.log_u[:100])
    assert list(few.items) == list(many.items[:100])
    assert few.base_check is None
    assert many.base_check is not None


NORMAL, SHORT = qr.from_scipy(stats.norm()), qr.from_scipy(stats.uniform(-1, 2))


def test_a_continuous_support_that_is_cut_is_an_error():
    """TVD was certified as 0.01 +- 6e-5; it cannot be below 0.317."""
    for target in (NORMAL, qr.Product(NORMAL)):
        with pytest.raises(qr.errors.InputError, match=r"has 0\.3173 of its mass.*below 0\.3173"):
            qr.draw(target, SHORT, 100, seed=0)
        with pytest.raises(qr.errors.InputError, match="TVD cannot fall below"):
            qr.QRS(target, SHORT, beta=1.0).sample(10, seed=0)
    with pytest.raises(qr.errors.InputError, match=r"has 1e-07 of its mass"):  # too wide to list
        qr.draw(
            qr.from_scipy(stats.randint(0, 10**7)), qr.from_scipy(stats.randint(1, 10**7)), 10, 0
        )


def test_what_factors_forbid_may_be_cut_from_a_density():
    positive, above = (
        qr.Feature("x", lambda x, low=low: x > low, boolean=True) for low in (0.0, -1.0)
    )
    right = qr.from_scipy(stats.expon())
    assert len(qr.draw(NORMAL * positive, right, 100, seed=0)) == 100
    with pytest.raises(qr.errors.InputError, match=r"has 0\.4\d* of its mass"):  # 0.4057 exactly
        qr.draw(NORMAL * above, right, 100, seed=0)


def test_a_gap_inside_is_found_too():
    holed = qr.from_scipy(stats.rv_histogram((np.array([1, 0, 1]), np.arange(4.0)))())
    flat = qr.from_scipy(stats.uniform(0, 3))
    assert len(qr.draw(holed, flat, 100, seed=0)) == 100
    with pytest.raises(qr.errors.InputError, match="probability 0 to a part of the target"):
        qr.draw(flat, holed, 100, seed=0)
    whole = [stats.rv_discrete(values=(k, [1 / len(k)] * len(k)))() for k in ([0.5, 1, 2], [1, 2])]
    with pytest.raises(qr.errors.InputError, match=r"such as 0\.5, which have 0\.3333 of its mass"):
        qr.draw(*map(qr.from_scipy, whole), 10, seed=0)


def frozen(rng, is_density):
    """A distribution with random ends, on a grid so that no cut has a mass near rounding."""
    low, width = int(rng.integers(-6, 6)), int(rng.integers(1, 8))
    high = low + width
    if not is_density:
        listed = np.arange(low, high + 1)
        tables = stats.rv_discrete(values=(listed, np.full(len(listed), 1 / len(listed))))()
        wide = stats.randint(1_000_000 * low, 1_000_000 * high)
        return [stats.randint(low, high + 1), tables, wide, stats.poisson(3, loc=low)]
    return [
        stats.uniform(low, width),
        stats.beta(2, 3, loc=low, scale=width),
        stats.truncnorm(-1, 2, loc=low, scale=width),
        stats.expon(loc=low),
        stats.norm(low, width),
        stats.cauchy(low),
    ]


def cut_mass(target, proposals):
    """The mass of the target outside all the proposals' supports, by scipy's cdf and sf."""
    reach, mass = -np.inf, 0.0
    step = 0 if hasattr(target, "logpdf") else 1
    for low, high in sorted(p.support() for p in proposals):
        if low > reach + step:
            mass += float(target.cdf(low - step) - target.cdf(reach))
        reach = max(reach, high)
    return mass + float(target.sf(reach))


@pytest.mark.parametrize("is_density", [True, False])
def test_random_supports_are_refused_exactly_when_they_are_cut(is_density):
    rng = np.random.default_rng(5)
    refused = accepted = 0
    for _ in range(100):
        target = rng.choice(frozen(rng, is_density))
        parts = [rng.choice(frozen(rng, is_density)) for _ in range(rng.integers(1, 4))]
        if not is_density and any(p.support()[1] - p.support()[0] > 1e6 for p in [target, *parts]):
            parts = [p for p in parts if np.isfinite(p.support()).all()] or [target]
        q = qr.Mixture([qr.from_scipy(p) for p in parts]) if len(parts) > 1 else None
        proposal, mass = q or qr.from_scipy(parts[0]), cut_mass(target, parts)
        if mass > 1e-15:
            refused += 1
            with pytest.raises(qr.errors.InputError, match="cannot fall below") as raised:
                qr.draw(qr.from_scipy(target), proposal, 10, seed=0)
            said = float(str(raised.value).split("TVD cannot fall below ")[1].split(". ")[0])
            assert said == pytest.approx(mass, rel=1e-3)
        elif mass < 1e-18:
            accepted += 1
            assert len(qr.draw(qr.from_scipy(target), proposal, 10, seed=0)) == 10
    assert min(refused, accepted) > 20
