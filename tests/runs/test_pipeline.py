"""The pipeline in Python: a recipe by name, by file and as a dictionary; a run that is there."""

import json

import numpy as np
import pytest

import quasir as qr
from quasir.core.progress import Quiet

LETTERS = {
    "base": {"table": {"apple": 0.5, "bee": 0.3, "cow": 0.2}},
    "features": {"long": {"length": "characters"}, "bee": {"contains": "bee"}},
    "want": {"bee": 0.5},
    "proposal": {"table": {"apple": 0.4, "bee": 0.4, "cow": 0.2}},
    "draws": 4000,
    "fit": 4000,
    "choose": {"tvd": 0.01},
    "samples": 50,
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return qr.run(LETTERS, out=tmp_path_factory.mktemp("runs") / "letters", progress=False)


def test_a_run_has_all_that_comes_of_it(run):
    assert isinstance(run, qr.Run)
    assert len(run.draws) == run.curve.n == run.certificate.n == 4000
    assert len(run.samples) == 50
    assert run.certificate.tvd.value == pytest.approx(0.01, abs=1e-6)
    assert {check.name for check in run.checks} == {"bee", "long"}
    assert run.recipe.fitted["bee"] > 0
    accepted = run.draws.accepted(log_beta=run.certificate.log_beta)[:50]
    assert list(run.samples.items) == [run.draws.items[i] for i in accepted]
    assert run.report.is_file()


def test_what_is_on_disk_is_what_the_object_has(run):
    written = json.loads((run.folder / "certificate.json").read_text())
    assert written["tvd"] == run.certificate.to_dict()["tvd"]
    lines = (run.folder / "samples.jsonl").read_text().splitlines()
    assert [json.loads(line)["text"] for line in lines] == [str(item) for item in run.samples.items]


def test_a_run_that_is_there_is_opened_without_drawing(run):
    opened = qr.open_run(run.folder)
    np.testing.assert_array_equal(opened.draws.log_u, run.draws.log_u)
    assert opened.certificate.to_dict() == run.certificate.to_dict()
    assert repr(opened) == f"<Run {run.folder}: 4,000 draws>"


def test_a_run_shows_itself_in_a_notebook(run):
    page = run._repr_html_()
    assert "TVD to the target" in page
    assert page.count("<table>") == 2


def test_the_same_call_goes_on(run):
    again = qr.run(LETTERS, out=run.folder, draws=6000, progress=False)
    assert len(again.draws) == 6000
    np.testing.assert_array_equal(again.draws.log_u[:4000], run.draws.log_u)


def test_by_name_by_file_and_by_folder(tmp_path):
    by_name = qr.run("poissons", out=tmp_path / "a", draws=3000, seed=5, progress=False)
    assert by_name.draws.seed == 5
    file = tmp_path / "mine.yaml"
    file.write_text((by_name.folder / "recipe.yaml").read_text())
    by_file = qr.run(file, out=tmp_path / "b", progress=False)
    by_folder = qr.run(by_name.folder, progress=False)
    for other in (by_file, by_folder):
        np.testing.assert_array_equal(other.draws.items, by_name.draws.items)


def test_a_dictionary_without_a_folder_has_one_by_its_content(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small = LETTERS | {"draws": 1024, "want": {}, "choose": {"beta": 1}}
    first = qr.run(small, progress=False)
    assert first.folder == qr.run(small, progress=False).folder
    assert qr.run(small | {"seed": 1}, progress=False).folder != first.folder
    assert first.folder.parent.name == "runs"


def test_progress_goes_to_stderr(tmp_path, capsys):
    qr.run(LETTERS, out=tmp_path / "run", progress=True)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "fitting lambda for bee on 4,000 draws" in shown.err
    assert "4,000/4,000 drawing" in shown.err


def test_a_reporter_of_ones_own(tmp_path):
    said = []

    class Told(Quiet):
        def say(self, message):
            said.append(message)

    qr.run(LETTERS, out=tmp_path / "run", progress=Told())
    assert "estimating the trade-off and writing the report" in said
    with pytest.raises(qr.errors.InputError, match="progress is a str"):
        qr.run(LETTERS, out=tmp_path / "run", progress="yes")


def test_what_is_no_run(tmp_path):
    with pytest.raises(qr.errors.InputError, match="is no run"):
        qr.open_run(tmp_path)
    with pytest.raises(qr.errors.RecipeError, match="no recipe 'nosuch'"):
        qr.run("nosuch", progress=False)
    with pytest.raises(qr.errors.RecipeError, match="draw is not known here"):
        qr.run(LETTERS | {"draw": 3}, out=tmp_path / "x", progress=False)
    with pytest.raises(qr.errors.RecipeError, match="only texts, numbers, lists and mappings"):
        qr.run(LETTERS | {"about": object()}, out=tmp_path / "x", progress=False)
