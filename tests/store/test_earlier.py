"""Stores of the earlier format: read, gone on with, and doubted where its streams were at fault."""

import json

import numpy as np
import pytest

import quasir as qr
from quasir.runs.draw_shards import draw_into
from quasir.store import Store


def recipe_of(proposal):
    return f"base: {{table: {{a: 0.4, b: 0.6}}}}\nproposal: {proposal}\nchoose: {{beta: 1}}\n"


MIXTURE = "{mixture: [{table: {a: 1.0}}, {table: {a: 0.5, b: 0.5}}]}"


def run_of_format_1(folder, proposal_text, n, version=1):
    """Write a run as the version before wrote it: its manifest says 1, its streams are the old."""
    target, proposal = qr.Table({"a": 0.4, "b": 0.6}), None
    parts = [qr.Table({"a": 1.0}), qr.Table({"a": 0.5, "b": 0.5})]
    proposal = qr.Mixture(parts) if "mixture" in proposal_text else parts[1]
    store = Store.create(folder, seed=3, blocks_a_shard=2)
    store.change(format=version)
    (folder / "recipe.yaml").write_text(recipe_of(proposal_text))
    draw_into(store, target, proposal, n)
    return target, proposal


def test_a_run_of_format_1_is_read_and_gone_on_with_as_it_was_begun(tmp_path):
    target, proposal = run_of_format_1(tmp_path / "whole", MIXTURE, 5000)
    run_of_format_1(tmp_path / "part", MIXTURE, 2048)
    store = Store.open(tmp_path / "part")
    draw_into(store, target, proposal, 5000)
    assert json.loads((tmp_path / "part" / "manifest.json").read_text())["format"] == 1
    whole, part = (qr.Draws.load(tmp_path / name) for name in ("whole", "part"))
    np.testing.assert_array_equal(whole.log_u, part.log_u)
    assert list(whole.items) == list(part.items)
    new = qr.draw(target, proposal, 5000, seed=3)
    assert not np.isin(whole.log_u, new.log_u).any()


@pytest.mark.parametrize(
    ("proposal", "version", "doubted"),
    [(MIXTURE, 1, True), ("{table: {a: 0.5, b: 0.5}}", 1, False), (MIXTURE, 2, False)],
)
def test_the_defect_of_format_1_is_a_doubt_on_mixtures(tmp_path, proposal, version, doubted):
    run_of_format_1(tmp_path, proposal, 2048, version)
    for curve in (qr.tradeoff(qr.Draws.load(tmp_path)), qr.tradeoff(tmp_path, stream=True)):
        doubts = " ".join(curve.at(beta=1.0).doubts)
        assert ("random streams of format 1" in doubts) == doubted


def test_a_store_of_format_1_without_a_recipe_has_a_doubt_with_an_if(tmp_path):
    run_of_format_1(tmp_path, MIXTURE, 1024)
    (tmp_path / "recipe.yaml").unlink()
    (doubt,) = qr.Draws.load(tmp_path).doubts
    assert doubt.startswith("If the proposal was a mixture: this run was begun")


def test_a_store_of_a_format_to_come_is_refused(tmp_path):
    run_of_format_1(tmp_path, MIXTURE, 1024, version=2)
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 3}))
    with pytest.raises(qr.StoreError, match="this version reads 1 and 2"):
        Store.open(tmp_path)
