"""Settings that do nothing are errors, numbers are numbers, code lies in folders."""

import numpy as np
import pytest

import quasir as qr
from quasir import recipes
from quasir.recipes.building import build, own_files
from quasir.recipes.schema import OF_MODEL

TABLE = "base: {table: {a: 0.5, b: 0.5}}\n"
KINDS = {
    "table": "table: {a: 1}",
    "poisson": "poisson: 3",
    "mixture": "mixture: [base]",
    "round_trip": "round_trip: {there: x, back: y, text: z}",
}
VALUES = {"dtype": "float32", "temperature": "1", "top_k": "3", "top_p": "0.5"}
VALUES["chat"] = "[{role: user, content: x}]"


def refused(text, says, line):
    with pytest.raises(qr.errors.RecipeError) as caught:
        recipes.parse(text, "mine.yaml")
    assert f"mine.yaml, line {line}: " in str(caught.value)
    assert says in str(caught.value)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("setting", OF_MODEL)
def test_settings_of_a_model_elsewhere(kind, setting):
    text = f"{TABLE}proposal: {{{KINDS[kind]}, {setting}: {VALUES.get(setting, 'x')}}}\n"
    refused(text, f"{kind} and {setting} do not go together", 2)


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("base: {table: {a: 1}, temperature: 0.5}\n", 1, "do not go together"),
        ("base: {model: quasir/biographies, revision: main}\n", 1, "has no revisions"),
        (TABLE + "proposal: {poisson: 3, weight: 2}\n", 2, "only in a mixture"),
        ("base: {poisson: 3, weight: 2}\n", 1, "only in a mixture"),
        (TABLE + "proposal: {prompt: x}\n", 2, "names no model"),
        (TABLE + "proposal:\n  mixture:\n    - base\n    - {top_k: 2}\n", 5, "names no model"),
        (TABLE + "draws: true\n", 2, "must be an integer"),
        (TABLE + "draws: '5'\n", 2, "must be an integer"),
        (TABLE + "draws: 1e5\n", 2, "write 100000 or 1.0e+5"),
        (TABLE + "draws: 2.5\n", 2, "must be an integer"),
        (TABLE + "draws: .inf\n", 2, "must be an integer"),
        (TABLE + "draws: 1.0e+200\n", 2, "less than or equal to 1000000000000"),
        (TABLE + f"seed: {2**200}\n", 2, "less than or equal to"),
        (TABLE + "choose: {tvd: true}\n", 2, "must be a number"),
        (TABLE + "choose: {tvd: '0.5'}\n", 2, "must be a number"),
        (TABLE + "choose: {tvd: .nan}\n", 2, "finite"),
        (TABLE + "choose: {log_beta: 1.0e+308}\n", 2, "less than or equal to"),
        (TABLE + "choose: {beta: .inf}\n", 2, "finite"),
        (TABLE + f"choose: {{kl: 1{'0' * 350}}}\n", 2, "a float can hold"),
        (TABLE + "features: {x: {contains: a, case: 'no'}}\n", 2, "true or false"),
        (TABLE + "features: {x: {similarity: {text: a, above: 2}}}\n", 2, "equal to 1"),
        (TABLE + "features: {x: {search: '('}}\n", 2, "not a regular expression"),
        (TABLE + "features: {x: {words: ['']}}\n", 2, "at least one word"),
        (TABLE + "features: {x: {contains: ''}}\n", 2, "true of every text"),
        (TABLE + "features: {'': {contains: a}}\n", 2, "at least 1 character"),
        (TABLE + "features: {x: {python: '/tmp/x.py:f'}}\n", 2, "beside the recipe"),
        (TABLE + "features: {x: {python: '../x.py:f'}}\n", 2, "beside the recipe"),
        ("base: {poisson: 1.0e+300}\n", 1, "less than or equal to"),
        ("base: {poisson: 1.0e+10}\n", 1, "less than or equal to"),
        ("base: {poisson: 1.0e-300}\n", 1, "greater than or equal to"),
        ("base: {model: x, temperature: 1.0e-320}\n", 1, "greater than or equal to"),
        ("base: {table: {a: 1.0e+308, b: 1.0e+308}}\n", 1, "more than a float can hold"),
        ("base: {table: {a: 1.0e+300, b: 1.0e-300}}\n", 1, "is 0 beside the sum"),
        ("base: {table: {a: true}}\n", 1, "must be a number"),
        (
            TABLE + "proposal:\n  mixture: [{weight: 1.0e+308}, {weight: 1.0e+308}]\n",
            2,
            "more than a float can hold",
        ),
    ],
)
def test_what_does_nothing_or_is_no_number(text, line, says):
    refused(text, says, line)


