import json

import pytest

from quasir.runs.pilot import plan_run
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
