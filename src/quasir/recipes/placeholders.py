"""Contexts, and the placeholders that stand for their fields in a recipe; nothing is evaluated."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from quasir.core.files import shortened
from quasir.core.formatting import escaped, short_repr
from quasir.errors import InputError, RecipeError
from quasir.recipes.parts import FIELD, GuideSpec, LanguageSpec, Part, put_fields
from quasir.recipes.schema import Recipe
from quasir.recipes.yaml_tree import decode

MOST_CONTEXTS = 100_000
TEXT = "text"  # the field of contexts that are plain texts, if nothing else names it
KINDS = (".jsonl", ".txt", ".csv", ".parquet")
NAME = "context"  # the field that a single context fills
WORD = re.compile(r"[^\W_]{3,}")  # a word of a field that is boosted; shorter ones say little


@dataclass(frozen=True)
class Context:
    """One context: its number in the file, from 0 on, its fields, and its line for messages."""

    index: int
    fields: Mapping[str, Any]
    where: str = ""

    @property
    def key(self) -> str:
        """Its text: all fields as JSON, in the order of their names."""
        return json.dumps(self.fields, sort_keys=True, ensure_ascii=True, separators=(",", ":"))

    def value(self, name: str) -> str:
        """Return a field as text; it must be a text or a number."""
        found = self.fields.get(name)
        if found is None:
            raise InputError(
                f"{self.where}: this context has no field {short_repr(name)}, which the recipe "
                f"refers to; its fields are {_names(self.fields)}."
            )
        if isinstance(found, bool) or not isinstance(found, (str, int, float)):
            raise InputError(
                f"{self.where}: the field {short_repr(name)} is {short_repr(found)}, but the "
                "recipe refers to it, so it must be a text or a number."
            )
        return found if isinstance(found, str) else json.dumps(found)


def read_contexts(
    source: str | Path | Sequence[Any], column: str | None = None, only: str | None = None
) -> list[Context]:
    """Read contexts from a file, or take them from a list of texts and dictionaries."""
    if isinstance(source, (str, Path)):
        name = escaped(shortened(Path(source)), 300)
        found = _read(Path(source), name)
    elif isinstance(source, Sequence) and not isinstance(source, bytes):
        name = "contexts"
        found = ((f"contexts[{i}]", value) for i, value in enumerate(source))
    else:
        raise InputError(f"contexts must be a file or a list, not {short_repr(source)}.")
    made: list[Context] = []
    seen: dict[str, str] = {}
    for where, value in found:
        if len(made) == MOST_CONTEXTS:
            raise InputError(f"{where}: a run has at most {MOST_CONTEXTS:,} contexts: split them.")
        context = Context(len(made), _fields(value, column or only or TEXT, column, where), where)
        first = seen.setdefault(context.key, where)
        if first != where:
            raise InputError(
                f"{where}: this context is the same as that of {first.removeprefix(f'{name}, ')}, "
                f"{short_repr(context.fields)}: leave one of them out."
            )
        made.append(context)
    if not made:
        raise InputError(f"{name} holds no contexts: give one a line.")
    return made


def _names(fields: Mapping[str, Any]) -> str:
    return ", ".join(escaped(one) for one in list(fields)[:20]) or "none"


def _fields(value: Any, plain: str, column: str | None, where: str) -> dict[str, Any]:
    if isinstance(value, str):
        value = {plain: value} if value.strip() else {}
    elif not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise InputError(
            f'{where}: a context is a text, or an object such as {{"question": "Why?"}}, '
            f"not {short_repr(value)}."
        )
    fields = dict(value)
    if not fields:
        raise InputError(f"{where}: this context is empty: leave it out.")
    if column is not None:
        if fields.get(column) is None:
            there = _names(fields)
            raise InputError(f"{where}: this context has no {column!r}; its fields are {there}.")
        fields = {column: fields[column]}
    try:
        json.dumps(fields, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(
            f"{where}: a context holds texts, numbers, and lists and objects of those, not "
            f"{short_repr(fields)} ({escaped(str(error), 200)})."
        ) from error
    return fields


def _read(path: Path, name: str) -> Iterator[tuple[str, Any]]:
    """Yield each context of a file with the place that messages name."""
    kind = path.suffix.lower()
    if kind not in KINDS:
        raise InputError(f"{name} is no file of contexts: it must end in {', '.join(KINDS)}.")
    try:
        if not path.is_file():
            raise InputError(f"{name} does not exist, or is no file: give a file of contexts.")
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{name} cannot be read: {escaped(str(error), 200)}.") from error
    if kind == ".parquet":
        yield from _rows(content, name)
        return
    text = decode(content, name, InputError)
    if kind == ".csv":
        yield from _records(text, name)
        return
    # Only newlines separate contexts: a text may hold other characters that end lines.
    lines = text.rstrip("\r\n").split("\n") if text.strip() else []
    for number, line in enumerate(lines, start=1):
        where = f"{name}, line {number}"
        if not line.strip():
            raise InputError(f"{where}: the line is empty: leave it out.")
        try:
            yield where, json.loads(line) if kind == ".jsonl" else line.removesuffix("\r")
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"{where}: this is no JSON ({escaped(str(error), 200)}): {short_repr(line)}."
            ) from error


def _records(text: str, name: str) -> Iterator[tuple[str, Any]]:
    """Yield the rows of a CSV file, whose first line names the columns."""
    reader = csv.reader(text.splitlines(keepends=True), strict=True)
    try:
        names = next(reader, [])
        if not all(column.strip() for column in names) or len(set(names)) < len(names):
            raise InputError(f"{name}, line 1: a column's name is empty, or stands there twice.")
        start = reader.line_num + 1
        for row in reader:
            where = f"{name}, line {start}"
            start = reader.line_num + 1
            if len(row) != len(names):
                raise InputError(
                    f"{where}: {len(row)} cells, but the first line has {len(names)}: quote cells "
                    "that hold commas."
                )
            yield where, dict(zip(names, row, strict=True))
    except csv.Error as error:
        raise InputError(
            f"{name}, line {reader.line_num}: this is no CSV ({escaped(str(error), 200)})."
        ) from error


def _rows(content: bytes, name: str) -> Iterator[tuple[str, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        batches = pq.ParquetFile(pa.BufferReader(content)).iter_batches()
        rows = chain.from_iterable(batch.to_pylist() for batch in batches)
        for number, row in enumerate(rows, start=1):
            yield f"{name}, row {number}", row
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{name} is no Parquet file: {escaped(str(error), 200)}.") from error


def fill(recipe: Recipe, context: Context) -> Recipe:
    """Return the recipe of one context: every field is replaced by its value."""
    return recipe.changed(lambda part: _fill_part(part, context.value))


def fields_of(recipe: Recipe) -> list[str]:
    """Return the names of the fields that a recipe refers to, in the order of their first use."""
    return _names_in(recipe.parts(Part))


def unfilled(recipe: Recipe) -> list[str]:
    """Return the warnings on prompts that look as if they had fields, in a run without contexts."""
    parts = chain(recipe.base.parts(Part), recipe.proposal.parts(Part))
    return [
        f"A prompt holds {{{name}}}, and this run has no contexts: the model read it as text. If a "
        "field was meant, begin a run with --contexts."
        for name in _names_in(part for part in parts if not isinstance(part, GuideSpec))
    ]


def _names_in(parts: Iterable[Part]) -> list[str]:
    names: dict[str, None] = {}
    for part in parts:
        _fill_part(part, lambda name: names.setdefault(name) or "x")
    return list(names)


def refuse_missing(recipe: Recipe, contexts: list[Context]) -> None:
    """Refuse contexts that lack a field, naming the line, and a recipe that refers to none."""
    names = fields_of(recipe)
    if not names:
        there = ", ".join(f"{{{name}}}" for name in contexts[0].fields)
        raise InputError(
            f"the recipe refers to no field of the contexts, such as {there}: put one into a "
            "prompt, a chat, a source or a feature."
        )
    for context in contexts:
        for name in names:
            context.value(name)


def fill_one(recipe: Recipe, context: str) -> Recipe:
    """Return a recipe with its one field filled in; refuse none, several, or an empty context."""
    if not context.strip() or f"{{{NAME}}}" in context:
        raise RecipeError(f"the context is {short_repr(context)}: give a text without {{{NAME}}}.")
    names = fields_of(recipe)
    if len(names) != 1:
        there = ", ".join(f"{{{name}}}" for name in names)
        there = f"the fields {there}" if names else f"no field {{{NAME}}}"
        raise RecipeError(
            f"the recipe has {there}, and a context fills one: leave --context out, or give a file "
            "with all fields by --contexts."
        )
    return fill(recipe, Context(0, {names[0]: context}, "--context"))


def check_filled(recipe: Recipe) -> None:
    """Refuse a recipe that needs a context and has none: it would draw for the field's name."""
    if NAME in fields_of(recipe):
        raise RecipeError(
            f"the recipe needs a context, since {{{NAME}}} stands in it: give one with "
            "--context TEXT, or a file of them with --contexts."
        )


