"""Reading YAML of any kind into plain values with their lines, with bounds on its size.

PyYAML's own loader expands aliases, recurses into nested brackets and raises whatever a bad scalar
raises. This one reads PyYAML's events, which do none of that.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml
from yaml.reader import Reader

from quasir.core.formatting import escaped, shown
from quasir.recipes.yaml_scalars import TAG, Place, Scalars, unknown_tag

__all__ = ["LARGEST_TEXT", "Node", "read_tree"]

LARGEST_TEXT = 1_000_000
"""Most characters of a recipe; PyYAML reads them in about a second where it has no C library."""
MOST_VALUES = 100_000
"""Most values of a recipe, after aliases are replaced by what they stand for."""
DEEPEST = 30
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass
class Node:
    """A value in a YAML file.

    Attributes
    ----------
    line : int
        Counted from 1.
    content : dict, list or scalar
        A mapping holds pairs of the key's line and the value's node, a list holds nodes.
    raw : str
        A scalar as it was written.
    size : int
        Number of values in it; an alias counts as what it stands for.
    """

    line: int
    content: Any
    raw: str = ""
    size: int = 1
    open: bool = False
    key: tuple[str, int] | None = field(default=None, repr=False)

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


def read_tree(text: str, file: str) -> Node:
    """Return the tree of a YAML text.

    Raises
    ------
    RecipeError
        If the text is no YAML, too large, or holds what no recipe needs: tags, merge keys, keys
        that are no texts.
    """
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
            f"this is no YAML: it holds the character {shown(wrong.group())}, which no text has. "
            "Save the file as UTF-8 text"
        )
    builder = _Builder(place)
    for event in _events(text, place):
        builder.take(event)
    return builder.root or Node(1, None)


def _events(text: str, place: Place) -> Iterator[Any]:
    try:
        for event in yaml.parse(text, Loader=LOADER):
            if event.start_mark:
                place.line = event.start_mark.line + 1
            yield event
    except yaml.MarkedYAMLError as error:
        if error.problem_mark:
            place.line = min(error.problem_mark.line, text.rstrip("\n").count("\n")) + 1
        raise place.error(f"this is no YAML: {escaped(str(error.problem), 200)}") from error
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        raise place.error(f"this is no YAML: {escaped(str(error), 200)}") from error


class _Builder:
    """Makes nodes of events, without recursion."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.root: Node | None = None
        self.stack: list[Node] = []
        self.anchors: dict[str, Node] = {}
        self.written = 0
        self.scalars = Scalars(place)

    def take(self, event: Any) -> None:
        if isinstance(event, yaml.DocumentStartEvent) and self.root is not None:
            raise self.place.error("a second document begins here, but a recipe is one document")
        if isinstance(event, yaml.AliasEvent):
            self._attach(self._aliased(str(event.anchor)))
        elif isinstance(event, yaml.ScalarEvent):
            is_key = bool(self.stack) and self._wants_key(self.stack[-1])
            content = self.scalars.key(event) if is_key else self.scalars.value(event)
            node = self._made(event, content)
            node.raw = event.value
            self._attach(node)
        elif isinstance(event, yaml.CollectionStartEvent):
            mapping = isinstance(event, yaml.MappingStartEvent)
            if event.tag not in (None, "!", TAG + ("map" if mapping else "seq")):
                raise unknown_tag(event.tag, self.place)
            if self.stack and self._wants_key(self.stack[-1]):
                raise self.place.error("a key is a text, but this one is a list or a mapping")
            node = self._made(event, {} if mapping else [])
            node.open = True
            self.stack.append(node)
            if len(self.stack) > DEEPEST:
                raise self.place.error(
                    f"brackets or indents are nested more than {DEEPEST} deep, which no recipe "
                    "needs"
                )
        elif isinstance(event, yaml.CollectionEndEvent):
            node = self.stack.pop()
            node.open = False
            self._attach(node)

    def _made(self, event: Any, content: Any) -> Node:
        self.written += 1
        self._refuse_many(self.written)
        node = Node(self.place.line, content)
        if event.anchor is not None:
            self.anchors[event.anchor] = node
        return node

    def _aliased(self, anchor: str) -> Node:
        name = escaped(anchor)
        if anchor not in self.anchors:
            raise self.place.error(f"*{name} stands for nothing: there is no &{name} before it")
        node = self.anchors[anchor]
        if node.open:
            raise self.place.error(f"*{name} contains itself, so it has no end: write it out")
        if self.stack and self._wants_key(self.stack[-1]) and not isinstance(node.content, str):
            raise self.place.error(f"a key is a text, but *{name} is none")
        return node

    def _attach(self, node: Node) -> None:
        if not self.stack:
            self.root = node
            return
        parent = self.stack[-1]
        parent.size += node.size
        self._refuse_many(parent.size)
        if isinstance(parent.content, list):
            parent.content.append(node)
        elif parent.key is None:
            if node.content in parent.content:
                raise self.place.error(
                    f"{escaped(node.content)} is given twice; only the last would count"
                )
            parent.key = (node.content, self.place.line)
        else:
            (key, line), parent.key = parent.key, None
            parent.content[key] = (line, node)

    def _refuse_many(self, values: int) -> None:
        if values > MOST_VALUES:
            raise self.place.error(
                f"up to here there are more than {MOST_VALUES:,} values, with aliases (*name) "
                "written out: no recipe needs so many"
            )

    @staticmethod
    def _wants_key(node: Node) -> bool:
        return isinstance(node.content, dict) and node.key is None
