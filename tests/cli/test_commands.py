"""The commands, from a constraint to samples."""

import csv
import json
import math

import numpy as np
import pytest

import quasir as qr
from quasir import recipes
from tests.cli.helpers import LETTERS, POISSONS, quasir
from tests.statistical.goodness import fits


@pytest.fixture(scope="module")
def letters(tmp_path_factory):
    """Return the folder of a run over a space that can be enumerated."""
    folder = tmp_path_factory.mktemp("letters")
    (folder / "letters.yaml").write_text(LETTERS)
    out, err = quasir("run", folder / "letters.yaml", "--out", folder / "run")
    assert "TVD to the target" in out
    assert "open " in out
    assert "drawing: 4,000/4,000" in err
    assert "left" in err
    return folder / "run"


def test_a_run_is_a_folder(letters):
    there = {path.relative_to(letters).as_posix() for path in letters.rglob("*") if path.is_file()}
    assert there == {
        ".lock",
        "recipe.yaml",
        "manifest.json",
        "draws/shard-00000.parquet",
        "fit/manifest.json",
        "fit/draws/shard-00000.parquet",
        "tradeoff.csv",
        "certificate.json",
        "samples.jsonl",
        "figures/tradeoff.png",
        "figures/tvd.png",
        "figures/kl.png",
        "figures/kl_base.png",
        "figures/moments.png",
        "report.html",
    }
    recipe = recipes.read(letters / "recipe.yaml")
    assert set(recipe.fitted) == {"vowel"}
    # Of what is left without y, a vowel has 0.25: half of them needs odds of 3.
    assert recipe.fitted["vowel"] == pytest.approx(math.log(3), abs=0.2)
    manifest = json.loads((letters / "manifest.json").read_text())
    assert manifest["seed"] == 0
    assert manifest["quasir"] == qr.__version__
    assert (letters / "figures" / "tradeoff.png").read_bytes().startswith(b"\x89PNG")


def test_the_stored_draws_are_those_of_python(letters):
    draws = qr.Draws.load(letters)
    recipe = recipes.read(letters / "recipe.yaml")
    base = qr.Table(recipe.base.table)
    vowel, y = qr.features.search("^[ae]$", name="vowel"), qr.features.contains("y", name="y")
    target = (base * ~y * qr.tilt(vowel, recipe.fitted["vowel"])).watch(y)
    again = qr.draw(target, qr.Table(recipe.proposal.table), 4000, seed=0)
    np.testing.assert_allclose(draws.log_p, again.log_p, rtol=1e-12)
    np.testing.assert_array_equal(draws.log_q, again.log_q)
    np.testing.assert_array_equal(draws.log_u, again.log_u)
    assert list(draws.items) == list(again.items)


