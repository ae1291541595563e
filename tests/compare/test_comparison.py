"""The numbers of the table, each computed again by hand from the pool."""

import math
from dataclasses import replace

import numpy as np
import pytest

import quasir as qr
from quasir.compare import compare
from quasir.compare.comparison import run_seed
from quasir.compare.sampler_table import notes
from quasir.estimation.estimate import Moment
from tests.compare.pools import VOWEL, letters, part, places, poissons

POOL = letters(30_000)
NAMES = ["qrs", "imh", "imh-reset", "sir"]


@pytest.fixture(scope="module")
def found():
    return compare(POOL, NAMES, [0.1, 0.02], n=100, runs=4, burn_in=60)


def row_of(found, sampler, rate=1.0):
    (row,) = (r for r in found.rows if r.sampler == sampler and math.isclose(r.cost.rate, rate))
    return row


def by_hand(stretch, sampler, n, steps, seed):
    """Return where a sampler's samples stand, and the proposals they took, by plain loops."""
    w, alpha = np.exp(stretch.log_ratio), np.exp(stretch.log_alpha)
    if sampler == "proposal":
        return list(range(n)), n
    if sampler == "qrs":
        first = alpha[: n * steps]
        return sorted(np.argsort(-first)[:n]), n * steps
    if sampler == "sir":
        pool = w[: n * steps]
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(2**31 + 6, 0, 0)))
        cumulative = np.cumsum(pool / pool.sum())
        return [int((cumulative <= u * cumulative[-1]).sum()) for u in rng.random(n)], n * steps
    kept, state, age = [], None, 0
    for i in range(len(w)):
        if state is None:
            state, age = (i, 0) if w[i] > 0 else (None, 0)
        else:
            age += 1
            state = i if alpha[i] > w[state] else state
        if state is None:
            continue
        if sampler == "imh" and age > 60 and (age - 60) % steps == 0:
            kept.append(state)
        if sampler == "imh-reset" and age == steps - 1:
            kept.append(state)
            state = None
        if len(kept) == n:
            return kept, i + 1
    raise AssertionError("too few")


@pytest.mark.parametrize(
    ("sampler", "steps"),
    [("proposal", 10), *((name, steps) for steps in (10, 50) for name in NAMES)],
)
def test_every_number_is_that_of_its_samples(found, sampler, steps):
    row = row_of(found, sampler, 1 if sampler == "proposal" else 1 / steps)
    share = found.stretches[[10, 50].index(steps)]
    assert (row.n, row.runs) == (100, 4)
    expected = {"vowel": [], "long": [], "cost": [], "unique": [], "bleu": [], "tvd": [], "kl": []}
    for run, at in enumerate(places(share)):
        stretch = part(POOL, at)
        seed = run_seed(POOL.seed, steps, 2 + run)
        chosen, proposals = by_hand(stretch, sampler, 100, steps, seed)
        texts = [str(stretch.items[i]) for i in chosen]
        expected["cost"].append(proposals / 100)
        expected["vowel"].append(sum("a" in text or "e" in text for text in texts) / 100)
        expected["long"].append(sum(map(len, texts)) / 100)
        expected["unique"].append(len(set(texts)) / 100)
        expected["bleu"].append(qr.metrics.self_bleu(texts, 5))
        if sampler not in ("proposal", "qrs"):
            continue
        curve = qr.tradeoff(stretch)
        if sampler == "qrs":
            beta = np.sort(stretch.log_alpha[: 100 * steps])[-101]
            certificate = curve.at(log_beta=beta)
        else:
            certificate = curve.proposal
        expected["tvd"].append(certificate.tvd.value)
        expected["kl"].append(certificate.kl.value)
    names = {"cost": "draws_per_sample", "unique": "unique", "bleu": "self_bleu"}
    names |= {name: Moment(name) for name in ("vowel", "long")}
    if sampler in ("proposal", "qrs"):
        names |= {"tvd": "tvd", "kl": "kl"}
    for ours, name in names.items():
        np.testing.assert_allclose(row.cells[name].values, expected[ours], rtol=1e-10, atol=1e-15)
        runs = row.cells[name].runs
        assert runs.mean == pytest.approx(np.mean(expected[ours]), abs=1e-12)
        assert runs.sd == pytest.approx(np.std(expected[ours], ddof=1), abs=1e-12)


def test_what_cannot_be_known_says_so(found):
    for sampler in ("imh", "imh-reset", "sir"):
        row = row_of(found, sampler, 0.1)
        assert row.cells["tvd"].text() == row.cells["kl"].text() == "unknown"
        assert row.to_dict()["tvd"] == "unknown"
        assert row.to_dict()["tvd_sd"] is None
    (why,) = (note for note in notes(found) if "are unknown" in note)
    assert "IMH-10, IMH-reset-10, SIR, IMH-50, IMH-reset-50" in why
    assert "neither scored nor compared" in why


def test_no_zero_is_silent():
    """On Poissons a rate of 0.1 is far past the largest ratio: TVD is 0 on every stretch."""
    found = compare(poissons(20_000), ["qrs"], [0.1], n=100, runs=5)
    row = row_of(found, "qrs", 0.1)
    assert row.cells["tvd"].unseen == 5
    assert row.cells["tvd"].text().startswith("≤ ")
    # A thousand draws without one above beta cannot guarantee more than this.
    assert 0 < row.cells["tvd"].high < 0.02
    assert all(any("not been seen" in warning for warning in warnings) for warnings in row.warnings)
    said = list(notes(found))
    assert any(note.startswith("≤: in some runs of QRS") for note in said)
    assert any(note.startswith("! QRS at 0.1: warnings in 5 of 5 runs") for note in said)


