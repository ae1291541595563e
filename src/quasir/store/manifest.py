"""The manifest of a run: the facts of its draws, and the hash and the origin of every shard."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, TypeAlias

from quasir.core import __version__
from quasir.core.formatting import short_repr
from quasir.core.streams import BLOCK, LARGEST_SEED, VERSION
from quasir.errors import StoreError

MANIFEST = "manifest.json"
LONGEST = 300
"""Characters of a message that shows a value of the file."""
FORMAT = VERSION
"""Format of runs: the version of their random streams."""
BLOCKS_A_SHARD = 256
"""262,144 draws, or 10 MB of numbers. Runs of language models, which are slower, have fewer."""
Check: TypeAlias = Callable[[Any], bool]


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_mapping(value: Any) -> bool:
    return isinstance(value, dict)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_count(value: Any) -> bool:
    return _is_whole(value) and value > 0


def _is_time(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0


def _all(check: Check) -> Check:
    return lambda value: isinstance(value, (list, tuple)) and all(map(check, value))


def _may_be(check: Check) -> Check:
    return lambda value: value is None or check(value)


def _are_rounds(value: Any) -> bool:
    """Return whether these are the draws of the same contexts, never fewer than before."""
    return (
        _all(_all(_is_whole))(value)
        and len({len(totals) for totals in value}) <= 1
        and all(a <= b for r, s in pairwise(value) for a, b in zip(r, s, strict=True))
    )


@dataclass(frozen=True)
class Shard:
    """The manifest's entry for a shard.

    As long as the file's `Location.identity` is `file`, its hash need not be computed again.
    """

    draws: int
    sha256: str
    seconds: float | None = None  # that one worker took to draw and write it
    file: list[int] | None = None  # `Location.identity` of the file when it was written

    def to_dict(self) -> dict[str, Any]:
        """Return the manifest's entry."""
        seconds = None if self.seconds is None else round(self.seconds, 4)
        content = {**vars(self), "seconds": seconds}
        return {name: value for name, value in content.items() if value is not None}

    @classmethod
    def from_dict(cls, entry: Any) -> Shard:
        """Read the manifest's entry."""
        _must(_is_mapping(entry), "an entry of a shard is not a mapping")
        shard = cls(**{name: entry.get(name) for name in OF_SHARD})
        _check(shard, OF_SHARD, "a shard's")
        return shard


OF_SHARD: dict[str, Check] = {
    "draws": _is_count,
    "sha256": _is_text,
    "seconds": _may_be(_is_time),
    "file": _may_be(_all(_is_whole)),
}


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """The facts of a run, without its shards."""

    format: int = FORMAT  # version of this file, and of the random streams
    quasir: str = __version__  # version of the package that began the run
    seed: int
    block: int = BLOCK  # draws in a block
    blocks_a_shard: int = BLOCKS_A_SHARD  # blocks in each shard but the last
    models: list[dict[str, Any]] = field(default_factory=list)  # name, revision, hash of each
    # Hash of what the draws depend on in the run's recipe; None for draws saved from Python.
    recipe: str | None = None
    code: dict[str, str] = field(default_factory=dict)  # file of the user's features -> its hash
    shards_at: str | None = None  # address of the shards, if not in the run's folder
    warnings: tuple[str, ...] = ()  # problems of the run that cannot be seen in its draws
    known: dict[str, Any] | None = None  # a `RatioBounds`: what bounds ratios that were not drawn
    workers: int | None = None  # that drew the last shards
    machines: int | None = None
    stopped: str | None = None  # why the drawing was stopped, if it was asked to stop
    base_check: dict[str, Any] | None = None  # a `BaseCheck`: draws of the base, scored by q
    contexts: str | None = None  # of a run over contexts: the hash of their table
    # Of a run over contexts: the draws of each context in all, after each round of drawing.
    rounds: list[list[int]] | None = None

    def to_dict(self, shards: Mapping[int, Shard], draws: int) -> dict[str, Any]:
        """Return the file's content, with the shards and the number of draws before a gap."""
        in_order = sorted(shards.items())
        shards_hash = hashlib.sha256("".join(shard.sha256 for _, shard in in_order).encode())
        facts = {**vars(self), "warnings": list(self.warnings) or None}
        content = {
            **{name: fact for name, fact in facts.items() if fact is not None or name == "recipe"},
            "draws": draws,
            "content": shards_hash.hexdigest(),
            "shards": {shard_name(number): shard.to_dict() for number, shard in in_order},
        }
        return content | {"sha256": seal_of(content)}

    @classmethod
    def from_dict(cls, content: Any) -> tuple[Manifest, dict[int, Shard]]:
        """Read the file's content; return the manifest and the shards."""
        _must(_is_mapping(content), "it is not a mapping")
        for name in ("format", "seed", "block", "blocks_a_shard", "shards"):
            _must(name in content, f"it has no {name!r}")
        _must(
            content["format"] == FORMAT and content["block"] == BLOCK,
            f"it is of format {content['format']!r} with blocks of {content['block']!r}, and this "
            f"version reads format {FORMAT} with blocks of {BLOCK}",
        )
        seal = content.get("sha256")
        _must(
            seal == seal_of({k: v for k, v in content.items() if k != "sha256"}),
            f"its own hash, {seal!r}, is not that of its content, so something in it was "
            "changed by hand",
        )
        manifest = cls(**{name: content[name] for name in OF_MANIFEST if name in content})
        _check(manifest, OF_MANIFEST, "its")
        _must((manifest.rounds is None) == (manifest.contexts is None), "it lacks its rounds")
        entries = content["shards"]
        _must(_is_mapping(entries), "its shards are not a mapping")
        shards = {shard_number(name): Shard.from_dict(entry) for name, entry in entries.items()}
        size = manifest.block * manifest.blocks_a_shard
        _must(all(s.draws <= size for s in shards.values()), f"a shard has over {size:,} draws")
        return replace(manifest, warnings=tuple(manifest.warnings)), shards


