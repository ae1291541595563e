"""The table as Markdown, and the tokens that its perplexity is over."""

import numpy as np
import pytest

from quasir import recipes
from quasir.compare import compare
from quasir.compare.comparison import token_limit
from quasir.compare.sampler_table import markdown, samplers_markdown
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
        assert f"At {share.cost.rate:.4g}: {share.n} samples in a run" in shown


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
    assert token_limit(recipe(proposal), TEXTS) == (5, "")


def test_where_tokens_cannot_be_counted_there_is_no_perplexity():
    table = recipes.parse("base: {table: {a: 1}}", "r.yaml")
    cases = [(None, TEXTS), (table, Strings.of(["a"])), (recipe("{model: there}"), TEXTS)]
    for given, why in zip(cases, ("no recipe", "no language model", "other tokens"), strict=True):
        limit, said = token_limit(*given)
        assert limit is None
        assert why in said
