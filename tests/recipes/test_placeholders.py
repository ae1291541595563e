"""Contexts are read, and replace placeholders where they may stand; nothing is evaluated."""

import json
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import quasir as qr
from quasir import recipes
from quasir.errors import InputError, RecipeError
from quasir.recipes import parsing
from quasir.recipes.building import build, features_of
from quasir.recipes.parts import escape_for_language
from quasir.recipes.placeholders import (
    Context,
    check_filled,
    fields_of,
    fill,
    read_contexts,
    refuse_missing,
    unfilled,
)

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
  pattern: {search: "^{name}{2} {{name}}"}
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
    assert features["pattern"].search == r"^a\.b{2} {name}"
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
    said = unfilled(recipe)
    assert ["{name}" in said[0], "{question}" in said[1], len(said)] == [True, True, 2]
    assert fields_of(recipes.parse("base: {poisson: 3}", "r.yaml")) == []


def test_a_value_in_a_pattern_is_escaped():
    recipe = recipes.parse("base: {table: {x: 1}}\nfeatures: {f: {search: '^{w}$'}}", "r.yaml")
    odd = "(a|b)*[c]{2}\\d+ $^.?-#&~ é\n"
    feature = features_of(fill(recipe, Context(0, {"w": odd})), None)["f"]
    assert list(feature([odd.rstrip("\n"), odd, "a"])) == [False, True, False]


def test_a_value_in_a_language_is_escaped():
    language = pytest.importorskip("llguidance")
    odd = "".join(map(chr, range(32, 127))) + "é\n"
    for text in (odd, odd[::-1], *odd):
        grammar = language.LLMatcher.grammar_from_regex(escape_for_language(text))
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


WITH = {
    "base": {"model": "no-such-model", "prompt": "Say again: {context}"},
    "features": {"same": {"similarity": {"text": "{context}", "above": 0.9}}},
    "want": {"same": 1.0},
    "proposal": {
        "mixture": [
            {"model": "other", "source": "{context}"},
            {"round_trip": {"there": "a", "back": "b", "text": "to {context}"}},
            "base",
        ]
    },
}


def test_without_a_context_nothing_is_loaded(tmp_path):
    unfilled = recipes.from_dict(WITH)
    with pytest.raises(RecipeError, match=r"needs a context.*--context"):
        build(unfilled, tmp_path)
    out = tmp_path / "run"
    with pytest.raises(RecipeError, match="needs a context"):
        qr.run(WITH, out, progress=False)
    assert not out.exists()


def test_a_context_without_a_place_is_refused():
    plain = {"base": {"poisson": 11}, "proposal": {"poisson": 10}}
    with pytest.raises(RecipeError, match="the recipe has no field"):
        recipes.from_dict(plain, "x")


@pytest.mark.parametrize("wrong", ["", "  \n", "a {context} b"])
def test_a_context_that_says_nothing_or_repeats_the_field_is_refused(wrong):
    with pytest.raises(RecipeError, match="the context is"):
        recipes.from_dict(WITH, wrong)


def test_another_field_is_refused_but_other_braces_are_text():
    base = {"model": "m", "prompt": "{context} and {question}"}
    with pytest.raises(RecipeError, match=r"has the fields \{context\}, \{question\}"):
        recipes.from_dict({"base": base}, "x")
    base = {"model": "m", "prompt": '{"a": 1} {context}'}
    assert recipes.from_dict({"base": base}, "x").base.prompt == '{"a": 1} x'


def near(monkeypatch, installed):
    monkeypatch.setattr(parsing, "is_installed", lambda package: installed)
    similar = {"text": "a", "above": 0.9, "model": "quasir/sentences", "instead": {"better": 0.7}}
    recipe = recipes.from_dict({"base": "m", "features": {"same": {"similarity": similar}}})
    return recipe.features["same"].similarity


def test_an_installed_package_replaces_the_model_and_its_threshold(monkeypatch):
    kept = near(monkeypatch, False)
    assert (kept.model, kept.above, kept.instead) == ("quasir/sentences", 0.9, None)
    other = near(monkeypatch, True)
    assert (other.model, other.above, other.instead) == ("better", 0.7, None)


def test_instead_needs_a_threshold_of_the_other_model_too():
    similar = {"text": "a", "instead": {"better": 0.7}}
    with pytest.raises(RecipeError, match="above is needed"):
        recipes.from_dict({"base": "m", "features": {"same": {"similarity": similar}}})


def test_a_boost_of_the_context_is_of_its_words():
    proposal = {"guide": {"boost": {"{context}": 100.0, "why": 2.0}}, "share": 0.1}
    given = {"base": "m", "proposal": {"mixture": [proposal, "base"]}}
    unfilled = recipes.from_dict(given)
    with pytest.raises(RecipeError, match="needs a context"):
        check_filled(unfilled)
    recipe = recipes.from_dict(given, "Is the best Ü2016 of an_old?")
    boost = recipe.proposal.mixture[0].guide.boost
    assert boost == {"the": 100.0, "best": 100.0, "Ü2016": 100.0, "old": 100.0, "why": 2.0}
    check_filled(recipe)
    assert recipe == recipes.parse(recipes.dump(recipe), "again")
    short = recipes.from_dict(given, "a b").proposal.mixture[0].guide.boost
    assert short == {"a b": 100.0, "why": 2.0}
    given["proposal"]["mixture"][0] = {"guide": {"boost": ["{context}"]}}
    boost = recipes.from_dict(given, "good").proposal.mixture[0].guide.boost
    assert boost == ["good"]  # its factor is to be fitted


