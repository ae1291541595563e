import json

import pytest

import quasir as qr
from quasir.runs.plan import plan_run
from quasir.store import Store
from tests.cli.helpers import LETTERS, quasir


def test_the_command(tmp_path):
    (tmp_path / "r.yaml").write_text(LETTERS)
    quasir("draw", tmp_path / "r.yaml", "--out", tmp_path / "run")
    asked = ("plan", tmp_path / "run", "--tvd", 0.02, "--se", 0.0005)
    out, _ = quasir(*asked)
    for word in ("draws", "hours", "machines", "disk", "!"):
        assert word in out
    assert max(map(len, out.splitlines())) <= 80
    told = json.loads(quasir(*asked, "--json", "--machines", 4, "--of", "vowel")[0])
    assert told["hours"]["value"] == pytest.approx(told["seconds"]["value"] / 3600 / 4)
    assert told["of"] == "vowel"
    of_tvd = plan_run(Store.open(tmp_path / "run"), {"tvd": 0.02}, se=0.0005)
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
