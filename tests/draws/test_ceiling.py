"""The ceiling of the ratios: a bound that is known, not estimated, and what it makes certain."""

import math
from dataclasses import replace

import numpy as np
import pytest

import quasir as qr
from quasir.draws.ceiling import RatioBounds, ratio_bounds
from quasir.draws.draws import Draws
from quasir.store import Store

ITEMS = [f"{letter}{number}" for letter in "ab" for number in range(1000)]
IS_B = qr.Feature("b", lambda x: x.startswith("b"), boolean=True)
EVEN = qr.Feature("even", lambda x: int(x[1:]) % 2 == 0)
NUMBER = qr.Feature("number", lambda x: float(x[1:]))
UP_TO_1000 = qr.Feature("up to 1000", lambda x: float(x[1:]), low=0, high=1000)


def table(seed, unevenness=0.3):
    masses = np.random.default_rng(seed).dirichlet(np.full(len(ITEMS), unevenness)) + 1e-9
    return qr.Table(dict(zip(ITEMS, masses, strict=True)))


BASE, OTHER = table(1), table(2)
TARGET = BASE * EVEN * qr.tilt(IS_B, 3.0)


def ratios(target, proposal):
    return target.log_score(ITEMS) - proposal.log_prob(ITEMS)


@pytest.mark.parametrize(
    ("target", "proposal", "expected"),
    [
        (BASE * EVEN, BASE, 0.0),
        (TARGET, BASE, 3.0),
        (TARGET, qr.Mixture([OTHER, BASE]), 3.0 + math.log(2)),
        (TARGET, qr.Mixture([OTHER, BASE], weights=[9, 1]), 3.0 + math.log(10)),
        (TARGET, qr.Mixture([BASE, OTHER, BASE]), 3.0 + math.log(1.5)),
        (BASE * qr.tilt(IS_B, -2.0), BASE, 0.0),
        (BASE * qr.tilt(IS_B, -2.0) * qr.tilt(UP_TO_1000, 0.002), BASE, 2.0),
        (TARGET, qr.Mixture([qr.Mixture([BASE]), OTHER]), 3.0 + math.log(2)),
        (TARGET, qr.Mixture([qr.Mixture([BASE, OTHER]), BASE]), 3.0 + math.log(4 / 3)),
    ],
)
def test_no_ratio_of_any_item_exceeds_it(target, proposal, expected):
    found = ratio_bounds(target, proposal).log_ceiling
    assert found == pytest.approx(expected, abs=1e-12)
    largest = ratios(target, proposal).max()
    assert largest <= found + 1e-12
    # It is no loose bound either: some item comes near where the other components are small.
    assert largest > found - 0.7
    assert qr.draw(target, proposal, 100, seed=0).log_ceiling == found


@pytest.mark.parametrize(
    ("target", "proposal"),
    [
        (TARGET, OTHER),
        (TARGET, qr.Mixture([OTHER, table(3)])),
        (BASE * qr.tilt(NUMBER, 0.1), BASE),
        (BASE * qr.tilt(EVEN, 0.1), BASE),
        (TARGET.log_score, BASE),
    ],
)
def test_where_none_is_known_it_is_infinite(target, proposal):
    draws = qr.draw(target, proposal, 100, seed=0)
    assert draws.log_ceiling == math.inf


def test_a_factor_that_cannot_say_how_large_it_gets():
    class Odd:
        feature = IS_B

        def log_factor(self, column):
            return 5.0 * column

    assert qr.draw(BASE * EVEN * Odd(), BASE, 100, seed=0).log_ceiling == math.inf


MIXED = qr.Mixture([OTHER, BASE])
DRAWS = qr.draw(TARGET, MIXED, 5000, seed=0)
WITHOUT = Draws(
    log_p=DRAWS.log_p,
    log_q=DRAWS.log_q,
    log_u=DRAWS.log_u,
    items=DRAWS.items,
    features=DRAWS.features,
)


def test_from_the_ceiling_on_the_samples_are_those_of_p_for_certain():
    top = DRAWS.log_ceiling
    for log_beta in (top, top + 1e-12, top + 3):
        cert = qr.tradeoff(DRAWS).at(log_beta=log_beta)
        for part in (cert.tvd, cert.kl, cert.tvd_bound):
            assert (part.value, part.se, part.low, part.high) == (0, 0, 0, 0)
            assert str(part) == "0, for certain"
        assert not any("tail" in warning or "above beta" in warning for warning in cert.warnings)
        # What the draws alone can say is less.
        alone = qr.tradeoff(WITHOUT).at(log_beta=log_beta)
        assert alone.tvd.high > 0
        assert math.isnan(alone.tvd.se)
        assert alone.warnings
        assert cert.acceptance_rate == alone.acceptance_rate