def test_numbers_as_they_are_written():
    text = TABLE + "draws: 1.0e+5\nseed: 7\nchoose: {acceptance_rate: 1e-2}\n"
    recipe = recipes.parse(text, "x.yaml")
    assert (recipe.draws, recipe.seed) == (100_000, 7)
    assert isinstance(recipe.draws, int)
    assert recipe.choose.asked == {"acceptance_rate": 0.01}
    assert recipes.parse(f"{TABLE}seed: {2**128 - 1}", "x.yaml").seed == 2**128 - 1


def test_the_base_inside_a_mixture(tmp_path):
    text = TABLE + "proposal: {mixture: [base, {table: {a: 1, b: 3}, weight: 3}]}\n"
    built = build(recipes.parse(text, "x.yaml"), tmp_path)
    assert built.proposal.components[0] is built.base
    law = 0.25 * np.array([0.5, 0.5]) + 0.75 * np.array([0.25, 0.75])
    np.testing.assert_allclose(np.exp(built.proposal.log_prob(["a", "b"])), law)


def test_what_a_proposal_sets_back_to_the_default_is_kept():
    """Left out of the run's recipe, it would be taken from the base again."""
    text = "base: {model: x, temperature: 0.5, top_k: 3}\nproposal: {temperature: 1, top_k: null}\n"
    recipe = recipes.parse(text, "x.yaml")
    again = recipes.parse(recipes.dump(recipe), "y.yaml")
    assert again.proposal.model_fields_set == {"temperature", "top_k"}
    assert not again.proposal.is_base


def test_code_in_folders(tmp_path):
    for name, body in (("one", "return x == 'a'"), ("two", "return x == 'b'")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "mine.py").write_text(f"def f(x):\n    {body}\n")
    text = TABLE + "features: {a: {python: one/mine.py:f}, b: {python: ./two/mine.py:f}}\n"
    recipe = recipes.parse(text, "x.yaml")
    built = build(recipe, tmp_path, allow_code=True)
    assert built.features["a"](["a", "b"]).tolist() == [True, False]
    assert built.features["b"](["a", "b"]).tolist() == [False, True]
    assert list(own_files(recipe, tmp_path)) == ["one/mine.py", "two/mine.py"]


def test_a_run_keeps_code_in_folders(tmp_path):
    for name, body in (("one", "return x == 'a'"), ("two", "return x == 'b'")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "mine.py").write_text(f"def f(x):\n    {body}\n")
    text = TABLE + "features: {a: {python: one/mine.py:f}, b: {python: two/mine.py:f}}\n"
    (tmp_path / "mine.yaml").write_text(text + "draws: 2000\nsamples: 10\n")
    path, out = tmp_path / "mine.yaml", tmp_path / "run"
    qr.run(path, out=out, allow_code=True, progress=False)
    for name in ("one", "two"):
        kept = (out / name / "mine.py").read_text()
        assert kept == (tmp_path / name / "mine.py").read_text()
    run = qr.run(out, allow_code=True, progress=False)  # from its own copy
    assert {"a", "b"} <= set(qr.Draws.load(run.folder).features)


def test_code_that_ends_the_program(tmp_path):
    (tmp_path / "mine.py").write_text("raise SystemExit(3)\n")
    recipe = recipes.parse(TABLE + "features: {a: {python: mine.py:f}}\n", "x.yaml")
    with pytest.raises(qr.errors.RecipeError, match="SystemExit"):
        build(recipe, tmp_path, allow_code=True)


def test_the_revision_of_a_folder(tmp_path):
    (tmp_path / "model").mkdir()
    recipe = recipes.parse("base: {model: model, revision: main}\n", "x.yaml")
    with pytest.raises(qr.errors.RecipeError, match="has no revisions"):
        build(recipe, tmp_path)
