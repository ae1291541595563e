"""A folder of shards, and the manifest that says what they are."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from quasir.blocks import BLOCK
from quasir.draws import Draws
from quasir.errors import InputError, StoreError
from quasir.store import shards
from quasir.store.atomic import write_json, write_with

__all__ = ["Shard", "Store"]

FORMAT = 1
MANIFEST = "manifest.json"
BLOCKS_A_SHARD = 256
"""262,144 draws: 10 MB of numbers. A language model, which draws hundreds a second, has fewer."""


@dataclass(frozen=True)
class Shard:
    """What the manifest says of a shard."""

    draws: int
    sha256: str


class Store:
    """The draws of a run.

    Make one with `Store.create`, or open one that is there with `Store.open`.

    Attributes
    ----------
    folder : Path
    facts : dict
        What the manifest says besides the shards: seed, version, models, ...
    shards : dict
        Number of a shard -> `Shard`, for those that are written.
    """

    def __init__(self, folder: Path, facts: dict[str, Any], written: dict[int, Shard]) -> None:
        self.folder, self.facts, self.shards = folder, facts, written

    @classmethod
    def create(
        cls, folder: str | Path, seed: int, blocks_a_shard: int = BLOCKS_A_SHARD, **facts: Any
    ) -> Store:
        """Begin an empty store; further facts go into its manifest."""
        from quasir import __version__

        folder = Path(folder)
        if (folder / MANIFEST).exists():
            raise InputError(f"{folder} holds a run already: give another folder, or remove it.")
        (folder / "draws").mkdir(parents=True, exist_ok=True)
        fixed = {
            "format": FORMAT,
            "quasir": __version__,
            "seed": seed,
            "block": BLOCK,
            "blocks_a_shard": blocks_a_shard,
        }
        store = cls(folder, fixed | facts, {})
        store.write_manifest()
        return store

    @classmethod
    def open(cls, folder: str | Path) -> Store:
        """Open a store that is there; no shard is read yet."""
        folder = Path(folder)
        path = folder / MANIFEST
        if not path.is_file():
            raise InputError(f"{folder} is no run: it has no {MANIFEST}.")
        try:
            manifest = json.loads(path.read_text())
            written = {
                _number(name): Shard(entry["draws"], entry["sha256"])
                for name, entry in manifest.pop("shards").items()
            }
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError(
                f"{path} cannot be read ({error}): it was edited or damaged."
            ) from error
        if manifest.get("format") != FORMAT or manifest.get("block") != BLOCK:
            raise StoreError(
                f"{folder} is of format {manifest.get('format')} with blocks of "
                f"{manifest.get('block')}; this version reads {FORMAT} with {BLOCK}."
            )
        manifest.pop("draws", None)
        manifest.pop("content", None)
        return cls(folder, manifest, written)

    @property
    def seed(self) -> int:
        """The seed of the run."""
        return int(self.facts["seed"])

    @property
    def blocks_a_shard(self) -> int:
        """Blocks in each shard but the last."""
        return int(self.facts["blocks_a_shard"])

    @property
    def shard_size(self) -> int:
        """Draws in each shard but the last."""
        return BLOCK * self.blocks_a_shard

    def __len__(self) -> int:
        """Return how many draws there are from the first on, without a gap."""
        total = 0
        for number in range(len(self.shards)):
            shard = self.shards.get(number)
            if shard is None:
                break
            total += shard.draws
            if shard.draws < self.shard_size:
                break
        return total

    def path(self, number: int) -> Path:
        """Return where a shard is, or will be."""
        return self.folder / "draws" / _name(number)

    def draws_in(self, number: int, n: int) -> int:
        """Return how many draws shard `number` has in a run of n."""
        return max(0, min(self.shard_size, n - number * self.shard_size))

    def missing(self, n: int) -> list[int]:
        """Return the shards that a run of n draws still needs, whole or longer than they are."""
        return [
            number
            for number in range(-(-n // self.shard_size))
            if number not in self.shards or self.shards[number].draws < self.draws_in(number, n)
        ]

    def add(self, number: int, draws: Draws) -> None:
        """Write a shard, whole or not at all, and then the manifest that vouches for it."""
        table = shards.table_of(draws, number * self.shard_size)
        path = self.path(number)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_with(path, lambda temporary: shards.write(table, temporary))
        self.shards[number] = Shard(len(draws), shards.hash_of(path))
        self.write_manifest()

    def write_manifest(self) -> None:
        """Write what is known of the store."""
        in_order = sorted(self.shards.items())
        content = hashlib.sha256("".join(shard.sha256 for _, shard in in_order).encode())
        write_json(
            self.folder / MANIFEST,
            self.facts
            | {
                "draws": len(self),
                "content": content.hexdigest(),
                "shards": {
                    _name(number): {"draws": shard.draws, "sha256": shard.sha256}
                    for number, shard in in_order
                },
            },
        )

    def damaged(self) -> list[int]:
        """Return the shards that are absent, or are not what was written."""

        def is_damaged(number: int) -> bool:
            path = self.path(number)
            return not path.is_file() or shards.hash_of(path) != self.shards[number].sha256

        numbers = sorted(self.shards)
        with ThreadPoolExecutor() as pool:
            found = list(pool.map(is_damaged, numbers))
        return [number for number, wrong in zip(numbers, found, strict=True) if wrong]

    def check(self) -> None:
        """Raise an error that names the damaged shards, if there are any."""
        wrong = self.damaged()
        if wrong:
            names = ", ".join(_name(number) for number in wrong[:5])
            more = f" and {len(wrong) - 5} more" if len(wrong) > 5 else ""
            raise StoreError(
                f"{len(wrong)} of {len(self.shards)} shards of {self.folder} are absent, truncated "
                f"or edited: {names}{more}. Their hashes are not those of the manifest, so no "
                f"estimate from them can be trusted. `quasir draw {self.folder} --repair` draws "
                "them again.",
                wrong,
            )

    def forget(self, numbers: Sequence[int]) -> None:
        """Strike shards from the manifest, so that they are drawn again."""
        for number in numbers:
            self.shards.pop(number, None)
        self.write_manifest()

    def load(self, items: bool = True, check: bool = True) -> Draws:
        """Return the draws.

        Parameters
        ----------
        items : bool
            Whether to read the items too; without them only numbers are read.
        check : bool
            Whether to compare every shard with its hash first.

        Raises
        ------
        StoreError
            Where a shard is damaged or absent.
        """
        if check:
            self.check()
        n = len(self)
        if n == 0:
            raise StoreError(
                f"{self.folder} holds no draws yet: `quasir draw {self.folder}` draws them."
            )
        numbers = range(-(-n // self.shard_size))
        there = shards.columns_of(self.path(0))
        columns = [
            name
            for name in there
            if name.startswith(("log_", shards.FEATURE))
            or (items and name in ("text", "token_ids", "item", "json"))
        ]
        table = pa.concat_tables([shards.read(self.path(i), columns) for i in numbers])
        return Draws(
            log_p=_numbers(table, "log_p"),
            log_q=_numbers(table, "log_q"),
            log_u=_numbers(table, "log_u"),
            items=shards.items_from(table) if items else None,
            log_base=_numbers(table, "log_base") if "log_base" in there else None,
            features={
                name.removeprefix(shards.FEATURE): table[name].to_numpy()
                for name in columns
                if name.startswith(shards.FEATURE)
            },
            seed=self.seed,
            doubts=tuple(self.facts.get("doubts", ())),
        )


def _numbers(table: pa.Table, name: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.asarray(table[name].to_numpy(), dtype=np.float64)


def _name(number: int) -> str:
    return f"shard-{number:05d}.parquet"


def _number(name: str) -> int:
    return int(name.removeprefix("shard-").removesuffix(".parquet"))
