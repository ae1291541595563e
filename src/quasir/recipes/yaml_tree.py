"""YAML as plain values with their lines, with bounds on its size.

PyYAML's own loader and composer expand aliases, recurse into nested brackets, forget where an
alias stands, refuse a second anchor of one name, and raise whatever a bad scalar raises. This one
reads PyYAML's events.
"""

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
MOST_VALUES = 100_000
"""Most values of a recipe, after aliases are replaced by what they stand for."""
DEEPEST = 30
MOST_DIGITS = 400
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
    size: int = 1  # number of values in it; an alias counts as what it stands for

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


def describe_surrogate(text: str) -> str:
    """Say what is wrong with a text that cannot be encoded, or return an empty string."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return (
            f"{short_repr(text)} holds half of a character (a surrogate), which no file can keep: "
            "write the character itself"
        )
    return ""


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
        raise place.error(
            f"the file has {len(text):,} characters, but a recipe has at most {LARGEST_TEXT:,}: "
            "make a larger base as a Table in Python"
        )
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
        self.place, self.events = place, self._events(text)
        self.anchors: dict[str, Node | None] = {}  # None: its node is not complete yet
        self.written = 0
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
        """Read the node that begins with an event."""
        if isinstance(event, yaml.AliasEvent):
            return self._aliased(str(event.anchor))
        self.written += 1
        self._refuse_many(self.written)
        node = Node(self.place.line, None)
        self.anchors[event.anchor] = None  # that without an anchor is never looked up
        if isinstance(event, yaml.ScalarEvent):
            node.content, node.raw = self._scalar(event), event.value
        else:
            self._fill(node, event, depth)
        self.anchors[event.anchor] = node
        return node

    def _aliased(self, anchor: str) -> Node:
        name = escaped(anchor)
        if anchor not in self.anchors:
            raise self.place.error(f"*{name} stands for nothing: there is no &{name} before it")
        node = self.anchors[anchor]
        if node is None:
            raise self.place.error(f"*{name} contains itself, so it has no end: write it out")
        return node

    def _refuse_many(self, values: int) -> None:
        if values > MOST_VALUES:
            raise self.place.error(
                f"up to here there are more than {MOST_VALUES:,} values, with aliases (*name) "
                "written out: no recipe needs so many"
            )

    def _fill(self, node: Node, start: Any, depth: int) -> None:
        """Read the values of a mapping or a list."""
        mapping = isinstance(start, yaml.MappingStartEvent)
        self._refuse_tag(start.tag, {"map" if mapping else "seq"})
        if depth > DEEPEST:
            raise self.place.error(
                f"brackets or indents are nested more than {DEEPEST} deep, which no recipe needs"
            )
        node.content = {} if mapping else []
        while not isinstance(event := next(self.events), yaml.CollectionEndEvent):
            if mapping:
                line = self.place.line
                key = self._key(event, depth)
                if key in node.content:
                    raise self.place.error(
                        f"{escaped(key)} is given twice; only the last would count"
                    )
                child = self.node(next(self.events), depth + 1)
                node.content[key] = (line, child)
                node.size += 1
            else:
                child = self.node(event, depth + 1)
                node.content.append(child)
            node.size += child.size
            self._refuse_many(node.size)

    def _key(self, event: Any, depth: int) -> str:
        line = self.place.line
        scalar = isinstance(event, yaml.ScalarEvent)
        if scalar and self._kind(event) == "merge":
            raise self.place.error("merge keys (<<) are not read in recipes: write the keys out")
        found = self.node(event, depth + 1)
        if isinstance(found.content, str):
            return found.content
        self.place.line = line
        kind, raw = read_as(found.content), escaped(found.raw)
        if scalar:
            raise self.place.error(
                f'YAML reads the key {raw} as {kind}, but a key is a text: quote it, as in "{raw}"'
            )
        raise self.place.error(f"a key is a text, but this one is {kind}")

    def _scalar(self, event: Any) -> Any:
        """Return a text, a number, a boolean or None. A date is a text."""
        kind, raw = self._kind(event), event.value
        if kind == "null":
            return None
        if kind not in READ_AS:
            if wrong := describe_surrogate(raw):
                raise self.place.error(wrong)
            return raw
        if kind in ("int", "float"):
            self._refuse_odd_number(raw)
        try:
            return getattr(self.loader, f"construct_yaml_{kind}")(yaml.ScalarNode(TAG + kind, raw))
        except (ValueError, LookupError, OverflowError) as error:
            raise self.place.error(
                f"{short_repr(raw)} is not {READ_AS[kind]}, as its tag !!{kind} says: leave the "
                "tag out"
            ) from error

    def _refuse_odd_number(self, raw: str) -> None:
        """Refuse digits without end, and what YAML 1.1 reads as octal (010) or base 60 (1:30)."""
        if len(raw) > MOST_DIGITS:
            raise self.place.error(
                f"a number of {len(raw):,} characters is too long: quote it if it is a text"
            )
        if ":" in raw or re.fullmatch(r"[-+]?0[0-7_]+", raw):
            raise self.place.error(
                f"YAML reads {raw} in base {60 if ':' in raw else 8}: quote it if it is a text, "
                "and write a number in plain digits, without a leading 0"
            )

    def _kind(self, event: Any) -> str:
        """Return the kind of a scalar: int, float, bool, null, str, merge or timestamp."""
        self._refuse_tag(event.tag, {"str", *READ_AS})
        if event.tag not in (None, "!"):
            return str(event.tag).removeprefix(TAG)
        if not event.implicit[0]:
            return "str"
        tag = self.loader.resolve(yaml.ScalarNode, event.value, (True, False))
        return str(tag).removeprefix(TAG)

    def _refuse_tag(self, tag: str | None, known: set[str]) -> None:
        if tag not in (None, "!") and str(tag).removeprefix(TAG) not in known:
            raise self.place.error(
                f"the tag {escaped(str(tag).replace(TAG, '!!'))} means nothing in a recipe, which "
                "holds texts, numbers, lists and mappings: leave it out"
            )
