"""The manifest of a run: the facts of its draws, and the hash and the origin of every shard."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

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


@dataclass(frozen=True)
class Shard:
    """The manifest's entry for a shard.

    Attributes
    ----------
    draws : int
    sha256 : str
        Hash of its file.
    seconds : float or None
        Time that one worker took to draw and write it.
    file : list of int or None
        `Location.identity` of the file when it was written. As long as that is the same, the
        hash need not be computed again.
    """

    draws: int
    sha256: str
    seconds: float | None = None
    file: list[int] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the manifest's entry."""
        seconds = {} if self.seconds is None else {"seconds": round(self.seconds, 4)}
        file = {} if self.file is None else {"file": self.file}
        return {"draws": self.draws, "sha256": self.sha256, **seconds, **file}

    @classmethod
    def from_dict(cls, entry: Any) -> Shard:
        """Read the manifest's entry."""
        _must(isinstance(entry, dict), "an entry of a shard is not a mapping")
        shard = cls(
            draws=entry.get("draws"),
            sha256=entry.get("sha256"),
            seconds=entry.get("seconds"),
            file=entry.get("file"),
        )
        _must(_is_count(shard.draws), f"a shard has {shard.draws!r} draws")
        _must(isinstance(shard.sha256, str), f"a shard has the hash {shard.sha256!r}")
        time = shard.seconds
        _must(time is None or (_is_number(time) and time >= 0), f"a shard took {time!r} seconds")
        file = shard.file
        known = file is None or (isinstance(file, list) and all(map(_is_whole, file)))
        _must(known, f"a shard's file is {file!r}")
        return shard


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """The facts of a run, without its shards.

    Attributes
    ----------
    format : int
        Version of this file, and of the random streams.
    quasir : str
        Version of the package that began the run.
    seed, block, blocks_a_shard : int
        Seed, draws in a block, and blocks in each shard but the last.
    models : list of dict
        Name, revision and hash of each model.
    recipe : str or None
        Hash of what the draws depend on in the run's recipe; None for draws saved from Python.
    code : dict
        Name of each file of the user's own features -> its hash.
    shards_at : str or None
        Address of the shards, where they are not in the run's folder.
    warnings : tuple of str
        Problems of the run that cannot be seen in its draws.
    known : dict or None
        What is known about ratios that were not drawn (`quasir.draws.ratio_bounds.RatioBounds`).
    workers, machines : int or None
        How many workers and machines drew the last shards.
    stopped : str or None
        Why the drawing was stopped, if it was asked to stop.
    base_check : dict or None
        Draws of the base, scored by the proposal (`quasir.draws.support.BaseCheck`).
    contexts : str or None
        Of a run over contexts: the hash of their table, `contexts.jsonl`.
    rounds : list of lists of int, or None
        Of a run over contexts: the draws of each context in all, after each round of drawing.
    """

    seed: int
    blocks_a_shard: int = BLOCKS_A_SHARD
    format: int = FORMAT
    quasir: str = __version__
    block: int = BLOCK
    models: list[dict[str, Any]] = field(default_factory=list)
    recipe: str | None = None
    code: dict[str, str] = field(default_factory=dict)
    shards_at: str | None = None
    warnings: tuple[str, ...] = ()
    known: dict[str, Any] | None = None
    workers: int | None = None
    machines: int | None = None
    stopped: str | None = None
    base_check: dict[str, Any] | None = None
    contexts: str | None = None
    rounds: list[list[int]] | None = None

    def to_dict(self, shards: Mapping[int, Shard], draws: int) -> dict[str, Any]:
        """Return the file's content, with the shards and the number of draws before a gap."""
        in_order = sorted(shards.items())
        shards_hash = hashlib.sha256("".join(shard.sha256 for _, shard in in_order).encode())
        optional = {
            "shards_at": self.shards_at,
            "warnings": list(self.warnings) or None,
            "known": self.known,
            "workers": self.workers,
            "machines": self.machines,
            "stopped": self.stopped,
            "base_check": self.base_check,
            "contexts": self.contexts,
            "rounds": self.rounds,
        }
        content = {
            "format": self.format,
            "quasir": self.quasir,
            "seed": self.seed,
            "block": self.block,
            "blocks_a_shard": self.blocks_a_shard,
            "models": self.models,
            "recipe": self.recipe,
            "code": self.code,
            **{name: value for name, value in optional.items() if value is not None},
            "draws": draws,
            "content": shards_hash.hexdigest(),
            "shards": {shard_name(number): shard.to_dict() for number, shard in in_order},
        }
        return content | {"sha256": seal_of(content)}

    @classmethod
    def from_dict(cls, content: Any) -> tuple[Manifest, dict[int, Shard]]:
        """Read the file's content; return the manifest and the shards."""
        _must(isinstance(content, dict), "it is not a mapping")
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
        known = {name: content[name] for name in cls.__dataclass_fields__ if name in content}
        manifest = cls(**known)
        manifest._check()
        entries = content["shards"]
        _must(isinstance(entries, dict), "its shards are not a mapping")
        shards = {shard_number(name): Shard.from_dict(entry) for name, entry in entries.items()}
        size = manifest.block * manifest.blocks_a_shard
        _must(all(s.draws <= size for s in shards.values()), f"a shard has over {size:,} draws")
        return manifest, shards

    def _check(self) -> None:
        _must(_is_whole(self.seed) and self.seed <= LARGEST_SEED, f"its seed is {self.seed!r}")
        _must(_is_count(self.blocks_a_shard), f"its blocks_a_shard is {self.blocks_a_shard!r}")
        _must(isinstance(self.quasir, str), f"its version is {self.quasir!r}")
        models = self.models
        _must(
            isinstance(models, list) and all(isinstance(model, dict) for model in models),
            f"its models are {models!r}",
        )
        _must(isinstance(self.code, dict), f"its code is {self.code!r}")
        for name in ("recipe", "shards_at", "stopped", "contexts"):
            value = getattr(self, name)
            _must(value is None or isinstance(value, str), f"its {name} is {value!r}")
        warnings = self.warnings
        _must(
            isinstance(warnings, (list, tuple))
            and all(isinstance(warning, str) for warning in warnings),
            f"its warnings are {warnings!r}",
        )
        object.__setattr__(self, "warnings", tuple(warnings))
        for name in ("workers", "machines"):
            value = getattr(self, name)
            _must(value is None or _is_count(value), f"its {name} is {value!r}")
        rounds = self.rounds
        fine = rounds is None or (
            isinstance(rounds, list)
            and all(isinstance(r, list) and all(map(_is_whole, r)) for r in rounds)
            and len({len(r) for r in rounds}) <= 1
            and all(a <= b for r, s in pairwise(rounds) for a, b in zip(r, s, strict=True))
        )
        _must(fine and (rounds is None) == (self.contexts is None), f"its rounds are {rounds!r}")
        for name in ("base_check", "known"):
            value = getattr(self, name)
            _must(value is None or isinstance(value, dict), f"its {name} is {value!r}")


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


def _must(holds: bool, otherwise: str) -> None:
    if not holds:
        raise StoreError(otherwise if len(otherwise) <= LONGEST else f"{otherwise[:LONGEST]}...")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_count(value: Any) -> bool:
    return _is_whole(value) and value > 0


KEY = b"quasir"


@dataclass(frozen=True)
class Origin:
    """What the draws of a run are made from.

    Attributes
    ----------
    seed : int
    recipe : str or None
        Hash of what the draws depend on; None for draws that were saved from Python.
    """

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