def test_below_it_nothing_is_certain():
    top = DRAWS.log_ceiling
    seen = DRAWS.take(np.flatnonzero(DRAWS.log_ratio < top - 0.5))
    cert = qr.tradeoff(seen).at(log_beta=top - 0.1)
    # 3.69/N is what N draws without a hit allow, at a ratio that is the ceiling.
    most = -math.log(0.025) / len(seen) * math.exp(top - cert.log_z.value)
    assert 0 < cert.tvd.high <= most * (1 + 1e-9)
    assert 0 < cert.kl.high <= most * 0.1 * (1 + 1e-9)
    # What the tail may hide is guaranteed, so it is no warning.
    assert not any("tail" in warning or "above beta" in warning for warning in cert.warnings)
    assert cert.tvd.value < cert.guarantee.tvd < 1


def test_the_exact_target_can_be_asked_for():
    cert = qr.tradeoff(DRAWS).at(tvd=0)
    assert cert.log_beta == DRAWS.log_ceiling
    exact = np.exp(TARGET.log_score(ITEMS)).sum() * np.exp(-DRAWS.log_ceiling)
    assert cert.acceptance_rate.low < exact < cert.acceptance_rate.high
    seen = DRAWS.take(np.flatnonzero(DRAWS.log_ratio < DRAWS.log_ceiling - 0.5))
    assert qr.tradeoff(seen).at(kl=0).log_beta == DRAWS.log_ceiling
    alone = Draws(log_p=seen.log_p, log_q=seen.log_q, log_u=seen.log_u)
    with pytest.raises(qr.errors.UnreachableError):
        qr.tradeoff(alone).at(kl=0)
    # A small distance that these draws cannot vouch for is told to be had so.
    exactly = "At beta = 40.17, which no ratio exceeds, the samples are exactly the target's"
    with pytest.raises(qr.errors.UnreachableError, match=exactly):
        qr.tradeoff(seen).at(tvd=1e-6)
    with pytest.raises(qr.errors.UnreachableError, match="fewer than 10 of"):
        qr.tradeoff(alone).at(tvd=1e-6)
    # Where the draws can vouch for a smaller beta, that is cheaper.
    assert qr.tradeoff(DRAWS).at(tvd=0.2).log_beta < DRAWS.log_ceiling - 0.5


def test_a_ceiling_that_a_ratio_is_above_is_not_believed():
    largest = float(DRAWS.log_ratio.max())
    false = Draws(
        log_p=DRAWS.log_p,
        log_q=DRAWS.log_q,
        log_u=DRAWS.log_u,
        known=RatioBounds(log_ceiling=largest - 0.01),
    )
    true = replace(false, known=RatioBounds(log_ceiling=largest))
    assert qr.tradeoff(true).at(log_beta=largest).tvd.high == 0
    assert qr.tradeoff(false).at(log_beta=largest).tvd.high > 0
    assert qr.tradeoff(false).tail.log_ceiling == math.inf


def test_the_intervals_are_narrower_and_still_cover():
    """40 draws lie above the first beta, 5 above the second, half a draw above the last."""
    ratio, log_q = ratios(TARGET, MIXED), MIXED.log_prob(ITEMS)
    p = np.exp(TARGET.log_score(ITEMS))
    p /= p.sum()
    order = np.argsort(-ratio)
    above = np.cumsum(np.exp(log_q[order])) * 1000
    levels = [float(ratio[order][np.searchsorted(above, count)]) - 1e-6 for count in (40, 5, 0.5)]
    exact = []
    for level in levels:
        p_beta = np.exp(np.minimum(TARGET.log_score(ITEMS), level + log_q))
        exact.append(0.5 * np.abs(p - p_beta / p_beta.sum()).sum())
    covered, narrower = np.zeros(3), 0.0
    for seed in range(300):
        draws = qr.draw(TARGET, MIXED, 1000, seed=seed)
        curve = qr.tradeoff(draws, log_betas=levels)
        covered += (curve.tvd.low <= exact) & (exact <= curve.tvd.high)
        alone = Draws(log_p=draws.log_p, log_q=draws.log_q, log_u=draws.log_u)
        wide = qr.tradeoff(alone, log_betas=levels).tvd.high
        assert (curve.tvd.high <= wide + 1e-12).all()
        narrower += (curve.tvd.high / wide).mean()
    assert (covered / 300 >= 0.92).all(), covered / 300
    assert narrower / 300 < 0.95


def test_it_is_kept_with_the_draws(tmp_path):
    top = DRAWS.log_ceiling
    assert DRAWS.take([3, 4]).log_ceiling == top
    assert Draws.concatenate([DRAWS, DRAWS]).log_ceiling == top
    assert Draws.concatenate([DRAWS, WITHOUT]).log_ceiling == math.inf
    DRAWS.save(tmp_path / "with")
    WITHOUT.save(tmp_path / "without")
    assert Draws.load(tmp_path / "with").log_ceiling == top
    assert Draws.load(tmp_path / "without").log_ceiling == math.inf
    for stream in (False, True):
        cert = qr.tradeoff(tmp_path / "with", stream=stream).at(tvd=0)
        assert cert.tvd.high == 0
        assert top <= cert.log_beta < top + 0.01


