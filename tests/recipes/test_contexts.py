"""Reading contexts: what can be read, and what each mistake says."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from quasir.errors import InputError
from quasir.recipes.placeholders import read_contexts


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
        assert [context.place for context in found] == [0, 1]
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
        ("e.csv", "a,a\n1,2\n", "line 1: the first line names the columns"),
        ("e.csv", "a,b\n1,2\n1\n", "line 3: 1 cells"),
        ("e.csv", 'a\n"x\ny"\n"x\ny"\n', "line 4: this context is the same as that of line 2"),
        ("e.csv", 'a\n"x\n', "no CSV"),
        ("e.txt", "a\n\nb\n", "line 2: the line is empty"),
        ("e.txt", b"a\n\xff\n", "line 2: this is no UTF-8"),
        ("e.jsonl", "3\n", "line 1: a context is a text, or an object"),
        ("e.jsonl", "[1]\n", "line 1: a context is a text, or an object"),
        ("e.jsonl", "{}\n", "line 1: this context is empty"),
        ("e.jsonl", '""\n', "line 1: this context is empty"),
        ("e.jsonl", '{"a": NaN}\n', "line 1: a context holds texts"),
        ("e.jsonl", '{"a": 1, "a": 2}\n', "line 1: 'a' is given twice"),
        ("e.jsonl", '{"a": "\\ud800"}\n', "line 1: "),
        ("e.jsonl", "[" * 100_000 + "\n", "line 1: this is no JSON"),
        ("e.parquet", "no", "is no Parquet file"),
        ("e.xlsx", "no", "must end in .jsonl, .txt, .csv or .parquet"),
    ],
)
def test_mistakes_name_the_line(tmp_path, name, content, said):
    assert said in wrong(tmp_path, name, content)


def test_a_column_that_is_not_there(tmp_path):
    said = wrong(tmp_path, "e.jsonl", '{"a": "x"}\n{"b": "y"}\n', column="a")
    assert "line 2: this context has no 'a'; its fields are b" in said


def test_no_such_file(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        read_contexts(tmp_path / "none.jsonl")
    with pytest.raises(InputError, match="must be a file"):
        read_contexts(7)


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
