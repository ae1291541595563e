"""Streamed estimates are those of all the draws at once: at bin edges to 1e-9, TVD by a bracket."""

import dataclasses

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import quasir as qr
from quasir.certificates.curve import Curve, curve_of
from quasir.certificates.evaluator import SummarisedDraws
from quasir.estimation import summary as summaries
from quasir.estimation.summary import Summary, kept
from quasir.store import Store
from tests.exact.test_formulas import columns


def streamed(draws, parts, log_betas=None, fineness=None, merge=Summary.merged):
    """Return the curve of draws that are summarised in parts."""
    made = []
    for at in np.array_split(np.arange(len(draws)), parts):
        some = draws.take(at)
        if len(some):
            made.append(
                Summary.of(some.log_p, some.log_q, some.log_base, some.features, fineness=fineness)
            )
    return curve_of(SummarisedDraws(merge(made), draws.warnings), None, log_betas)


def binned(draws, width):
    """Return what evaluates draws by bins of a width, all of them summarised at once."""
    fineness = -round(np.log2(width))
    whole = Summary.of(draws.log_p, draws.log_q, draws.log_base, draws.features, fineness=fineness)
    return SummarisedDraws(whole)


def same(curve, draws, value_rtol=1e-9, rtol=1e-7):
    """Assert that a streamed curve is that of the draws."""
    whole = qr.tradeoff(draws, log_betas=curve.log_betas)
    expected = whole.columns()
    scale = max(1.0, float(np.abs(curve.log_betas).max()))
    for name, column in curve.columns().items():
        if name.startswith("tvd") and not name.startswith("tvd_bound"):
            continue
        # Standard errors are roots of differences, and so are ends of intervals.
        exact = not name.endswith(("_se", "_low", "_high"))
        size = scale if name.startswith(("log_z", "kl")) else 1.0
        if name.startswith("moment:"):
            size = 1 + np.ptp(draws.features[name[7:].split("_")[0]].astype(float))
        if exact:
            np.testing.assert_allclose(
                column, expected[name], rtol=value_rtol, atol=1e-12 * size, err_msg=name
            )
            continue
        # Rounding is 1e-16 of the largest terms, beta/Z_beta, and its root is seen.
        term = 1 + np.exp(np.minimum(curve.log_betas - whole.log_z_beta.value, 300.0))
        slack = 1e-7 * size * term / np.sqrt(whole.n) + 1e-12 * size
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            if not name.endswith("_se"):
                # An end is value exp(+-z se/value), about: so much does it amplify the error's.
                value = np.abs(expected[name.rsplit("_", 1)[0]])
                slack = slack * (1 + 4 * np.maximum(np.abs(column), np.abs(expected[name])) / value)
            slack = slack + rtol * np.abs(expected[name])
            alike = (np.abs(column - expected[name]) <= slack) | (column == expected[name])
        alike |= np.isnan(column) & np.isnan(expected[name])
        assert alike.all(), name
    rounding = 1e-13 * scale
    off = np.abs(curve.tvd.value - whole.tvd.value)
    assert (off <= curve.tvd_slack * (1 + 1e-9) + rounding).all()
    assert (curve.tvd.low <= whole.tvd.value + rounding).all()
    assert (curve.tvd.high >= whole.tvd.value - rounding).all()
    assert (whole.tvd_slack == 0).all()
    np.testing.assert_array_equal(curve.n_above, whole.n_above)
    for name, part in dataclasses.asdict(curve.tail).items():
        assert part == pytest.approx(getattr(whole.tail, name), rel=1e-9, nan_ok=True), name
    assert curve.ess == pytest.approx(whole.ess, rel=1e-9)
    assert (curve.n, curve.n_possible) == (whole.n, whole.n_possible)
    evaluator = binned(draws, curve.bin_width)
    for everything in (True, False):
        one, other = (c.proposal if everything else c.projection for c in (curve, whole))
        for name, moment in one.moments.items():
            for end in ("value", "se", "low", "high"):
                wanted = getattr(other.moments[name], end)
                assert getattr(moment, end) == pytest.approx(wanted, rel=1e-9, abs=1e-9), name
        assert one.kl.value == pytest.approx(other.kl.value, rel=1e-9, abs=1e-12 * scale)
        below = np.array([evaluator.ratios.level(0) - 1.0])
        slack = evaluator.points(below, everything=everything).tvd_slack[0]
        assert abs(one.tvd.value - other.tvd.value) <= slack * (1 + 1e-9) + rounding
        assert len(one.warnings) == len(other.warnings)
    return whole


