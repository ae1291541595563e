"""Guides in recipes: languages as features, masks and boosts in proposals, `tune --guide`."""

import json

import numpy as np
import pytest

import quasir as qr
from quasir import recipes
from quasir.errors import RecipeError
from tests.cli.helpers import advice_in, follow, quasir

SHE = """\
about: Texts about her.
base: quasir/biographies
features: {female: female, poet: {words: [poet]}}
want: {female: 1}
draws: 512
max_tokens: 12
choose: {tvd: 0.2, confidence: 0.95}
samples: 5
"""
PLAIN = """\
about: Texts of plain letters.
base: quasir/biographies
features: {plain: {language: {regex: "[A-Za-z ,.]*", complete: false}}}
want: {plain: 1}
proposal: {guide: {mask: plain}}
draws: 600
max_tokens: 8
choose: {tvd: 0.05, confidence: 0.95}
samples: 10
"""


def test_a_proposal_is_found_into_the_run_which_keeps_it(tmp_path):
    (tmp_path / "she.yaml").write_text(SHE)
    run = tmp_path / "run"
    out, err = quasir("tune", tmp_path / "she.yaml", "--guide", "--budget", 2048, "--out", run)
    assert "searching a proposal with 2,048 draws" in err
    assert "chosen" in err
    made = recipes.read_run(run)
    assert made.proposal.guide.file == "proposal.safetensors"
    (command,) = advice_in(out)
    follow(command)
    draws = qr.Draws.load(run)
    base = qr.draw(*parts(SHE, 512), 512, seed=0)
    assert draws.features["female"].mean() > 2 * base.features["female"].mean()
    assert draws.known.basis.startswith("No ratio exceeds")
    assert draws.log_ratio.max() <= draws.log_ceiling + 1e-9
    # What was found is part of the run, and another recipe can name it.
    (tmp_path / "found.safetensors").write_bytes((run / "proposal.safetensors").read_bytes())
    named = SHE + "proposal: {guide: {file: found.safetensors}}\n"
    (tmp_path / "named.yaml").write_text(named)
    quasir("run", tmp_path / "named.yaml", "--out", tmp_path / "again")
    np.testing.assert_array_equal(qr.Draws.load(tmp_path / "again").log_q, draws.log_q)
    raw = bytearray((run / "proposal.safetensors").read_bytes())
    raw[-1] ^= 1
    (run / "proposal.safetensors").write_bytes(bytes(raw))
    _, err = quasir("run", run, "--draws", 1024, code=1)
    assert "other code" in err
    _, err = quasir("tune", tmp_path / "she.yaml", "--guide", "--out", run, code=1)
    assert "holds draws already" in err


def test_a_run_searches_goes_on_and_does_not_search_again(tmp_path, monkeypatch):
    """`proposal: auto` draws what the found proposal, named by another recipe, draws."""
    (tmp_path / "she.yaml").write_text(SHE + "proposal: auto\n")
    run = tmp_path / "run"
    with monkeypatch.context() as broken:
        broken.setattr("quasir.text.search.Search._judge", interrupt)
        with pytest.raises(KeyboardInterrupt):
            qr.run(tmp_path / "she.yaml", run, progress=False, budget=2048)
    left = {path.name: path.read_bytes() for path in (run / "search").glob("*/stage-*")}
    assert left
    first = qr.run(tmp_path / "she.yaml", run, progress=False, budget=2048)
    assert not list((run / "search").glob("*/stage-*"))
    assert first.recipe.proposal.guide.file == "proposal.safetensors"
    with monkeypatch.context() as refused:
        refused.setattr("quasir.text.search.propose", interrupt)
        more = qr.run(tmp_path / "she.yaml", run, draws=1024, progress=False)
    assert len(more.draws) == 1024
    other = qr.run(tmp_path / "she.yaml", tmp_path / "whole", progress=False, budget=2048)
    np.testing.assert_array_equal(other.draws.log_p, more.draws.log_p[: len(other.draws)])


def interrupt(*_, **__):
    raise KeyboardInterrupt


def parts(text, draws):
    """Return target and proposal of a recipe, its proposal being the base."""
    base = qr.text.CausalLM("quasir/biographies", max_tokens=12)
    return base * qr.features.female, base


