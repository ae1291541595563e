"""The manifest of a run: the facts of its draws, and the hash and the origin of every shard."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from quasir.core import __version__
from quasir.core.formatting import short_repr
from quasir.core.streams import BLOCK, VERSION
from quasir.errors import StoreError

MANIFEST = "manifest.json"
FORMAT = VERSION  # format of runs: the version of their random streams
BLOCKS_A_SHARD = 256
"""262,144 draws, or 10 MB of numbers. Runs of language models, which are slower, have fewer."""


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
    def from_dict(cls, content: dict[str, Any]) -> tuple[Manifest, dict[int, Shard]]:
        """Read the file's content; return the manifest and the shards."""
        if (content["format"], content["block"]) != (FORMAT, BLOCK):
            raise StoreError(
                f"it is of format {content['format']!r} with blocks of {content['block']!r}, and "
                f"this version reads format {FORMAT} with blocks of {BLOCK}"
            )
        if content["sha256"] != seal_of({k: v for k, v in content.items() if k != "sha256"}):
            raise StoreError(
                "its own hash is not that of its content, so something in it was changed by hand"
            )
        names = [one.name for one in fields(cls) if one.name in content]
        manifest = cls(**{name: content[name] for name in names})
        shards = {
            int(name.removeprefix("shard-").removesuffix(".parquet")): Shard(**entry)
            for name, entry in content["shards"].items()
        }
        return replace(manifest, warnings=tuple(manifest.warnings)), shards


def seal_of(content: Mapping[str, Any]) -> str:
    """Return the hash of a manifest's content, which it carries itself."""
    text = json.dumps(content, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def shard_name(number: int) -> str:
    """Return the name of a shard's file."""
    return f"shard-{number:05d}.parquet"


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
