"""A plan from a pilot: what it says is needed is what it takes."""

import json

import numpy as np
import pytest
from scipy import stats

import quasir as qr
from quasir.runs.draw_shards import draw_into
from quasir.runs.plan import pilot_draws, plan_run
from quasir.store import Store
from tests.cli.helpers import LETTERS, quasir

TARGET, PROPOSAL = qr.from_scipy(stats.poisson(11)), qr.from_scipy(stats.poisson(10))


@pytest.fixture(scope="module")
def pilot(tmp_path_factory):
    store = Store.create(tmp_path_factory.mktemp("pilot") / "run", seed=5, blocks_a_shard=2)
    draw_into(store, TARGET, PROPOSAL, 10_000)
    return pilot_draws(store)


@pytest.mark.parametrize("constraint", [{"tvd": 0.02}, {"kl": 0.005}, {"beta": 1.5}], ids=str)
def test_the_planned_draws_have_the_wanted_error(pilot, constraint):
    made = plan_run(pilot, constraint, se=1e-4)
    n = round(made.draws.value)
    assert made.draws.low < n < made.draws.high
    assert 3 * made.pilot.n < n < 500 * made.pilot.n
    draws = qr.draw(TARGET, PROPOSAL, n, seed=99)
    cert = qr.tradeoff(draws).at(log_beta=made.pilot.log_beta)
    name = "kl" if "kl" in constraint else "tvd"
    assert getattr(cert, name).se == pytest.approx(1e-4, rel=0.15)
    # A constraint half as large takes four times the draws, and not twice.
    assert plan_run(pilot, constraint, se=5e-5).draws.value == pytest.approx(4 * made.draws.value)
    accepted = len(draws.accepted(log_beta=cert.log_beta))
    assert made.samples.value == pytest.approx(accepted, rel=0.05)


def test_the_range_of_the_plan_covers():
    """Of 40 pilots the range holds what many draws know, about as often as it says."""
    many = qr.tradeoff(qr.draw(TARGET, PROPOSAL, 1_000_000, seed=0)).at(beta=1.5)
    truth = many.n * (many.tvd.se / 1e-4) ** 2
    covered = 0
    for seed in range(40):
        own = qr.draw(TARGET, PROPOSAL, 8192, seed=seed)
        draws = plan_run(own, {"beta": 1.5}, se=1e-4).draws
        covered += draws.low <= truth <= draws.high
        # Negative control: a plan for twice the error is not within the range.
        assert not draws.low <= 4 * truth <= draws.high
    assert covered >= 33


def test_up_to_a_billion_draws(pilot):
    se = plan_run(pilot, {"tvd": 0.02}, se=1e-3)
    factor = np.sqrt(se.draws.value / 1e9)
    made = plan_run(pilot, {"tvd": 0.02}, se=1e-3 * factor)
    assert made.draws.value == pytest.approx(1e9)
    assert any("times the pilot" in warning for warning in made.warnings)
    assert not any("times the pilot" in warning for warning in se.warnings)


def test_what_the_pilot_cannot_know_is_said(pilot):
    rng = np.random.default_rng(0)
    heavy = qr.Draws.from_arrays(2.5 * rng.standard_normal(3000), np.zeros(3000))
    warnings = " ".join(plan_run(heavy, {"beta": 20.0}, se=1e-3).warnings)
    assert "above 0.5" in warnings
    assert "Draw about 10,000" in warnings
    with pytest.raises(qr.errors.UnreachableError, match="draws would show it"):
        plan_run(pilot, {"tvd": 1e-7}, se=1e-8)
    with pytest.raises(qr.errors.InputError, match="cannot tell"):
        plan_run(pilot, {"beta": 1000.0}, se=1e-3)
    with pytest.raises(qr.errors.InputError, match="no estimate 'x'"):
        plan_run(pilot, {"tvd": 0.02}, se=0.1, of="x")


@pytest.mark.parametrize("se", [0.0, -1.0, np.nan, np.inf, 1e-300])
def test_an_error_that_cannot_be_planned_for(pilot, se):
    with pytest.raises(qr.errors.InputError, match="se is"):
        plan_run(pilot, {"tvd": 0.02}, se=se)