def wrong(tmp_path, name, content, **options):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError) as caught:
        read_contexts(path, **options)
    return str(caught.value)


def test_every_kind_of_file(tmp_path):
    rows = [{"question": "Why?", "year": 1912}, {"question": "How, then?", "year": 7}]
    lines = tmp_path / "a.jsonl"
    lines.write_text("".join(json.dumps(row) + "\n" for row in rows))
    texts = tmp_path / "a.txt"
    texts.write_text("Why?\r\nHow, then?\n")
    cells = tmp_path / "a.csv"
    cells.write_text('question,year\nWhy?,1912\n"How, then?",7\n')
    table = tmp_path / "a.parquet"
    pq.write_table(pa.Table.from_pylist(rows), table)
    for path in (lines, table):
        assert [context.fields for context in read_contexts(path)] == rows
    for path in (lines, texts, cells, table):
        found = read_contexts(path, column="question")
        assert [context.fields for context in found] == [
            {"question": row["question"]} for row in rows
        ]
        assert [context.index for context in found] == [0, 1]
    assert read_contexts(cells)[1].value("year") == "7"
    assert read_contexts(lines)[0].value("year") == "1912"
    assert [context.fields for context in read_contexts(texts)] == [
        {"text": "Why?"},
        {"text": "How, then?"},
    ]


def test_a_list(tmp_path):
    assert [c.fields for c in read_contexts(["a", {"q": "b"}], only="q")] == [
        {"q": "a"},
        {"q": "b"},
    ]


def test_bad_json_in_line_731(tmp_path):
    lines = [json.dumps({"question": f"q{i}"}) for i in range(1, 1001)]
    lines[730] = '{"question": "q731"'
    message = wrong(tmp_path, "p.jsonl", "\n".join(lines))
    assert "p.jsonl, line 731: this is no JSON" in message
    lines[730] = lines[1]
    message = wrong(tmp_path, "p.jsonl", "\n".join(lines))
    assert "p.jsonl, line 731: this context is the same as that of line 2" in message


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("e.jsonl", "", "holds no contexts"),
        ("e.txt", "\n\n", "holds no contexts"),
        ("e.csv", "", "holds no contexts"),
        ("e.csv", "a,b\n", "holds no contexts"),
        ("e.csv", "a,a\n1,2\n", "line 1: a column's name is empty"),
        ("e.csv", "a,b\n1,2\n1\n", "line 3: 1 cells"),
        ("e.csv", 'a\n"x\ny"\n"x\ny"\n', "line 4: this context is the same as that of line 2"),
        ("e.csv", 'a\n"x\n', "no CSV"),
        ("e.txt", "a\n\nb\n", "line 2: the line is empty"),
        ("e.txt", b"a\n\xff\n", "line 2: the text is not UTF-8"),
        ("e.jsonl", "3\n", "line 1: a context is a text, or an object"),
        ("e.jsonl", "[1]\n", "line 1: a context is a text, or an object"),
        ("e.jsonl", "{}\n", "line 1: this context is empty"),
        ("e.jsonl", '""\n', "line 1: this context is empty"),
        ("e.jsonl", '{"a": NaN}\n', "line 1: a context holds texts"),
        ("e.jsonl", '{"a": "\\ud800"}\n', "line 1: "),
        ("e.jsonl", "[" * 100_000 + "\n", "line 1: this is no JSON"),
        ("e.parquet", "no", "is no Parquet file"),
        ("e.xlsx", "no", "must end in .jsonl, .txt, .csv, .parquet"),
    ],
)
def test_mistakes_name_the_line(tmp_path, name, content, said):
    assert said in wrong(tmp_path, name, content)


def test_a_column_that_is_not_there(tmp_path):
    said = wrong(tmp_path, "e.jsonl", '{"a": "x"}\n{"b": "y"}\n', column="a")
    assert "line 2: this context has no 'a'; its fields are b" in said


def test_a_field_that_is_no_text():
    context = read_contexts([{"a": [1], "b": True, "c": None, "d": 2.5}])[0]
    assert context.value("d") == "2.5"
    for name, said in [("a", "must be a text"), ("b", "must be a text"), ("c", "no field")]:
        with pytest.raises(InputError, match=said):
            context.value(name)


@pytest.mark.parametrize("name", ["absent.jsonl", "folder.txt"])
def test_a_file_that_is_not_there(tmp_path, name):
    (tmp_path / "folder.txt").mkdir()
    with pytest.raises(InputError, match=r"does not exist, or is no file: .* contexts\.$"):
        read_contexts(tmp_path / name)
    with pytest.raises(InputError, match="must be a file"):
        read_contexts(7)
