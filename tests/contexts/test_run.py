"""A run over contexts: its draws, its certificates, what it writes, and what it refuses."""

import csv
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import quasir as qr
from quasir.core.streams import DrawStreams, context_seed
from quasir.draws.draw_blocks import draw_blocks
from quasir.errors import InputError, StoreError
from quasir.recipes import from_dict
from quasir.recipes.building import build, resolve
from quasir.recipes.placeholders import Context, fill
from quasir.store import Store
from quasir.store.store import ContextStore
from tests.contexts.recipes import CONTEXTS, RECIPE, law


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "letters"
    return qr.run(RECIPE, out=folder, contexts=CONTEXTS, progress=False)


def test_the_draws_of_a_context_are_those_of_its_own_run(run):
    recipe = from_dict(RECIPE)
    assert sum(len(one.draws) for one in run) == 12_000
    for place, fields in enumerate(CONTEXTS):
        context = Context(place, fields)
        filled = fill(recipe, context)
        built = build(filled, Path())
        target = resolve(filled, built)[1]
        own = run[place].draws
        streams = DrawStreams(context_seed(0, place, context.key))
        alone = draw_blocks(target, built.proposal, streams, 0, 20, stop=len(own))
        assert list(own.items) == list(alone.items)
        for name in ("log_p", "log_q", "log_u"):
            np.testing.assert_array_equal(getattr(own, name), getattr(alone, name))


def test_adding_contexts_changes_no_draw(run, tmp_path):
    more = qr.run(
        RECIPE, out=tmp_path / "more", contexts=[*CONTEXTS, {"letter": "a", "n": 2}], progress=False
    )
    for i in range(4):
        n = min(len(more[i].draws), len(run[i].draws))
        assert list(more[i].draws.items[:n]) == list(run[i].draws.items[:n])
    # The same words at another place are another context.
    assert list(more[4].draws.items[:20]) != list(more[0].draws.items[:20])


def test_estimates_are_right(run):
    for one, fields in zip(run, CONTEXTS, strict=True):
        truth = law(fields["letter"])
        certificate = one.certificate
        assert certificate.tvd.value <= 0.05 + 1e-9
        z = sum(p for w, p in truth.items() if w.endswith("z"))
        exact = one.curve.at(log_beta=one.draws.log_ceiling)
        assert exact.moments["z"].low <= z <= exact.moments["z"].high
        assert {str(x)[0] for x in one.samples.items} == {fields["letter"]}
    whole = run.certificate
    tvds = [one.certificate.tvd.value for one in run]
    assert whole.estimates["tvd"].value == pytest.approx(np.mean(tvds))
    rates = [one.certificate.acceptance_rate.value for one in run]
    assert whole.estimates["proposals"].value == pytest.approx(np.mean(1 / np.array(rates)))
    assert whole.served == whole.contexts == 4
    assert 0 < whole.guarantee.tvd < 1


def test_the_files(run):
    lines = [json.loads(x) for x in (run.folder / "samples.jsonl").read_text().splitlines()]
    assert len(lines) == 4 * 40
    assert {line["context"] for line in lines} == {0, 1, 2, 3}
    ids = {one.index: one.result.id for one in run}
    for line in lines:
        assert line["certificate_id"] == ids[line["context"]]
        assert line["sample"][0] == line["fields"]["letter"]
        draws = run[line["context"]].draws
        assert draws.items[line["draw"]] == line["sample"]
    table = pq.read_table(run.folder / "samples.parquet")
    assert table["sample"].to_pylist() == [line["sample"] for line in lines]
    assert table["log_p_beta"].to_pylist() == [line["log_p_beta"] for line in lines]
    rows = list(csv.DictReader((run.folder / "contexts.csv").read_text().splitlines()))
    assert [json.loads(row["fields"]) for row in rows] == CONTEXTS
    assert json.loads((run.folder / "certificate.json").read_text())["served"] == 4
    page = (run.folder / "report.html").read_text()
    assert page.count('<tr id="context-') == 4


def test_datasets_reads_the_samples(run):
    import datasets

    made = datasets.load_dataset(
        "json",
        data_files=str(run.folder / "samples.jsonl"),
        split="train",
        cache_dir=str(run.folder / "cache"),
    )
    assert len(made) == 4 * 40
    assert {"context", "sample", "log_p_beta", "certificate_id"} <= set(made.column_names)
    assert made[0]["fields"]["letter"] == "a"


def test_it_opens_again(run):
    again = qr.open_run(run.folder)
    assert isinstance(again, qr.Run)
    assert repr(again) == f"<Run {run.folder}: 4 contexts, 12,000 draws>"
    with pytest.raises(InputError, match=r"each has its own samples: take one .* run\[0\]"):
        _ = again.samples
    assert len(again) == 4
    assert again[2].fields == {"letter": "c"}
    with pytest.raises(InputError, match="no context 4: they are numbered from 0 to 3"):
        again[4]
    with pytest.raises(InputError, match="is a run over contexts"):
        Store.open(run.folder)
    with pytest.raises(InputError, match="is a run over contexts"):
        qr.tradeoff(run.folder)


