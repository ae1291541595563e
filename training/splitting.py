"""The parts of a corpus: for training, for choosing the step, and for judging the result.

A hash alone decides. So the split depends on no seed and on no order, and every script that reads
the same texts holds out the same ones.
"""

from __future__ import annotations

import gzip
import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from corpus import read_texts

__all__ = ["Pair", "Parts", "Questions", "key_of", "read_pairs", "split_by", "split_questions"]

T = TypeVar("T")


class Parts(NamedTuple):
    """The three parts: `choice` picks the best step of a run, `judgement` its quality."""

    training: list
    choice: list
    judgement: list


class Pair(NamedTuple):
    """Two questions, and whether they have the same meaning."""

    first: str
    second: str
    same: bool


class Questions(NamedTuple):
    """The questions and the pairs, each in three parts; no question is in two of them.

    `group` has the group of each `key_of` a question.
    """

    questions: Parts
    pairs: Parts
    group: dict[str, str]


def split_by(
    items: Iterable[T], key: Callable[[T], str], choice: float = 0.01, judgement: float = 0.02
) -> Parts:
    """Split items by a hash of their key; items with the same key are in the same part."""
    parts = Parts([], [], [])
    for item in items:
        digest = hashlib.sha256(key(item).encode()).digest()
        fraction = int.from_bytes(digest[:8], "big") / 2**64
        parts[2 if fraction < judgement else 1 if fraction < judgement + choice else 0].append(item)
    return parts


def key_of(question: str) -> str:
    """Return the words of a question in lower case: the key that says which questions are one."""
    return " ".join(re.findall(r"\w+", question.lower()))


def read_pairs(path: Path) -> list[Pair]:
    """Read pairs from a gzipped file: two questions and the label, 1 for the same meaning."""
    pairs = []
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            columns = line.rstrip("\n").split("\t")
            if len(columns) != 3 or columns[2] not in ("0", "1"):
                raise SystemExit(f"{path}, line {number}: two questions and 0 or 1 are needed")
            pairs.append(Pair(columns[0], columns[1], columns[2] == "1"))
    return pairs


def split_questions(
    questions: Path | Sequence[str],
    pairs: Path | Sequence[Pair],
    choice: float = 0.02,
    judgement: float = 0.08,
) -> Questions:
    """Split questions and pairs so that a held-out question is in no training pair.

    Questions that pairs connect, with either label, form a group, and a group is in one part.
    """
    texts = read_texts(questions) if isinstance(questions, Path) else list(questions)
    read = read_pairs(pairs) if isinstance(pairs, Path) else list(pairs)
    group = _groups(texts, read)
    texts = sorted({*texts, *(text for pair in read for text in pair[:2])})
    return Questions(
        split_by(texts, lambda text: group[key_of(text)], choice, judgement),
        split_by(read, lambda pair: group[key_of(pair.first)], choice, judgement),
        group,
    )


def _groups(texts: Iterable[str], pairs: Iterable[Pair]) -> dict[str, str]:
    """Return the name of each key's group: the smallest of its keys."""
    parent: dict[str, str] = {}

    def root(key: str) -> str:
        while parent.setdefault(key, key) != key:
            parent[key] = parent[parent[key]]
            key = parent[key]
        return key

    for text in texts:
        root(key_of(text))
    for pair in pairs:
        low, high = sorted((root(key_of(pair.first)), root(key_of(pair.second))))
        parent[high] = low
    return {key: root(key) for key in parent}
