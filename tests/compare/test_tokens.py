"""How many tokens the base scored, told from the store."""

import numpy as np
import pytest

from quasir import recipes
from quasir.compare.measures import token_counter
from quasir.core.items import Strings, TokenTexts

torch = pytest.importorskip("torch")

from tests.text.tiny import tokenizer  # noqa: E402

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


def test_another_model_of_the_same_tokenizer(tmp_path):
    for name in ("base", "tuned"):
        tokenizer(("a", "b", "c", "d", "e")).save_pretrained(tmp_path / name)
    count, why = token_counter(recipe(f"{{model: {tmp_path / 'tuned'}}}", tmp_path / "base"), TEXTS)
    assert why == ""
    assert count(TEXTS).tolist() == [3, 5, 1]


def test_another_tokenizer_is_not_counted_by_its_own_ids(tmp_path):
    tokenizer(("a", "b", "c", "d", "e")).save_pretrained(tmp_path / "base")
    tokenizer(("x", "y")).save_pretrained(tmp_path / "other")
    count, why = token_counter(recipe(f"{{model: {tmp_path / 'other'}}}", tmp_path / "base"), TEXTS)
    assert why == ""
    wrong_ids = TokenTexts(TEXTS.strings, np.zeros(3, np.int32), np.array([0, 1, 2, 3]))
    assert count(wrong_ids).tolist() == [3, 5, 1]


def test_a_tokenizer_that_is_not_there_is_told(tmp_path):
    count, why = token_counter(recipe(f"{{model: {tmp_path / 'gone'}}}", tmp_path / "away"), TEXTS)
    assert count is None
    assert "there is no model" in why