@settings(max_examples=25, deadline=None)
@given(columns(), st.integers(0, 2**32), st.integers(1, 5), st.sampled_from([None, 0, 3, 8]))
def test_any_draws_in_any_parts(case, seed, parts, fineness):
    """Ties, impossible draws, ratios from e^-300 to e^300; bins as found best and as given."""
    log_p, log_q, _ = case
    rng = np.random.default_rng(seed)
    n = len(log_p)
    features = {"flag": rng.random(n) < 0.3, "size": rng.normal(50, 10, n)}
    log_base = np.where(log_p > -np.inf, log_q + rng.normal(size=n), np.nan)
    draws = qr.Draws.from_arrays(log_p, log_q, log_base=log_base, features=features)
    same(streamed(draws, parts, fineness=fineness), draws)
    plain = qr.Draws.from_arrays(log_p, log_q)
    same(streamed(plain, parts, fineness=fineness), plain)


def random_draws(n, sigma, seed=0, scale=0.0, impossible=0.2, **options):
    rng = np.random.default_rng(seed)
    log_q = rng.normal(size=n)
    log_p = log_q + rng.normal(0, sigma, n) + scale
    log_p = np.where(rng.random(n) < impossible, -np.inf, log_p)
    features = {"flag": rng.random(n) < 0.1, "size": rng.normal(1000, 1, n)}
    log_base = np.where(log_p > -np.inf, log_q - rng.random(n), np.nan)
    if options.get("bare"):
        return qr.Draws.from_arrays(log_p, log_q)
    return qr.Draws.from_arrays(log_p, log_q, log_base=log_base, features=features)


@pytest.mark.parametrize("sigma", [0.01, 0.3, 1.5, 4.0])
@pytest.mark.parametrize("parts", [1, 7])
def test_many_draws(sigma, parts):
    draws = random_draws(150_000, sigma)
    curve = streamed(draws, parts)
    whole = same(curve, draws)
    assert len(curve) >= 190
    above = curve.n_above > 0
    slack = curve.tvd_slack[above] / whole.tvd.value[above]
    # The bracket is twice the slack: under 0.1 % of the value.
    assert 2 * slack.max() < 1e-3
    assert slack.max() > 0


def test_bins_that_are_too_wide_are_found_out():
    """Eight times as wide, the bracket is past 0.1 % and still holds."""
    draws = random_draws(150_000, 1.5)
    width = streamed(draws, 1).bin_width
    curve = streamed(draws, 1, fineness=-round(np.log2(width)) - 3)
    whole = same(curve, draws)
    above = curve.n_above > 0
    assert 2 * (curve.tvd_slack[above] / whole.tvd.value[above]).max() > 1e-3


def test_ties_leave_nothing_open():
    """On a small space every bin holds one ratio, and TVD is known to rounding."""
    target = qr.Table({"a": 0.5, "b": 0.3, "c": 0.15, "d": 0.05})
    proposal = qr.Table({"a": 0.2, "b": 0.3, "c": 0.25, "d": 0.25})
    draws = qr.draw(target, proposal, 20_000, seed=0)
    curve = streamed(draws, 3)
    whole = same(curve, draws)
    np.testing.assert_allclose(curve.tvd.value, whole.tvd.value, rtol=1e-9, atol=1e-14)
    assert curve.tail.at_max == whole.tail.at_max > 1000