def test_tradeoff_writes_the_curve(letters):
    out, _ = quasir("tradeoff", letters, "--json")
    told = json.loads(out)
    curve = qr.tradeoff(qr.Draws.load(letters))
    np.testing.assert_allclose(told["columns"]["tvd"], curve.tvd.value, rtol=1e-12)
    with (letters / "tradeoff.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(curve)
    for name in ("tvd", "tvd_bound", "kl", "kl_base", "acceptance_rate", "moment:vowel"):
        read = np.array([float(row[name]) for row in rows])
        np.testing.assert_allclose(read, told["columns"][name], rtol=1e-12)
        assert f"{name}_low" in rows[0]
    table, err = quasir("tradeoff", letters)
    assert table == f"{curve}\n"
    assert max(map(len, table.splitlines())) <= 80
    assert "figures/tradeoff.png" in err


def test_samples_are_those_that_beta_accepts(letters):
    out, err = quasir("sample", letters, "-n", 50, "--beta", 0.5)
    lines = [json.loads(line) for line in out.splitlines()]
    draws = qr.Draws.load(letters)
    accepted = draws.accepted(beta=0.5)[:50]
    assert [line["draw"] for line in lines] == accepted.tolist()
    assert [line["text"] for line in lines] == [draws.items[i] for i in accepted]
    cert = qr.tradeoff(draws).at(beta=0.5)
    expected = np.minimum(draws.log_p, np.log(0.5) + draws.log_q)[accepted] - cert.log_z_beta.value
    np.testing.assert_allclose([line["log_p_beta"] for line in lines], expected)
    assert [line["features"]["vowel"] for line in lines] == [t["text"] in "ae" for t in lines]
    assert "predicted" in err


def test_sampling_draws_on_into_the_store(tmp_path):
    (tmp_path / "letters.yaml").write_text(LETTERS)
    quasir("draw", tmp_path / "letters.yaml", "--out", tmp_path / "run", "--draws", 1500)
    out, err = quasir("sample", tmp_path / "run", "-n", 2000, "--tvd", 0.05, "--json")
    told = json.loads(out)
    assert len(told["samples"]) == 2000
    assert "drawing on" in err
    draws = qr.Draws.load(tmp_path / "run")
    assert len(draws) > 2000
    # Beta was chosen by the draws that were there, and those are the beginning of these.
    beta = told["certificate"]["log_beta"]
    first = qr.tradeoff(draws.take(np.arange(1500)))
    assert beta == pytest.approx(first.at(tvd=0.05).log_beta, abs=1e-12)
    assert told["certificate"]["n"] == len(draws)
    assert abs(told["checks"][0]["z"]) < 4
    recipe = recipes.read(tmp_path / "run" / "recipe.yaml")
    p = {
        x: 0 if x == "y" else a * np.exp(recipe.fitted["vowel"] * (x in "ae"))
        for x, a in recipe.base.table.items()
    }
    q = recipe.proposal.table
    total = sum(q.values())
    p_beta = {x: min(p[x], np.exp(beta) * q.get(x, 0) / total) for x in p}
    support = [x for x in p_beta if p_beta[x] > 0]
    texts = [sample["text"] for sample in told["samples"]]
    assert fits(texts, support, np.array([p_beta[x] for x in support]))
    wrong = np.array([q[x] for x in support], float)
    assert not fits(texts, support, wrong)


def test_a_budget_of_draws(tmp_path):
    (tmp_path / "r.yaml").write_text(LETTERS)
    quasir("draw", tmp_path / "r.yaml", "--out", tmp_path / "run", "--draws", 1024)
    _, err = quasir(
        "sample", tmp_path / "run", "-n", 3000, "--beta", 1, "--max-draws", 2000, code=1
    )
    assert "2,000 draws gave" in err


def test_a_constraint_out_of_reach_is_an_error_with_what_can_be_had(letters):
    _, err = quasir("sample", letters, "--acceptance-rate", 0.99, code=1)
    assert "cannot be met" in err
    _, err = quasir("sample", letters, "--tvd", 0.1, "--kl", 1, code=2)
    assert "one of tvd and kl" in err


def test_a_second_run_does_nothing_twice(tmp_path):
    (tmp_path / "r.yaml").write_text(LETTERS)
    first, _ = quasir("run", tmp_path / "r.yaml", "--out", tmp_path / "run")
    shard = tmp_path / "run" / "draws" / "shard-00000.parquet"
    written = shard.stat().st_mtime_ns
    second, err = quasir("run", tmp_path / "r.yaml", "--out", tmp_path / "run")
    assert first == second
    assert "fitting lambda" not in err
    assert "drawing" not in err
    assert shard.stat().st_mtime_ns == written


@pytest.mark.parametrize(
    ("change", "names"),
    [
        (("seed", "seed: 5\n"), "seed was 0, now 5"),
        (("base", LETTERS.replace("x: 0.4", "x: 0.5")), "base was"),
        (("want", LETTERS.replace("vowel: 0.5", "vowel: 0.6")), "want was"),
        (("proposal", LETTERS.replace("x: 2", "x: 3")), "proposal was"),
        (("features", LETTERS.replace("contains: y", "contains: z")), "features was"),
        (("max_tokens", "max_tokens: 7\n"), "max_tokens was 40, now 7"),
    ],
    ids=["seed", "base", "want", "proposal", "features", "max_tokens"],
)
def test_a_changed_recipe_is_refused_by_what_changed(letters, tmp_path, change, names):
    _, text = change
    (tmp_path / "changed.yaml").write_text(text if "base:" in text else LETTERS + text)
    before = (letters / "manifest.json").read_bytes()
    _, err = quasir("draw", tmp_path / "changed.yaml", "--out", letters, code=1)
    assert names in err
    assert (letters / "manifest.json").read_bytes() == before


def test_what_changes_no_draw_may_change(tmp_path):
    (tmp_path / "r.yaml").write_text(POISSONS)
    quasir("draw", tmp_path / "r.yaml", "--out", tmp_path / "run", "--draws", 1000)
    few = qr.Draws.load(tmp_path / "run")
    (tmp_path / "r.yaml").write_text(POISSONS.replace("tvd: 0.05", "kl: 0.1"))
    quasir("draw", tmp_path / "r.yaml", "--out", tmp_path / "run", "--draws", 3000)
    many = qr.Draws.load(tmp_path / "run")
    assert len(many) == 3000
    np.testing.assert_array_equal(many.items[:1000], few.items)
    assert recipes.read(tmp_path / "run" / "recipe.yaml").choose.kl == 0.1


def test_a_bad_recipe_has_its_own_exit_code(tmp_path):
    (tmp_path / "bad.yaml").write_text(LETTERS.replace("choose", "chose"))
    out, err = quasir("run", tmp_path / "bad.yaml", code=2)
    assert out == ""
    assert "bad.yaml, line 10" in err
    assert "did you mean choose?" in err
    assert not (tmp_path / "runs").exists()
    _, err = quasir("run", "nothing.yaml", code=2)
    assert "Built in are" in err


CODE = "def shout(text):\n    return text.isupper()\n"


def test_a_users_feature_needs_leave(tmp_path):
    recipe = """\
base: {table: {a: 3, A: 1}}
features: {loud: {python: "mine.py:shout"}}
want: {loud: 1}
draws: 2000
choose: {tvd: 0.1}
samples: 10
"""
    (tmp_path / "mine.py").write_text(CODE)
    (tmp_path / "r.yaml").write_text(recipe)
    _, err = quasir("run", tmp_path / "r.yaml", "--out", tmp_path / "run", code=2)
    assert "--allow-code" in err
    assert "mine.py:shout" in err
    quasir("run", tmp_path / "r.yaml", "--out", tmp_path / "run", "--allow-code")
    assert set(map(str, qr.Draws.load(tmp_path / "run").items)) == {"a", "A"}
    texts = (tmp_path / "run" / "samples.jsonl").read_text().splitlines()
    assert {json.loads(line)["text"] for line in texts} == {"A"}
    # The code is kept with the run, and another code is another run.
    assert (tmp_path / "run" / "mine.py").read_text() == CODE
    quasir("sample", tmp_path / "run", "-n", 2000, "--allow-code")
    (tmp_path / "mine.py").write_text(CODE + "\n")
    _, err = quasir("run", tmp_path / "r.yaml", "--out", tmp_path / "run", "--allow-code", code=1)
    assert "other code" in err
    (tmp_path / "r.yaml").write_text(recipe.replace("shout", "whisper"))
    _, err = quasir("run", tmp_path / "r.yaml", "--out", tmp_path / "b", "--allow-code", code=2)
    assert "no function 'whisper'" in err


def test_recipes_are_listed_and_shown():
    out, _ = quasir("recipes")
    assert all(len(line) <= 80 for line in out.splitlines())
    names = [line.split()[0] for line in out.splitlines() if not line.startswith(" ")]
    assert names == ["contains", "female", "paraphrase", "poissons", "scientists", "sports"]
    shown, _ = quasir("recipes", "show", "scientists")
    assert recipes.parse(shown, "shown").want == {"science": 1.0, "female": 0.5}
    told, _ = quasir("recipes", "show", "scientists", "--json")
    assert json.loads(told)["want"]["female"] == 0.5


def test_draws_saved_from_python(tmp_path):
    draws = qr.Draws.from_arrays(
        np.log([0.5, 0.3, 0.2] * 400), np.log([1 / 3] * 1200), items=["a", "b", "c"] * 400
    )
    draws.save(tmp_path / "run")
    out, _ = quasir("tradeoff", tmp_path / "run")
    assert out == f"{qr.tradeoff(draws)}\n"
    out, _ = quasir("sample", tmp_path / "run", "-n", 10, "--beta", 1)
    assert len(out.splitlines()) == 10
    _, err = quasir("sample", tmp_path / "run", "-n", 5000, "--beta", 1, code=1)
    assert "no recipe to draw on with" in err
    _, err = quasir("sample", tmp_path / "run", code=2)
    assert "no recipe to choose beta by" in err
    _, err = quasir("report", tmp_path / "run", code=2)
    assert "no recipe.yaml" in err
    _, err = quasir("tradeoff", tmp_path / "nowhere", code=2)
    assert "is no run" in err