def _fill_part(part: Part, value: Callable[[str], str]) -> dict[str, Any]:
    new: dict[str, Any] = {}
    for name, escape in part.templates.items():
        text = getattr(part, name)
        if isinstance(text, str):
            new[name] = put_fields(text, value, escape)
        elif text is not None:
            new[name] = [put_fields(one, value, escape) for one in text]
    for kind in ("json_schema", "grammar") if isinstance(part, LanguageSpec) else ():
        found = FIELD.search(str(getattr(part, kind) or ""))
        if found and not found[1]:
            raise InputError(
                f"a {kind} holds {found[0]}, but fields are not replaced there: use a regex or a "
                "choice, or write it as text with doubled braces elsewhere."
            )
    if isinstance(part, GuideSpec) and part.boost is not None:
        words = {word: old for old in part.boost for word in _boosted(old, value)}
        factors = part.boost if isinstance(part.boost, dict) else None
        new["boost"] = (
            list(words) if factors is None else {word: factors[old] for word, old in words.items()}
        )
    return new


def _boosted(word: str, value: Callable[[str], str]) -> list[str]:
    """Return the words that a boost names: a field alone stands for the words of its value."""
    text = put_fields(word, value)
    field = FIELD.fullmatch(word)
    return (WORD.findall(text) if field and not field[1] else []) or [text]
