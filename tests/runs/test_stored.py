"""Samples from a store that is read shard by shard are those of all its draws at once."""

import json
import tracemalloc

import numpy as np
import pytest

import quasir as qr
from quasir.report.shown_texts import first_accepted
from quasir.runs import sample_run
from quasir.runs.draw_shards import draw_into
from quasir.store import Store
from tests.cli.helpers import LETTERS, quasir
from tests.report.reading import data_of, text_in

BASE = qr.Table({"a": 0.5, "b": 0.3, "c": 0.15, "<script>": 0.05})
FLAT = qr.Table({"a": 1, "b": 1, "c": 1, "<script>": 1})
TARGET = BASE * qr.tilt(qr.Feature("early", lambda x: x in "ab"), 0.3)


def drawn(folder, n=9000):
    store = Store.create(folder, seed=3, blocks_a_shard=2)
    draw_into(store, TARGET, FLAT, n)
    return store


def certificates(store, log_beta=0.25):
    return (
        qr.tradeoff(store, stream=True).at(log_beta=log_beta),
        qr.tradeoff(qr.Draws.load(store)).at(log_beta=log_beta),
    )


@pytest.mark.parametrize("n", [1, 700, 2500])
def test_the_same_samples(tmp_path, n):
    store = drawn(tmp_path / "run")
    ours, theirs = certificates(store)
    streamed = sample_run(store, ours, n)
    whole = sample_run(qr.Draws.load(store), theirs, n)
    np.testing.assert_array_equal(streamed.index, whole.index)
    assert list(streamed.samples.items) == list(whole.samples.items)
    for name in ("log_p_beta", "log_p", "log_q"):
        mine, wanted = getattr(streamed.samples, name), getattr(whole.samples, name)
        np.testing.assert_allclose(mine, wanted, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(
        streamed.samples.features["early"], whole.samples.features["early"]
    )
    assert streamed.samples.proposals == whole.samples.proposals
    (mine,), (wanted,) = streamed.checks, whole.checks
    assert mine.observed == pytest.approx(wanted.observed, nan_ok=True)
    # The spread of the difference is taken from the shards that were read.
    assert mine.z == pytest.approx(wanted.z, rel=0.1, nan_ok=True)


def test_no_shard_more_is_read_than_it_takes(tmp_path, monkeypatch):
    store = drawn(tmp_path / "run")
    certificate, _ = certificates(store)
    read, taken = [], []
    numbers, items = Store.rows_of, Store.items_of
    monkeypatch.setattr(
        Store,
        "rows_of",
        lambda self, i, items=True: read.append((i, items)) or numbers(self, i, items),
    )
    monkeypatch.setattr(
        Store,
        "items_of",
        lambda self, i, rows: taken.append((i, len(rows))) or items(self, i, rows),
    )
    sampled = sample_run(store, certificate, 1800)
    last = int(sampled.index[-1]) // store.shard_size
    assert last in (1, 2, 3)
    assert read == [(i, False) for i in range(last + 1)]
    assert [i for i, _ in taken] == list(range(last + 1))
    assert sum(rows for _, rows in taken) == 1800


def test_too_few_are_drawn_on_for(tmp_path):
    store = drawn(tmp_path / "run", 3000)
    certificate, _ = certificates(store)

    def more(wanted):
        draw_into(store, TARGET, FLAT, wanted)
        return store

    sampled = sample_run(store, certificate, 4000, more)
    assert len(sampled.samples) == 4000
    assert sampled.certificate.n == len(store) > 3000
    whole = qr.Draws.load(store).accepted(log_beta=sampled.certificate.log_beta)[:4000]
    np.testing.assert_array_equal(sampled.index, whole)
    with pytest.raises(qr.errors.BudgetExceeded, match="draws gave") as caught:
        sample_run(store, certificate, 10**6, more, max_proposals=len(store))
    every = qr.Draws.load(store).accepted(log_beta=certificate.log_beta)
    assert len(caught.value.samples) == len(every)
    assert caught.value.samples.items[0] in ("a", "b", "c", "<script>")


def test_memory_is_that_of_a_shard(tmp_path):
    """The memory is that of the shards and summaries in hand, not of all draws."""
    peaks = []
    for n in (400_000, 2_000_000):  # 25 shards and 123, both more than are merged at once
        store = Store.create(tmp_path / str(n), seed=0, blocks_a_shard=16)
        rng = np.random.default_rng(0)
        draws = qr.Draws.from_arrays(rng.normal(size=n), np.zeros(n), items=np.arange(n))
        for number in store.missing(n):
            start = number * store.shard_size
            rows = np.arange(start, min(start + store.shard_size, n))
            store.add(number, draws.take(rows).rows)
        del draws
        tracemalloc.start()
        certificate = qr.tradeoff(store, stream=True).at(acceptance_rate=0.001)
        sampled = sample_run(store, certificate, 100)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert len(sampled.samples) == 100
    assert peaks[1] < 2 * peaks[0]
    assert peaks[1] < 3 * 8 * n / 2  # half of log_p, log_q and log_u


def test_a_run_of_many_draws_writes_its_report_shard_by_shard(tmp_path, monkeypatch):
    """The threshold is lowered, and nothing may load all draws: the files say the same."""
    recipe = {
        "base": {"table": {"a": 0.5, "b": 0.3, "c": 0.15, "<script>": 0.05}},
        "features": {"early": {"search": "^[ab]$"}},
        "want": {"early": 0.9},
        "proposal": {"table": {"a": 1, "b": 1, "c": 1, "<script>": 1}},
        "choose": {"tvd": 0.03},
        "draws": 9000,
        "fit": 4000,
        "samples": 2500,
    }
    monkeypatch.setattr("quasir.runs.active_run.BLOCKS_A_SHARD", 2)
    whole = qr.run(recipe, out=tmp_path / "whole", progress=False)
    fitted = qr.recipes.read_run(whole.folder).fitted
    monkeypatch.setattr("quasir.certificates.curve.STREAMED", 8000)
    with monkeypatch.context() as patch:
        patch.setattr(qr.Draws, "load", lambda *_, **__: pytest.fail("all draws are loaded"))
        many = qr.run(recipe | {"fitted": fitted}, out=tmp_path / "many", progress=False)
    assert not whole.curve.bin_width
    assert many.curve.bin_width
    assert many.certificate.tvd.value == pytest.approx(whole.certificate.tvd.value, rel=0.01)
    assert many.certificate.guarantee.tvd == pytest.approx(
        whole.certificate.guarantee.tvd, rel=0.01
    )
    assert [one.name for one in many.checks] == [one.name for one in whole.checks]
    assert many[0].result.wanted[0].target.value == pytest.approx(0.9, abs=0.02)
    # The samples are those that its beta accepts, and so is every text on the page.
    draws = qr.Draws.load(many.folder)
    np.testing.assert_array_equal(draws.log_u, whole.draws.log_u)
    lines = [json.loads(x) for x in (many.folder / "samples.jsonl").read_text().splitlines()]
    accepted = draws.accepted(log_beta=many.certificate.log_beta)[:2500]
    assert [line["draw"] for line in lines] == accepted.tolist()
    assert [line["text"] for line in lines] == [draws.items[i] for i in accepted]
    data = data_of(many.report.read_text())
    levels = np.array(data["log_beta"])
    assert data["survivors"] == [int((draws.log_alpha > level).sum()) for level in levels]
    shown = first_accepted(draws.log_alpha, levels)
    assert [text["draw"] for text in data["texts"]] == shown.tolist()
    assert [text_in(text) for text in data["texts"]] == [draws.items[i] for i in shown]
    assert {path.name for path in many.folder.iterdir()} >= {"tradeoff.csv", "certificate.json"}


def test_the_commands_stream_on_request(tmp_path):
    (tmp_path / "letters.yaml").write_text(LETTERS)
    quasir("draw", tmp_path / "letters.yaml", "--out", tmp_path / "run")
    plain = json.loads(quasir("tradeoff", tmp_path / "run", "--json")[0])
    out, err = quasir("tradeoff", tmp_path / "run", "--stream", "--json")
    told = json.loads(out)
    assert told["streamed"]
    assert not plain["streamed"]
    assert "betas are whole powers of e^" in err
    assert (tmp_path / "run" / "draws" / "shard-00000.summary").exists()
    whole = qr.tradeoff(qr.Draws.load(tmp_path / "run"), log_betas=told["columns"]["log_beta"])
    for name in ("acceptance_rate", "tvd", "kl", "moment:vowel"):
        np.testing.assert_allclose(
            told["columns"][name], whole.columns()[name], rtol=1e-9, atol=1e-13, err_msg=name
        )
    one, _ = quasir("sample", tmp_path / "run", "-n", 200, "--beta", 0.5)
    two, _ = quasir("sample", tmp_path / "run", "-n", 200, "--beta", 0.5, "--stream")
    assert len(two.splitlines()) == 200
    # Beta is the nearest edge, a millionth off where ratios are few: the same draws.
    drawn = [[json.loads(line)["draw"] for line in lines.splitlines()] for lines in (one, two)]
    assert drawn[0] == drawn[1]
    more, err = quasir("sample", tmp_path / "run", "-n", 4200, "--beta", 0.5, "--stream")
    assert len(more.splitlines()) == 4200
    assert "drawing on" in err
