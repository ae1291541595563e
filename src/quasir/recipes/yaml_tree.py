"""YAML as plain values with their lines, with bounds on its size."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml
from yaml.reader import Reader

from quasir.core.formatting import escaped, short_repr
from quasir.errors import QuasirError, RecipeError

LARGEST_TEXT = 1_000_000
"""Most characters of a recipe; PyYAML reads them in about a second where it has no C library."""
MOST_VALUES, DEEPEST = 100_000, 30  # most values of a recipe, and most brackets within each other
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
TAG = "tag:yaml.org,2002:"
READ_AS = {"int": "a number", "float": "a number", "bool": "true or false", "null": "nothing"}


@dataclass
class Place:
    """A file and a line, for messages."""

    file: str
    line: int = 1

    def error(self, message: str) -> RecipeError:
        """Return the error that names this place."""
        return RecipeError(f"{escaped(self.file, 300)}, line {self.line}: {message}")


@dataclass
class Node:
    """A value in a YAML file, with its line, counted from 1."""

    line: int
    content: Any  # a mapping holds pairs of the key's line and the value's node, a list holds nodes
    raw: str = ""  # a scalar as it was written

    def plain(self) -> Any:
        """Return the value without lines."""
        if isinstance(self.content, dict):
            return {key: node.plain() for key, (_, node) in self.content.items()}
        if isinstance(self.content, list):
            return [node.plain() for node in self.content]
        return self.content

    def find(self, steps: list[Any]) -> tuple[int, Node]:
        """Return the deepest existing node on the way along keys and indices, and its line."""
        node, line = self, self.line
        for step in steps:
            if isinstance(node.content, dict):
                if str(step) not in node.content:
                    break
                line, node = node.content[str(step)]
            elif isinstance(node.content, list) and isinstance(step, int):
                if step >= len(node.content):
                    break
                node = node.content[step]
                line = node.line
        return line, node


def read_as(value: Any) -> str:
    """Return what YAML took a scalar for, in words."""
    kind = "null" if value is None else type(value).__name__
    return READ_AS.get(kind, "a list or a mapping")


def decode(content: bytes, name: str, error: type[QuasirError]) -> str:
    """Return UTF-8 as text; an error names the first line that is none."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as wrong:
        line = content.count(b"\n", 0, wrong.start) + 1
        kind = "UTF-16 or UTF-32" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "not UTF-8"
        raise error(
            f"{name}, line {line}: the text is {kind} ({wrong.reason} at byte {wrong.start}): save "
            "the file as UTF-8."
        ) from wrong


def read_tree(text: str, file: str) -> Node:
    """Return the tree of a YAML text; a `RecipeError` names the line of what no recipe needs."""
    text = text.removeprefix("\ufeff")
    place = Place(file)
    if len(text) > LARGEST_TEXT:
        raise place.error(f"the file is too large: at most {LARGEST_TEXT:,} characters are read")
    wrong = Reader.NON_PRINTABLE.search(text)
    if wrong:
        place.line = text.count("\n", 0, wrong.start()) + 1
        raise place.error(
            f"this is no YAML: it holds the character {short_repr(wrong.group())}, which no text "
            "has. Save the file as UTF-8 text"
        )
    root: Node | None = None
    reader = _Reader(text, place)
    for event in reader.events:
        if isinstance(event, yaml.DocumentStartEvent) and root is not None:
            raise place.error("a second document begins here, but a recipe is one document")
        if isinstance(event, yaml.NodeEvent):
            root = reader.node(event, 1)
    return root or Node(1, None)


class _Reader:
    """Makes nodes of PyYAML's events; `place` is that of the last event."""

    def __init__(self, text: str, place: Place) -> None:
        self.place, self.events, self.values = place, self._events(text), 0
        self.loader: Any = yaml.SafeLoader("")

    def _events(self, text: str) -> Iterator[Any]:
        try:
            for event in yaml.parse(text, Loader=LOADER):
                if event.start_mark:
                    self.place.line = event.start_mark.line + 1
                yield event
        except (yaml.YAMLError, ValueError, OverflowError) as error:
            mark = getattr(error, "problem_mark", None)
            if mark:
                self.place.line = min(mark.line, text.rstrip("\n").count("\n")) + 1
            problem = escaped(str(getattr(error, "problem", error)), 200)
            raise self.place.error(f"this is no YAML: {problem}") from error

    def node(self, event: Any, depth: int) -> Node:
        node = Node(self.place.line, None)
        if event.anchor is not None:
            raise self.place.error(
                "names of values (&name, *name) are not read in recipes: write the value out"
            )
        if event.tag not in (None, "!"):
            raise self.place.error(
                f"the tag {escaped(str(event.tag).replace(TAG, '!!'))} means nothing in a recipe, "
                "which holds texts, numbers, lists and mappings: leave it out"
            )
        self.values += 1
        if self.values > MOST_VALUES:
            raise self.place.error(f"there are more than {MOST_VALUES:,} values up to here")
        if isinstance(event, yaml.ScalarEvent):
            node.content, node.raw = self._scalar(event), event.value
            return node
        if depth > DEEPEST:
            raise self.place.error(f"brackets or indents are nested more than {DEEPEST} deep")
        mapping = isinstance(event, yaml.MappingStartEvent)
        node.content = {} if mapping else []
        while not isinstance(event := next(self.events), yaml.CollectionEndEvent):
            if mapping:
                line, key = self.place.line, self._key(event, depth)
                if key in node.content:
                    raise self.place.error(f"{escaped(key)} is given twice")
                node.content[key] = (line, self.node(next(self.events), depth + 1))
            else:
                node.content.append(self.node(event, depth + 1))
        return node

    def _key(self, event: Any, depth: int) -> str:
        line = self.place.line
        found = self.node(event, depth + 1)
        if isinstance(found.content, str):
            return found.content
        self.place.line = line
        kind, raw = read_as(found.content), escaped(found.raw)
        if isinstance(event, yaml.ScalarEvent):
            raise self.place.error(
                f'YAML reads the key {raw} as {kind}, but a key is a text: quote it, as in "{raw}"'
            )
        raise self.place.error(f"a key is a text, but this one is {kind}")

    def _scalar(self, event: Any) -> Any:
        """Return a text, a number, a boolean or None. A date is a text."""
        raw, tag = event.value, TAG + "str"
        if event.implicit[0]:
            tag = str(self.loader.resolve(yaml.ScalarNode, raw, (True, False)))
        kind = tag.removeprefix(TAG)
        if kind not in READ_AS:
            try:
                raw.encode()
            except UnicodeEncodeError as error:
                raise self.place.error(
                    f"{short_repr(raw)} holds half of a character (a surrogate), which no file can "
                    "keep: write the character itself"
                ) from error
            return raw
        if kind in ("int", "float") and (":" in raw or re.fullmatch(r"[-+]?0[0-7_]+", raw)):
            raise self.place.error(
                f"YAML reads {escaped(raw)} in base {60 if ':' in raw else 8}: quote it if it is a "
                "text, and write a number in plain digits, without a leading 0"
            )
        try:
            return getattr(self.loader, f"construct_yaml_{kind}")(yaml.ScalarNode(tag, raw))
        except (ValueError, OverflowError) as error:
            raise self.place.error(
                f"{short_repr(raw)} is not {READ_AS[kind]} that can be read: quote it if it is a "
                "text"
            ) from error