def test_the_law_of_the_samples():
    """QRS at 0.5 has the moment that its own trade-off predicts, the proposal that of q."""
    found = compare(letters(150_000, seed=5), ["qrs"], [0.5], n=1000, runs=50)
    q = {"a": 1, "e a": 1, "x y x": 2, "y": 1, "z z": 4}
    cell = row_of(found, "proposal").cells[Moment("vowel")]
    assert cell.runs.mean == pytest.approx(2 / 9, abs=5 * cell.runs.sd / math.sqrt(50))
    base = {"a": 0.1, "e a": 0.1, "x y x": 0.4, "y": 0.0, "z z": 0.2}
    p = {x: a * np.exp(1.2 * VOWEL([x])[0]) for x, a in base.items()}
    # The level at which half of the proposals are accepted.
    low, high = 0.0, 100.0
    for _ in range(200):
        middle = (low + high) / 2
        rate = sum(min(p[x], middle * q[x] / 9) for x in p) / middle
        low, high = (middle, high) if rate > 0.5 else (low, middle)
    p_beta = {x: min(p[x], low * q[x] / 9) for x in p}
    expected = (p_beta["a"] + p_beta["e a"]) / sum(p_beta.values())
    cell = row_of(found, "qrs", 0.5).cells[Moment("vowel")]
    assert cell.runs.mean == pytest.approx(expected, abs=5 * cell.runs.sd / math.sqrt(50))
    assert abs(expected - 2 / 9) > 20 * cell.runs.sd / math.sqrt(50)


def test_a_rate_out_of_reach_is_the_filtered_proposal():
    target, proposal = qr.Table({"a": 0.5, "b": 0.5}), qr.Table({"a": 0.1, "b": 0.1, "c": 0.8})
    pool = qr.draw(target, proposal, 8000, seed=0)
    found = compare(pool, ["qrs"], [0.5], n=100, runs=4)
    row = row_of(found, "qrs", 0.5)
    assert row.cells["draws_per_sample"].runs.mean == pytest.approx(5, rel=0.3)
    np.testing.assert_allclose(
        row.cells["tvd"].values,
        [qr.tradeoff(part(pool, at)).projection.tvd.value for at in places(found.stretches[0])],
    )
    assert all("out of reach" in warnings[0] for warnings in row.warnings)
    # All ratios are equal, so both distances are 0 on these draws; only TVD has a bound there.
    assert row.cells["tvd"].text().startswith("≤ ")
    assert row.cells["kl"].text() == "unknown"
    assert any("unknown where nothing bounds" in note for note in notes(found))


def test_where_nothing_is_possible():
    pool = letters(2000)
    nothing = replace(pool, log_p=np.full(2000, -np.inf))
    with pytest.raises(qr.errors.InputError, match="none of the 2,000 draws"):
        compare(nothing, ["qrs"], [0.1])


def test_too_few_draws_for_any_sample_leave_the_rate_out():
    found = compare(letters(900), ["qrs", "imh"], [0.1], n=10, runs=2, burn_in=1000)
    assert [row.sampler for row in found.rows] == ["proposal"]
    assert any(note.startswith("At 0.1: 0 samples in a run") for note in notes(found))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"samplers": ["gibbs"]}, "there are qrs, imh"),
        ({"rates": [0.0]}, "above 0"),
        ({"rates": [2.0]}, "at most 1"),
        ({"rates": []}, "no rates"),
        ({"n": 0}, "n is 0"),
        ({"runs": 0}, "runs is 0"),
    ],
)
def test_what_cannot_be_compared_is_refused(change, message):
    with pytest.raises(qr.errors.InputError, match=message):
        compare(POOL, **({"samplers": ["qrs"], "rates": [0.1]} | change))


def test_a_rate_is_one_in_a_whole_number():
    found = compare(letters(3000), ["qrs"], [0.3, 1 / 3], n=50, runs=3)
    assert [round(share.cost.rate, 4) for share in found.stretches] == [0.3333]


def test_progress_is_told_after_every_row():
    told = []
    tell = {"progress": lambda done, total, _: told.append((done, total))}
    compare(letters(4000), ["qrs", "sir"], [0.1, 0.5], n=30, runs=3, **tell)
    assert told == [(done, 360) for done in (90, 180, 270, 360)]


def test_what_is_certain_is_said_to_be():
    """Half of the proposal is the base, and the target is at most three times that."""
    base, other = qr.Table({"a": 0.5, "b": 0.5}), qr.Table({"a": 0.9, "b": 0.1})
    target = base * qr.tilt(qr.Feature("b", lambda x: x == "b", boolean=True), np.log(3))
    pool = qr.draw(target, qr.Mixture([base, other]), 20_000, seed=0)
    found = compare(pool, ["qrs"], [0.5, 0.05], n=150, runs=5)
    row = row_of(found, "qrs", 0.05)
    assert str(row.cells["tvd"]) == str(row.cells["kl"]) == "0, certain"
    assert not any(row.warnings)
    assert "certain" not in str(row_of(found, "qrs", 0.5).cells["tvd"])