def test_draws_of_many_contexts_are_read_some_at_a_time(run, monkeypatch):
    read, rows_with = [], ContextStore.rows_with

    def counted(self, numbers, items=True):
        rows = rows_with(self, numbers, items)
        read.append(len(rows))
        return rows

    monkeypatch.setattr(ContextStore, "rows_with", counted)
    monkeypatch.setattr("quasir.runs.contexts.AT_ONCE", 4000)
    again = qr.open_run(run.folder)
    assert again.certificate.to_dict() == run.certificate.to_dict()
    assert len(read) >= 3


def test_the_same_again_draws_nothing(run):
    before = (run.folder / "manifest.json").read_bytes()
    again = qr.run(RECIPE, out=run.folder, contexts=CONTEXTS, progress=False)
    assert (run.folder / "manifest.json").read_bytes() == before
    assert str(again.certificate) == str(run.certificate)


def test_more_draws_go_on(run, tmp_path):
    few = qr.run(RECIPE, out=tmp_path / "r", draws=2_000, contexts=CONTEXTS, progress=False)
    first = [list(one.draws.items) for one in few]
    more = qr.run(tmp_path / "r", out=tmp_path / "r", draws=5_000, progress=False)
    assert sum(len(one.draws) for one in more) == 5_000
    for one, before in zip(more, first, strict=True):
        assert list(one.draws.items[: len(before)]) == before


@pytest.mark.parametrize(
    ("contexts", "said"),
    [
        (CONTEXTS[:3], "is a run over 4 contexts, and 3 were given"),
        ([*CONTEXTS[:3], {"letter": "e"}], r"contexts\[3\]: .* is a run over other contexts"),
    ],
)
def test_other_contexts_are_refused(run, contexts, said):
    with pytest.raises(StoreError, match=said):
        qr.run(RECIPE, out=run.folder, contexts=contexts, progress=False)


def test_a_run_without_contexts_and_one_with(run, tmp_path):
    plain = {"base": {"table": {"a": 1.0}}, "choose": {"beta": 1}}
    qr.run(plain, out=tmp_path / "plain", draws=10, progress=False)
    with pytest.raises(InputError, match="is a run without contexts"):
        qr.run(RECIPE, out=tmp_path / "plain", contexts=CONTEXTS, progress=False)


def test_too_few_draws_for_the_contexts(tmp_path):
    with pytest.raises(InputError, match="3 draws are too few for 4 contexts"):
        qr.run(RECIPE, out=tmp_path / "r", draws=3, contexts=CONTEXTS, progress=False)
    made = qr.run(RECIPE, out=tmp_path / "s", draws=4, contexts=CONTEXTS, progress=False)
    assert sum(len(one.draws) for one in made) == 4


def test_contexts_that_cannot_be_served_are_named(tmp_path):
    contexts = [*CONTEXTS, {"letter": "q"}]
    made = qr.run(RECIPE, out=tmp_path / "r", contexts=contexts, progress=False)
    whole = made.certificate
    assert list(whole.unserved) == [4]
    assert "P(x) > 0" in whole.unserved[4] or "none" in whole.unserved[4].lower()
    assert whole.served == 4
    samples = (made.folder / "samples.jsonl").read_text()
    assert '"context": 4' not in samples
    assert "context 4 is not served" in str(whole)
    assert len(made[4].draws) == 4800
    for file in ("contexts.csv", "certificate.json", "report.html"):
        given_up = "It was given up after 4,800 draws, 2 times an equal share of the 12,000"
        assert given_up in (made.folder / file).read_text(), file


def test_samples_are_of_each_context(tmp_path):
    """Five samples over 300 contexts: each has five, where five had one and 295 none."""
    recipe = {
        "base": {"table": {"a": 0.5, "b": 0.5}},
        "features": {"x": {"contains": "{text}"}},
        "choose": {"beta": 1},
        "draws": 3000,
    }
    contexts = [f"w{i}" for i in range(300)]
    made = qr.run(recipe | {"samples": 5}, tmp_path / "r", contexts=contexts, progress=False)
    lines = [json.loads(x) for x in (made.folder / "samples.jsonl").read_text().splitlines()]
    assert Counter(line["context"] for line in lines) == dict.fromkeys(range(300), 5)
    assert all(len(made[i].samples) == 5 for i in (0, 4, 5, 299))
    # A recipe that says 1000, which is also the default, is one that says it.
    kept = qr.recipes.parse(qr.recipes.dump(qr.recipes.from_dict(recipe | {"samples": 1000})), "r")
    assert kept.samples_of_each(300) == 1000
    assert qr.recipes.from_dict(recipe).samples_of_each(300) == 3


def test_a_manifest_or_a_table_that_was_edited(tmp_path):
    made = qr.run(RECIPE, out=tmp_path / "r", draws=500, contexts=CONTEXTS, progress=False)
    table = made.folder / "contexts.jsonl"
    table.write_text(table.read_text().replace('"letter": "d"', '"letter": "e"'))
    with pytest.raises(StoreError, match="changed by hand"):
        _ = qr.open_run(made.folder).entries
    recipe = made.folder / "recipe.yaml"
    recipe.write_text(recipe.read_text().replace("z$", "y$"))
    with pytest.raises(StoreError, match="changed by hand"):
        _ = qr.open_run(made.folder).recipe
