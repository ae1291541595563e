"""The table as Markdown, and the tokens that its perplexity is over."""

import numpy as np
import pytest

from quasir import recipes
from quasir.compare import compare
from quasir.compare.sampler_table import markdown, samplers_markdown, token_counter
from quasir.core.items import Strings, TokenTexts
from tests.compare.pools import letters


@pytest.fixture(scope="module")
def found():
    return compare(letters(12_000), ["qrs", "imh", "imh-reset"], [0.1, 0.02], n=300, runs=5)


@pytest.mark.parametrize("width", [80, 100])
def test_it_fits(found, width):
    shown = samplers_markdown(found, "letters", width)
    assert max(map(len, shown.splitlines())) <= width
    for column in ("Method", "AR", "n x runs", "draws/sample", "% vowel", "long", "% unique"):
        assert f"| {column} " in shown
    # Sizes are stated: the pool gives fewer than the 300 in 5 asked for.
    for share in found.stretches:
        assert share.n < 300
        assert f"{share.n} x {share.runs} " in shown
        assert f"At {share.cost.rate:.4g}: {share.runs} runs of {share.n} samples" in shown


def test_every_table_has_every_row(found):
    shown = samplers_markdown(found, "letters", 80)
    tables = [block for block in shown.split("\n\n") if block.startswith("|")]
    assert len(tables) > 1
    for table in tables:
        lines = table.splitlines()
        assert len({line.count("|") for line in lines}) == 1
        assert [line.split("|")[1].strip(" !") for line in lines[2:]] == [
            row.method for row in found.rows
        ]


def test_a_name_cannot_break_the_table():
    shown = markdown({"a|b": ["1\n2"], "c": ["x|y"]})
    assert shown.splitlines()[0] == "| a\\|b | c    |"
    assert shown.splitlines()[2] == "| 1 2  | x\\|y |"


def test_a_column_wider_than_the_page_has_a_table_of_its_own():
    shown = markdown({"k": ["1"], "w" * 50: ["2"], "z": ["3"]}, width=20)
    assert len(shown.split("\n\n")) == 2


TEXTS = TokenTexts(
    Strings.of(["a b", "a b c d e", ""]),
    np.array([1, 2, 1, 2, 3, 4, 5], np.int32),
    np.array([0, 2, 7, 7]),
)


def recipe(proposal="base", base="here", **changes):
    text = f"base: {{model: {base}}}\nproposal: {proposal}\nmax_tokens: 5\n"
    return recipes.parse(text, "r.yaml", **changes)


@pytest.mark.parametrize(
    "proposal",
    [
        "base",
        "{temperature: 0.7}",
        "{prompt: x}",
        "{model: here, adapter: some}",
        "{mixture: [{temperature: 2}, {prompt: x}]}",
    ],
)
def test_of_one_model_the_stored_ids_are_the_bases(proposal):
    """A text as long as the limit was cut, and has no end token."""
    count, why = token_counter(recipe(proposal), TEXTS)
    assert why == ""
    assert count(TEXTS).tolist() == [3, 5, 1]


def test_a_base_without_tokens():
    table = recipes.parse("base: {table: {a: 1}}", "r.yaml")
    assert token_counter(table, Strings.of(["a"])) == (
        None,
        "the base is no language model, and has no tokens",
    )
    assert token_counter(None, TEXTS)[0] is None


WRONG = TokenTexts(TEXTS.strings, np.zeros(3, np.int32), np.array([0, 1, 2, 3]))


@pytest.mark.parametrize(
    ("words", "texts"), [(("a", "b", "c", "d", "e"), TEXTS), (("x", "y"), WRONG)]
)
def test_another_model_is_counted_by_ids_only_if_its_tokens_are_the_bases(tmp_path, words, texts):
    pytest.importorskip("torch")
    from tests.text.tiny import tokenizer

    tokenizer(("a", "b", "c", "d", "e")).save_pretrained(tmp_path / "base")
    tokenizer(words).save_pretrained(tmp_path / "other")
    count, why = token_counter(recipe(f"{{model: {tmp_path / 'other'}}}", tmp_path / "base"), TEXTS)
    assert why == ""
    assert count(texts).tolist() == [3, 5, 1]


def test_a_tokenizer_that_is_not_there_is_told(tmp_path):
    pytest.importorskip("torch")
    count, why = token_counter(recipe(f"{{model: {tmp_path / 'gone'}}}", tmp_path / "away"), TEXTS)
    assert count is None
    assert "there is no model" in why