def test_a_ceiling_that_was_only_seen_is_not_believed():
    """The feature is 2.5 on one item in 1000: the largest ratio is e^2.5, not e."""
    fickle = qr.Feature("fickle", lambda x: 2.5 if x == "a0" else x.startswith("b"))
    assert qr.draw(BASE * qr.tilt(fickle, 1.0), BASE, 100, seed=0).log_ceiling == math.inf
    for declared in ({"boolean": True}, {"low": 0, "high": 1}):
        lie = qr.Feature("lie", fickle.function, **declared)
        with pytest.raises(qr.errors.FeatureError, match=r"declared.*but is 2\.5"):
            lie(ITEMS)


@pytest.mark.parametrize("known", [{}, {"log_most": lambda self: 3.0}])
def test_a_subclass_that_scores_otherwise_has_none_unless_it_says_so(known):
    def twice(self, column):
        return 2 * qr.targets.Tilt.log_factor(self, column)

    kind = type("Twice", (qr.targets.Tilt,), {"log_factor": twice, **known})
    target = qr.Product(BASE, [kind(IS_B, 1.0)])
    expected = 3.0 if known else math.inf
    assert qr.draw(target, BASE, 100, seed=0).log_ceiling == expected


def test_a_run_has_it_before_the_first_shard(tmp_path):
    from quasir.runs.draw_shards import draw_into

    store = Store.create(tmp_path, 0)
    draw_into(store, TARGET, MIXED, 100)
    known = RatioBounds.from_dict(Store.open(tmp_path).manifest.known)
    assert known == DRAWS.known
    assert known.bounds == {"b": (0.0, 1.0)}
    store.change(known=None)
    store.write_manifest()
    assert Draws.load(tmp_path).log_ceiling == math.inf
    assert "Nothing is known" in qr.tradeoff(tmp_path).at(1.0).guarantee.basis


def test_what_is_said_of_a_table_fits_weights_that_do_not_sum_to_1():
    """A table of sum 100 was "a distribution itself", and its "features" were said to declare."""
    flat = qr.Table({"a": 1, "b": 1})
    for scale in (1, 100):
        target = qr.Table({"a": 0.7 * scale, "b": 0.3 * scale})
        said = ratio_bounds(target, flat).basis
        assert f"Z is known to be {scale}:" in said
        assert ("distribution itself" in said) == (scale == 1)
        assert ("declares it as its log_z" in said) == (scale == 100)
        for proposal in (target, qr.Mixture([target, flat])):
            said = ratio_bounds(target, proposal).basis
            assert "features" not in said
            assert "base" not in said
            assert ("its Z is 100" in said) == (scale == 100)


def test_a_run_does_not_go_on_with_other_ratios(tmp_path):
    """A ceiling that is stored holds for the target and the proposal that it was found for."""
    from quasir.runs.draw_shards import draw_into

    store = Store.create(tmp_path / "run", seed=0)
    draw_into(store, TARGET, MIXED, 100)
    ceiling = store.manifest.known["log_ceiling"]
    for target, proposal in ((TARGET, OTHER), (TARGET * qr.tilt(IS_B, 1.0), MIXED)):
        assert ratio_bounds(target, proposal).log_ceiling > ceiling
        with pytest.raises(qr.errors.StoreError, match="another target or proposal"):
            draw_into(store, target, proposal, 5000)
    assert (draw_into(store, TARGET, MIXED, 200), len(store)) == (100, 200)
    assert store.manifest.known["log_ceiling"] == ceiling


class Unnormalised:
    """A table that does not say what it sums to."""

    def __init__(self, table):
        self.log_score = table.log_score


def test_a_run_goes_on_without_a_stored_z_but_not_with_another(tmp_path):
    """A stored Z bounds what was not drawn, so it must stay true; a run without one needs none."""
    from quasir.runs.draw_shards import draw_into

    table, flat = qr.Table({"a": 0.7, "b": 0.3}), qr.Table({"a": 1, "b": 1})
    known, unknown = (Store.create(tmp_path / name, seed=0) for name in ("known", "unknown"))
    draw_into(known, table, flat, 100)
    for other in (Unnormalised(table), qr.Table({"a": 7, "b": 3})):
        with pytest.raises(qr.errors.StoreError, match="another target or proposal"):
            draw_into(known, other, flat, 200)
    draw_into(unknown, Unnormalised(table), flat, 100)
    assert (draw_into(unknown, table, flat, 200), len(unknown)) == (100, 200)
    assert RatioBounds.from_dict(unknown.manifest.known).log_z is None