def test_a_damaged_pilot(tmp_path):
    store = Store.create(tmp_path / "run", seed=5, blocks_a_shard=2)
    draw_into(store, TARGET, PROPOSAL, 5000)
    store.path(1).write_bytes(b"PAR1")
    with pytest.raises(qr.errors.StoreError, match=r"truncated or edited: shard-00001\.parquet"):
        pilot_draws(store)


@pytest.mark.parametrize(
    ("constraint", "se", "of"),
    [
        ({"tvd": 0.02}, 0.03, None),
        ({"tvd": 0.02}, 0.5, None),
        ({"kl": 0.005}, 0.1, None),
        ({"acceptance_rate": 0.5}, 0.2, None),
        ({"beta": 1.5}, 10.0, "log_z"),
    ],
    ids=str,
)
def test_a_plan_has_enough_draws_to_estimate_at_all(pilot, constraint, se, of):
    """A few draws, none of which would lie above beta, were planned for such an error."""
    made = plan_run(pilot, constraint, se=se, of=of)
    n, draws = made.draws, qr.draw(TARGET, PROPOSAL, 10_000, seed=5)
    share = float((draws.log_ratio > made.pilot.log_beta).mean())
    assert n.low <= n.value <= n.high
    assert n.value * share > 19
    assert n.value * made.pilot.acceptance_rate.value > 99
    assert any("too few to estimate anything" in warning for warning in made.warnings)
    # The constraint itself can then be asked of so many draws.
    few = qr.tradeoff(qr.draw(TARGET, PROPOSAL, int(n.value) + 1, seed=8))
    assert few.at(**constraint).estimate(of or next(iter(constraint))).se <= se


def test_a_plan_for_an_error_says_that_it_leaves_out_the_confidence(pilot):
    made = plan_run(pilot, {"tvd": 0.02, "confidence": 0.95}, se=1e-4)
    assert any("confidence 0.95 is not planned for" in warning for warning in made.warnings)


def test_the_command(tmp_path):
    (tmp_path / "r.yaml").write_text(LETTERS)
    quasir("draw", tmp_path / "r.yaml", "--out", tmp_path / "run")
    asked = ("plan", tmp_path / "run", "--tvd", 0.02, "--se", 0.0005)
    out, _ = quasir(*asked)
    for word in ("pilot", "beta", "draws", "samples", "!"):
        assert word in out
    assert max(map(len, out.splitlines())) <= 80
    told = json.loads(quasir(*asked, "--json", "--of", "vowel")[0])
    assert told["of"] == "vowel"
    of_tvd = plan_run(qr.Draws.load(tmp_path / "run"), {"tvd": 0.02}, se=0.0005)
    assert told["draws"]["value"] != pytest.approx(of_tvd.draws.value)


def test_a_plan_for_a_guarantee(tmp_path):
    """As many draws as it says guarantee the constraint at the acceptance rate it says."""
    recipe = LETTERS.replace('proposal: {table: {a: 1, e: 1, x: 2, y: 1, "<script>": 4}}\n', "")
    (tmp_path / "r.yaml").write_text(recipe)
    run = tmp_path / "run"
    quasir("draw", tmp_path / "r.yaml", "--out", run)
    asked = ("plan", run, "--tvd", 0.02, "--confidence", 0.95, "--share", 0.985)
    out, _ = quasir(*asked)
    assert "tvd guaranteed at 0.985 of the acceptance rate" in out
    told = json.loads(quasir(*asked, "--json")[0])
    assert told["se"] is None
    assert told["share"] == 0.985
    wanted = told["draws"]["value"]
    constraint = 0.985 * qr.tradeoff(run).at(tvd=0.02).acceptance_rate.value
    quasir("draw", run, "--draws", int(1.5 * wanted))
    guaranteed = qr.tradeoff(run).at(tvd=0.02, confidence=0.95).acceptance_rate.value
    assert guaranteed > 0.99 * constraint
    fewer = qr.tradeoff(qr.Draws.load(run).take(range(int(wanted / 4))))
    assert fewer.at(tvd=0.02, confidence=0.95).acceptance_rate.value < constraint
    _, err = quasir("plan", run, "--tvd", 0.02, code=2)
    assert "--confidence 0.95" in err