def test_a_masked_proposal_is_guaranteed_and_exact_at_its_ceiling(tmp_path):
    (tmp_path / "plain.yaml").write_text(PLAIN)
    run = tmp_path / "run"
    out, _ = quasir("run", tmp_path / "plain.yaml", "--out", run)
    assert "guaranteed, 0.95    TVD at most 0.0" in out
    draws = qr.Draws.load(run)
    assert draws.log_ceiling < 0  # G_1, the mass that the first mask leaves
    assert draws.features["plain"].all()
    assert draws.log_ratio.max() <= draws.log_ceiling + 1e-9
    texts = [json.loads(line)["text"] for line in (run / "samples.jsonl").read_text().splitlines()]
    assert all(
        set(text) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz ,.")
        for text in texts
    )
    # More draws, by two workers, go on with the same law.
    quasir("draw", run, "--draws", 1300, "--workers", 2, apart=True)
    more = qr.Draws.load(run)
    assert len(more) == 1300
    assert (more.log_q[:600] == draws.log_q).all()


def test_a_trie_in_a_file_is_refused_where_texts_are_longer(tmp_path):
    """It bounds the mass of texts of 8 tokens, not of 9."""
    base = qr.text.CausalLM("quasir/biographies", max_tokens=8)
    guide = qr.guides.regex("[A-Za-z ,.]*", complete=False, name="plain")
    q = base.guided(guide)
    learnt = q.learn(qr.draw(base * guide.feature, q, 64, seed=0))
    learnt.guide.save(tmp_path / "trie.json")
    recipe = PLAIN.replace("{mask: plain}", "{file: trie.json}")
    (tmp_path / "longer.yaml").write_text(recipe.replace("max_tokens: 8", "max_tokens: 9"))
    _, err = quasir("run", tmp_path / "longer.yaml", "--out", tmp_path / "longer", code=2)
    assert "another setting: max_tokens was 8, and is 9 here" in err
    (tmp_path / "same.yaml").write_text(recipe)
    quasir("draw", tmp_path / "same.yaml", "--out", tmp_path / "same")
    draws = qr.Draws.load(tmp_path / "same")
    assert draws.log_ceiling == pytest.approx(
        learnt.log_most_base_ratio(base, base * guide.feature), abs=1e-6
    )
    assert draws.log_ratio.max() <= draws.log_ceiling + 1e-9


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("mask: plain", "mask: other", "no feature of this recipe is a language"),
        ("{mask: plain}", "{}", "is a file, or has a mask"),
        ("{mask: plain}", "{mask: plain, file: a.json}", "is a file, or has a mask"),
        ("{mask: plain}", "{file: ../a.json}", "without '..'"),
        ("{mask: plain}", "{file: a.json}", "there is no file"),
        ("{mask: plain}", "{boost: {poet: 0}}", "line 5"),
        ("guide: {mask: plain}", "share: 0.5", "needs a guide"),
        ("guide: {mask: plain}", "guide: {mask: plain}, share: 1", "line 5"),
        ("guide: {mask: plain}", "guide: {mask: plain}, table: {a: 1}", "goes with a causal model"),
        ("regex: ", "json_schema: {type: nonsense}, regex: ", "exactly one kind"),
        ('regex: "[A-Za-z ,.]*"', "json_schema: {type: nonsense}", "line 3"),
        ('regex: "[A-Za-z ,.]*"', 'regex: "(a"', "line 3"),
        ('regex: "[A-Za-z ,.]*"', "choice: []", "line 3"),
        (
            "base: quasir/biographies",
            "base: {table: {a: 1}}",
            "guide needs a causal language model",
        ),
    ],
)
def test_mistakes_are_errors_in_words(tmp_path, old, new, said):
    assert old in PLAIN
    (tmp_path / "r.yaml").write_text(PLAIN.replace(old, new))
    _, err = quasir("draw", tmp_path / "r.yaml", "--out", tmp_path / "run", code=2)
    assert said in err
    assert "Traceback" not in err


def test_a_base_that_is_no_language_model_has_no_search(tmp_path):
    (tmp_path / "r.yaml").write_text(SHE.replace("quasir/biographies", "{poisson: 3}"))
    _, err = quasir("tune", tmp_path / "r.yaml", "--guide", "--out", tmp_path / "run", code=2)
    assert "causal language model" in err


def test_a_recipe_is_written_as_it_was_read():
    text = PLAIN.replace("{mask: plain}}", "{mask: [plain], boost: {poet: 20.0}}, share: 0.1}")
    recipe = recipes.parse(text, "r.yaml")
    assert recipes.parse(recipes.dump(recipe), "again") == recipe
    with pytest.raises(RecipeError, match="did you mean boost"):
        recipes.parse(PLAIN.replace("mask:", "bost:"), "r.yaml")