@pytest.mark.parametrize("scale", [-800.0, 800.0])
def test_scaling_by_e_to_the_800_changes_nothing(scale):
    scaled, plain = random_draws(20_000, 1.5, scale=scale), random_draws(20_000, 1.5)
    curve = streamed(scaled, 4)
    same(curve, scaled)
    base = streamed(plain, 4, log_betas=curve.log_betas - scale)
    np.testing.assert_allclose(curve.tvd.value, base.tvd.value, rtol=1e-9, atol=1e-13)
    np.testing.assert_allclose(curve.kl.value, base.kl.value, rtol=1e-9, atol=1e-12)


def test_no_draw_has_mass():
    draws = qr.Draws.from_arrays(np.full(50, -np.inf), np.zeros(50))
    curve = streamed(draws, 2)
    assert curve.n_possible == 0
    assert curve.warnings == qr.tradeoff(draws).warnings
    assert np.isnan(curve.at(beta=1).tvd.value)
    mixed = qr.Draws.from_arrays(np.r_[np.full(50, -np.inf), np.zeros(50)], np.zeros(100))
    same(streamed(mixed, 2), mixed)


def test_a_feature_that_looks_boolean_in_one_part():
    rng = np.random.default_rng(0)
    values = np.r_[rng.integers(0, 2, 500), rng.normal(20, 3, 500)].astype(float)
    draws = qr.Draws.from_arrays(rng.normal(size=1000), np.zeros(1000), features={"f": values})
    same(streamed(draws, 4), draws)


def test_constraints_are_met_at_the_nearest_edge():
    draws = random_draws(60_000, 1.0)
    curve, whole = streamed(draws, 3), qr.tradeoff(draws)
    width = curve.bin_width
    for constraint in ({"tvd": 0.05}, {"kl": 0.01}, {"tvd_bound": 0.2}):
        found, exact = curve.at(**constraint).log_beta, whole.at(**constraint).log_beta
        assert 0 <= found - exact <= width * 1.01
    for rate in (0.7, 0.1, 0.001, 1e-6):
        found = curve.at(acceptance_rate=rate)
        exact = whole.at(acceptance_rate=rate).log_beta
        assert 0 <= exact - found.log_beta <= width * 1.01
        assert found.acceptance_rate.value >= rate * (1 - 1e-12)
    moved = curve.at(beta=2.0).log_beta
    assert abs(moved - np.log(2)) <= width / 2
    assert curve.at(log_beta=moved).log_beta == moved == round(moved / width) * width
    for constraint in ({"tvd": 1e-9}, {"acceptance_rate": 0.99}):
        with pytest.raises(qr.errors.UnreachableError) as ours:
            curve.at(**constraint)
        with pytest.raises(qr.errors.UnreachableError) as theirs:
            whole.at(**constraint)
        assert ours.value.best.log_beta == pytest.approx(theirs.value.best.log_beta, abs=width)


def test_a_sum_that_forgets_a_part_fails():
    """The comparison can fail: a part counted twice, or dropped, is seen."""
    draws = random_draws(3000, 1.0)
    for wrong in (lambda parts: Summary.merged(parts[1:]), lambda p: Summary.merged([p[0], *p])):
        with pytest.raises(AssertionError):
            same(streamed(draws, 3, merge=wrong), draws)


def saved(tmp_path, draws, blocks_a_shard=4):
    store = Store.create(tmp_path / "run", draws.seed, blocks_a_shard)
    for number in store.missing(len(draws)):
        start = number * store.shard_size
        store.add(
            number, draws.take(np.arange(start, min(start + store.shard_size, len(draws)))).rows
        )
    return store


def test_a_store_is_streamed(tmp_path):
    draws = random_draws(20_000, 1.5)
    store = saved(tmp_path, draws)
    curve = qr.tradeoff(store, stream=True)
    same(curve, draws)
    assert curve.tvd_slack.max() > 0
    # Small as it is, it is loaded unless streaming is asked for.
    for loaded in (qr.tradeoff(store), qr.tradeoff(str(store.folder)), qr.tradeoff(store.folder)):
        np.testing.assert_array_equal(loaded.log_betas, qr.tradeoff(draws).log_betas)
        np.testing.assert_array_equal(loaded.tvd.value, qr.tradeoff(draws).tvd.value)
    with pytest.raises(qr.errors.InputError, match="on disk"):
        qr.tradeoff(draws, stream=True)
    with pytest.raises(qr.errors.InputError, match="run's folder"):
        qr.tradeoff(3)
    assert isinstance(curve, Curve)