OF_MANIFEST: dict[str, Check] = {
    "format": _is_count,
    "quasir": _is_text,
    "seed": lambda value: _is_whole(value) and value <= LARGEST_SEED,
    "block": _is_count,
    "blocks_a_shard": _is_count,
    "models": _all(_is_mapping),
    "recipe": _may_be(_is_text),
    "code": _is_mapping,
    "shards_at": _may_be(_is_text),
    "warnings": _all(_is_text),
    "known": _may_be(_is_mapping),
    "workers": _may_be(_is_count),
    "machines": _may_be(_is_count),
    "stopped": _may_be(_is_text),
    "base_check": _may_be(_is_mapping),
    "contexts": _may_be(_is_text),
    "rounds": _may_be(_are_rounds),
}
"""Name -> whether a value can be this fact; nothing else is read from the file."""


def seal_of(content: Mapping[str, Any]) -> str:
    """Return the hash of a manifest's content, which it carries itself."""
    text = json.dumps(content, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def shard_name(number: int) -> str:
    """Return the name of a shard's file."""
    return f"shard-{number:05d}.parquet"


def shard_number(name: str) -> int:
    """Return the number of a shard from the name of its file."""
    digits = name.removeprefix("shard-").removesuffix(".parquet")
    _must(digits.isdecimal() and shard_name(int(digits)) == name, f"no shard is called {name!r}")
    return int(digits)


def _check(thing: Shard | Manifest, checks: Mapping[str, Check], of: str) -> None:
    for name, check in checks.items():
        value = getattr(thing, name)
        _must(check(value), f"{of} {name} is {value!r}")


def _must(holds: bool, otherwise: str) -> None:
    if not holds:
        raise StoreError(otherwise if len(otherwise) <= LONGEST else f"{otherwise[:LONGEST]}...")


KEY = b"quasir"


@dataclass(frozen=True)
class Origin:
    """What the draws of a run are made from: the seed, and the hash of the recipe's part in it."""

    seed: int
    recipe: str | None = None

    def mark(self, number: int) -> dict[bytes, bytes]:
        """Return the metadata that shard `number` is written with."""
        facts = {"number": number, "seed": self.seed, "recipe": self.recipe}
        return {KEY: json.dumps(facts).encode()}

    def check(self, metadata: Mapping[bytes, bytes] | None, number: int, how_to_draw: str) -> None:
        """Raise an error if a file is not shard `number` of this run."""
        expected = json.loads(self.mark(number)[KEY])
        try:
            found = json.loads((metadata or {})[KEY])
        except (KeyError, ValueError):
            found = {}
        wrong = [
            f"its {name} is {short_repr(found.get(name))} and should be {short_repr(value)}"
            for name, value in expected.items()
            if found.get(name) != value
        ]
        if wrong:
            raise StoreError(
                f"{shard_name(number)} is not the shard that this run wrote there: "
                f"{'; '.join(wrong)}. It was copied from elsewhere or edited, and no estimate from "
                f"it can be trusted. {how_to_draw}",
                [number],
            )
