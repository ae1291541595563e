"""Fields of contexts in recipes: replaced where they may stand, and nothing is evaluated."""

import re

import pytest

from quasir import recipes
from quasir.errors import InputError, RecipeError
from quasir.recipes.building import features_of
from quasir.recipes.contexts import Context, read_contexts
from quasir.recipes.fields import fields_of, fill, prompt_fields, refuse_missing
from quasir.recipes.placeholders import escaped_for_language

RECIPE = """
base: {model: quasir/biographies, prompt: "About {name}:"}
proposal:
  mixture:
    - {chat: [{role: system, content: Be brief.}, {role: user, content: "{question}"}]}
    - {model: some/model, source: "{question} {{name}} {name}"}
    - {round_trip: {there: a, back: b, text: "{question}"}}
    - {guide: {boost: {"{name}": 3.0, said: 2.0}}, share: 0.1}
features:
  near: {similarity: {text: "{question}", above: 0.5}}
  said: {contains: "{name}"}
  listed: {words: ["{name}", other]}
  pattern: {regex: "^{name}{2} {{name}}"}
  choice: {language: {choice: ["{name}", "no"]}}
  exact: {language: {regex: "{name}+"}}
"""
CONTEXT = Context(3, {"name": "a.b", "question": "{name}?", "year": 7}, "p.jsonl, line 4")


def test_every_place():
    made = fill(recipes.parse(RECIPE, "r.yaml"), CONTEXT)
    parts = made.proposal.mixture
    assert made.base.prompt == "About a.b:"
    # A value is not looked at again, and doubled braces are text.
    assert parts[0].chat[1].content == "{name}?"
    assert parts[1].source == "{name}? {name} a.b"
    assert parts[2].round_trip.text == "{name}?"
    assert parts[3].guide.boost == {"a.b": 3.0, "said": 2.0}
    features = made.features
    assert features["near"].similarity.text == "{name}?"
    assert features["said"].contains == "a.b"
    assert features["listed"].words == ["a.b", "other"]
    assert features["pattern"].regex == r"^a\.b{2} {name}"
    assert features["choice"].language.choice == ["a.b", "no"]
    assert features["exact"].language.regex == r"a\.b+"


@pytest.mark.parametrize("boost", [{"{q}": 3.0, "x {q}": 2.0}, ["{q}", "x {q}"]])
def test_a_field_alone_in_a_boost_stands_for_its_words(boost):
    base = {"model": "quasir/biographies", "prompt": "a"}
    recipe = recipes.from_dict({"base": base, "proposal": {"guide": {"boost": boost}}})
    made = fill(recipe, Context(0, {"q": "How can I sail, how?"})).proposal.guide.boost
    assert list(made) == ["How", "can", "sail", "how", "x How can I sail, how?"]
    assert isinstance(made, list) or list(made.values()) == [3.0, 3.0, 3.0, 3.0, 2.0]
    assert list(fill(recipe, Context(0, {"q": "I"})).proposal.guide.boost) == ["I", "x I"]


def test_which_fields():
    recipe = recipes.parse(RECIPE, "r.yaml")
    assert fields_of(recipe) == ["name", "question"]
    assert prompt_fields(recipe) == ["name", "question"]
    assert fields_of(recipes.parse("base: {poisson: 3}", "r.yaml")) == []


def test_a_value_in_a_pattern_is_escaped():
    recipe = recipes.parse("base: {table: {x: 1}}\nfeatures: {f: {regex: '^{w}$'}}", "r.yaml")
    odd = "(a|b)*[c]{2}\\d+ $^.?-#&~ é\n"
    feature = features_of(fill(recipe, Context(0, {"w": odd})), None)["f"]
    assert list(feature([odd.rstrip("\n"), odd, "a"])) == [False, True, False]


def test_a_value_in_a_language_is_escaped():
    language = pytest.importorskip("llguidance")
    odd = "".join(map(chr, range(32, 127))) + "é\n"
    for text in (odd, odd[::-1], *odd):
        grammar = language.LLMatcher.grammar_from_regex(escaped_for_language(text))
        assert language.LLMatcher.validate_grammar(grammar, None) == "", text


def test_missing_fields_name_the_line(tmp_path):
    recipe = recipes.parse(RECIPE, "r.yaml")
    path = tmp_path / "p.jsonl"
    path.write_text('{"name": "x", "question": "y"}\n{"name": "z"}\n')
    with pytest.raises(InputError, match=r"line 2: this context has no field 'question'"):
        refuse_missing(recipe, read_contexts(path))
    with pytest.raises(InputError, match="refers to no field"):
        refuse_missing(recipes.parse("base: {poisson: 3}", "r.yaml"), read_contexts(["a"]))


def test_fields_in_a_schema_are_refused():
    text = "base: {model: m}\nfeatures: {f: {language: {json_schema: {const: '{name}'}}}}"
    with pytest.raises(InputError, match="fields are not replaced there"):
        fill(recipes.parse(text, "r.yaml"), CONTEXT)


@pytest.mark.parametrize(
    ("base", "said"),
    [
        ("{model: m, prompt: a, chat: [{role: user, content: b}]}", "prompt and chat do not go"),
        ("{model: m, chat: []}", "at least 1 item"),
        ("{model: m, chat: [{role: user}]}", "content is missing"),
        ("{model: m, chat: [{role: user, content: b, name: c}]}", "known are role, content"),
        ("{table: {a: 1}, chat: [{role: user, content: b}]}", "do not go together"),
    ],
)
def test_wrong_chats(base, said):
    with pytest.raises(RecipeError, match=re.escape(said)):
        recipes.parse(f"base: {base}", "r.yaml")
