"""`quasir init` asks, and writes a recipe that says what it means."""

import json

import pytest
import yaml
from typer.testing import CliRunner

from quasir import recipes
from quasir.cli.main import app
from quasir.core.formatting import command


def init(file, *answers, more=()):
    text = "".join(f"{answer}\n" for answer in answers)
    return CliRunner().invoke(app, ["init", str(file), *more], input=text)


@pytest.mark.parametrize(
    ("answers", "feature"),
    [
        (["word", "coffee"], {"coffee": {"contains": "coffee"}}),
        (["regex", "[0-9]+"], {"valid": {"language": {"regex": "[0-9]+"}}}),
        (["choice", "yes, no"], {"valid": {"language": {"choice": [" yes", " no"]}}}),
        (
            ["classifier", "quasir/sentiment:POSITIVE"],
            {
                "positive": {
                    "classifier": {"model": "quasir/sentiment", "label": "POSITIVE", "above": 0.5}
                }
            },
        ),
    ],
)
def test_each_constraint_becomes_a_feature(tmp_path, answers, feature):
    file = tmp_path / "a new" / "r.yaml"
    ended = init(file, "quasir/biographies", "He was", *answers, "0.5", "0.2")
    assert ended.exit_code == 0, ended.output
    assert f"`{command('run', file)}` runs it" in ended.output
    plain = yaml.safe_load(file.read_text())
    assert plain["base"] == {"model": "quasir/biographies", "prompt": "He was"}
    assert plain["features"] == feature
    assert plain["want"] == dict.fromkeys(feature, 0.5)
    assert plain["choose"] == {"tvd": 0.2, "confidence": 0.95}
    recipes.read(file)


def test_a_schema_a_server_and_a_chat(tmp_path):
    schema = tmp_path / "s.json"
    schema.write_text('{"type": "integer"}')
    file = tmp_path / "r.yaml"
    answers = ["http://localhost:8000/v1", "", "Name a number.", "schema", schema, "", ""]
    ended = init(file, *answers, more=["--json"])
    assert json.loads(ended.stdout) == {"recipe": str(file)}
    made = recipes.read(file)
    assert made.base.server.url == "http://localhost:8000/v1"
    assert made.base.chat[0].content == "Name a number."
    assert made.want == {"valid": 1.0}
    assert made.choose.asked == {"tvd": 0.1, "confidence": 0.95}


def test_the_comments_say_what_is_there_and_what_is_left_out(tmp_path):
    file = tmp_path / "r.yaml"
    init(file, "", "", "", "", "coffee", "", "")
    text = file.read_text()
    assert "# The length limit of a text.\nmax_tokens: 40\n" in text
    assert "# samples: 1000 (how many samples to keep;" in text
    assert "# base.temperature: 1.0" in text
    assert "# draws:" not in text
    assert max(map(len, text.splitlines())) <= 80


def test_a_wrong_answer_is_asked_again(tmp_path):
    file = tmp_path / "r.yaml"
    answers = ["m/m", "", "", "tea", "word", "coffee", "2", "x", "0.25", "-1", "0.1"]
    ended = init(file, *answers)
    assert "give one of word, regex" in ended.output
    assert "2 is no number from 0 to 1" in ended.output
    assert recipes.read(file).want == {"coffee": 0.25}


def test_a_file_is_not_overwritten_and_answers_that_end_leave_none(tmp_path):
    file = tmp_path / "r.yaml"
    file.write_text("mine")
    ended = init(file, *[""] * 4, "coffee", "", "")
    assert ended.exit_code != 0
    assert file.read_text() == "mine"
    assert init(tmp_path / "other.yaml", "", "").exit_code == 1
    assert not (tmp_path / "other.yaml").exists()
