"""The commands on a run over contexts: one context of it, or all."""

import json
from collections import Counter

import pytest
import yaml
from typer.testing import CliRunner

import quasir as qr
from quasir.cli.main import app
from quasir.errors import InputError
from tests.contexts.recipes import CONTEXTS, RECIPE


def command(*arguments):
    """Return stdout of a command, or raise what it raises."""
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("commands")
    (made / "r.yaml").write_text(yaml.safe_dump(RECIPE | {"draws": 6000}))
    (made / "c.csv").write_text("letter\n" + "\n".join(c["letter"] for c in CONTEXTS) + "\n")
    return made


@pytest.fixture(scope="module")
def run(folder):
    asked = ("run", folder / "r.yaml", "--contexts", folder / "c.csv", "--out", folder / "run")
    out = command(*asked)
    assert "4 of 4 contexts, 6,000 draws in all" in out
    assert "mean TVD at most" in out
    return folder / "run"


def test_run_prints_json(folder, run):
    out = json.loads(command("run", run, "--out", run, "--json"))
    assert out["contexts"] == out["served"] == 4
    assert 0 < out["guarantee"]["tvd"] < 1
    levels = dict(out["guarantee"]["contexts_above"])
    assert list(levels.values()) == sorted(levels.values(), reverse=True)


def test_tradeoff(run):
    assert "4 of 4 contexts" in command("tradeoff", run)
    every = json.loads(command("tradeoff", run, "--json"))
    assert [one["fields"] for one in every["contexts"]] == CONTEXTS
    one = json.loads(command("tradeoff", run, "--context", 2, "--json"))
    assert one["n"] == every["contexts"][2]["draws"]
    assert "acceptance" in command("tradeoff", run, "--context", 2).lower()


def test_sample_one_and_all(run):
    for asked, each in ((["-n", 3], 3), ([], 40)):  # the recipe says 40
        lines = [json.loads(x) for x in command("sample", run, *asked).splitlines()]
        assert Counter(line["context"] for line in lines) == dict.fromkeys(range(4), each)
    lines = command("sample", run, "--context", 1, "-n", 7, "--tvd", 0.1).splitlines()
    assert len(lines) == 7
    assert {json.loads(line)["sample"][0] for line in lines} == {"b"}


def test_sampling_draws_on_for_one_context(folder, run, tmp_path):
    asked = ("run", folder / "r.yaml", "--contexts", folder / "c.csv", "--out", tmp_path / "r")
    command(*asked, "--draws", 3000)
    before = [len(one.draws) for one in qr.open_run(tmp_path / "r")]
    asked = ("sample", tmp_path / "r", "--context", 3, "-n", 900, "--acceptance-rate", 0.1)
    lines = command(*asked).splitlines()
    assert len(lines) == 900
    after = qr.open_run(tmp_path / "r")
    assert [len(one.draws) for one in after][:3] == before[:3]
    assert len(after[3].draws) > before[3]
    whole = qr.open_run(run)[3].draws
    n = min(len(whole), len(after[3].draws))
    assert list(after[3].draws.items[:n]) == list(whole.items[:n])


def test_watch(run):
    assert "round 3; 4 of 4 contexts have draws" in command("watch", run, "--once")
    out = json.loads(command("watch", run, "--once", "--json", "--context", 0))
    assert out["contexts"] == 4
    assert out["certificate"]["n"] > 0
    command("watch", run, "--once", "--until", "tvd<=0.9")
    with pytest.raises(InputError, match="only a mean TVD is guaranteed"):
        command("watch", run, "--once", "--until", "ess=10")


def test_plan(run):
    out = json.loads(command("plan", run, "--se", 0.002, "--json"))
    assert len(out["contexts"]) == 4
    assert out["draws"] == pytest.approx(sum(p["draws"]["value"] for p in out["contexts"].values()))
    one = json.loads(command("plan", run, "--se", 0.002, "--context", 1, "--json"))
    assert one["draws"] == out["contexts"]["1"]["draws"]
    assert "4 contexts" in command("plan", run, "--se", 0.002)


def test_report(run):
    page = run / "report.html"
    page.unlink()
    assert str(page) in command("report", run)
    text = page.read_text()
    assert 'data-key="tvd"' in text
    assert text.count("<details>") == 4
    command("report", run, "--context", 2)
    assert "context 2" in (run / "contexts" / "2.html").read_text()


def test_a_context_that_is_not_there(run, tmp_path):
    for name in ("tradeoff", "report", "sample"):
        with pytest.raises(InputError, match="no context 9: they are numbered from 0 to 3"):
            command(name, run, "--context", 9)
    plain = {"base": {"table": {"a": 1.0}}, "choose": {"beta": 1}}
    qr.run(plain, out=tmp_path / "plain", draws=10, progress=False)
    with pytest.raises(InputError, match="leave --context out"):
        command("tradeoff", tmp_path / "plain", "--context", 0)


def test_a_prompt_with_a_field_and_no_contexts(tmp_path):
    recipe = {
        "base": {"model": "quasir/biographies", "prompt": "{name}"},
        "max_tokens": 3,
        "choose": {"beta": 1},
        "draws": 20,
    }
    made = qr.run(recipe, out=tmp_path / "r", progress=False)
    assert any("holds {name}, and this run has no contexts" in d for d in made.certificate.warnings)
    with pytest.raises(InputError, match="this run has no contexts"):
        qr.run(recipe | {"over": "each"}, out=tmp_path / "s", progress=False)