def test_a_second_look_reads_summaries_alone(tmp_path, monkeypatch):
    store = saved(tmp_path, random_draws(20_000, 1.5))
    first = qr.tradeoff(store, stream=True)
    files = sorted(path.name for path in (tmp_path / "run" / "draws").iterdir())
    assert files == sorted(
        f"shard-0000{i}{end}" for i in range(5) for end in (".parquet", ".summary")
    )

    def never(*_, **__):
        raise AssertionError("a shard was read")

    monkeypatch.setattr(pq, "ParquetFile", never)
    again = qr.tradeoff(Store.open(tmp_path / "run"), stream=True)
    np.testing.assert_array_equal(again.tvd.value, first.tvd.value)
    np.testing.assert_array_equal(again.moments["size"].se, first.moments["size"].se)


def test_a_summary_that_is_stale_is_made_again(tmp_path):
    draws = random_draws(20_000, 1.5)
    store = saved(tmp_path, draws.take(np.arange(18_000)))
    qr.tradeoff(store, stream=True)
    # The last shard grows; another summary is damaged, one is another shard's, one is gone.
    store.add(4, draws.take(np.arange(16_384, 20_000)).rows)
    paths = [summaries.summary_path(store, i) for i in range(5)]
    paths[0].write_bytes(paths[0].read_bytes()[:1000])
    paths[1].write_bytes(paths[2].read_bytes())
    paths[3].unlink()
    same(qr.tradeoff(Store.open(tmp_path / "run"), stream=True), draws)
    assert paths[3].exists()


def test_a_damaged_shard_is_named(tmp_path):
    store = saved(tmp_path, random_draws(20_000, 1.5))
    for _ in range(2):  # before there are summaries, and after
        content = bytearray(store.path(2).read_bytes())
        content[len(content) // 2] ^= 1
        store.path(2).write_bytes(content)
        with pytest.raises(
            qr.errors.StoreError, match=r"shard-00002\.parquet.*save them again"
        ) as caught:
            qr.tradeoff(store, stream=True)
        assert caught.value.damaged == [2]
        content[len(content) // 2] ^= 1
        store.path(2).write_bytes(content)
        qr.tradeoff(store, stream=True)


@pytest.mark.parametrize("falling", [False, True])
@pytest.mark.parametrize("keep", [False, True])
def test_draws_in_the_order_of_their_ratios(tmp_path, falling, keep):
    """All of the tail is in one shard, which is asked for more than a shard usually keeps."""
    draws = random_draws(60_000, 1.5, bare=True)
    order = np.argsort(draws.log_ratio)
    draws = draws.take(order[::-1] if falling else order)
    store = saved(tmp_path, draws, 2)
    parts = [summaries.shard_summary(store, i, False) for i in store.numbers()]
    assert not Summary.merged(parts, kept(len(draws))).tail_is_whole
    summary = summaries.summarise(store, keep=keep)
    assert summary.tail_is_whole
    curve = curve_of(SummarisedDraws(summary))
    same(curve, draws)


def test_warnings_of_the_draws_are_kept(tmp_path):
    store = saved(tmp_path, random_draws(3000, 1.5))
    store.change(warnings=("what the draws cannot show",))
    assert "what the draws cannot show" in qr.tradeoff(store, stream=True).at(beta=1).warnings


def test_summaries_of_other_columns_do_not_merge():
    one = Summary.of(np.zeros(3), np.zeros(3))
    two = Summary.of(np.zeros(3), np.zeros(3), features={"f": np.ones(3)})
    with pytest.raises(qr.errors.InputError, match="other columns"):
        Summary.merged([one, two])
    assert SummarisedDraws(one).n == 3
