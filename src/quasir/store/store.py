"""A folder of shards, and the manifest that says what they are."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from quasir.draws import Draws
from quasir.errors import InputError, StoreError
from quasir.store import shards
from quasir.store.atomic import write_json
from quasir.store.earlier import mixture_doubt
from quasir.store.places import Place, place_of
from quasir.store.shards import Shard, shard_name, shard_number
from quasir.streams import BLOCK, DrawStreams
from quasir.typing import Items

__all__ = ["Store", "write_shard"]

FORMAT = 2
"""Of new runs. It is also the version of their random streams; runs of format 1 are read, too."""
MANIFEST = "manifest.json"
ITEMS = ("text", "token_ids", "item", "json")
"""Columns of a shard that its items are made of."""
BLOCKS_A_SHARD = 256
"""262,144 draws: 10 MB of numbers. A language model, which draws hundreds a second, has fewer."""
MAY_BE_FORGOTTEN = 1 / 500
"""Share of the shards that a killed process may have to draw again.

The manifest lists all shards: written anew with each of 100,000, it would take longer than drawing.
"""


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
        self._unwritten = 0

    @classmethod
    def create(
        cls, folder: str | Path, seed: int, blocks_a_shard: int = BLOCKS_A_SHARD, **facts: Any
    ) -> Store:
        """Begin an empty store; further facts go into its manifest."""
        from quasir import __version__

        folder = Path(folder)
        if (folder / MANIFEST).exists():
            raise InputError(f"{folder} holds a run already: give another folder, or remove it.")
        folder.mkdir(parents=True, exist_ok=True)
        if not facts.get("shards_at"):
            (folder / "draws").mkdir(exist_ok=True)
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
                shard_number(name): Shard.from_dict(entry)
                for name, entry in manifest.pop("shards").items()
            }
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError(
                f"{path} cannot be read ({error}): it was edited or damaged."
            ) from error
        if manifest.get("format") not in (1, FORMAT) or manifest.get("block") != BLOCK:
            raise StoreError(
                f"{folder} is of format {manifest.get('format')} with blocks of "
                f"{manifest.get('block')}; this version reads 1 and {FORMAT} with {BLOCK}."
            )
        manifest.pop("draws", None)
        manifest.pop("content", None)
        return cls(folder, manifest, written)

    @property
    def seed(self) -> int:
        """The seed of the run."""
        return int(self.facts["seed"])

    @property
    def streams(self) -> DrawStreams:
        """The random numbers of its draws, with the keys that the run was begun with."""
        return DrawStreams(self.seed, version=int(self.facts["format"]))

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

    def numbers(self) -> range:
        """Return the shards that hold the draws from the first on, without a gap."""
        n = len(self)
        if n == 0:
            raise StoreError(
                f"{self.folder} holds no draws yet: `quasir draw {self.folder}` draws them."
            )
        return range(-(-n // self.shard_size))

    @cached_property
    def place(self) -> Place:
        """Where the shards are: in the run's folder, unless it was begun with an address."""
        return place_of(self.facts.get("shards_at") or self.folder / "draws")

    def path(self, number: int) -> Path:
        """Return where a shard of the run's folder is, or will be."""
        return self.folder / "draws" / shard_name(number)

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

    def add(self, number: int, draws: Draws, seconds: float | None = None) -> None:
        """Write a shard, whole or not at all, and then the manifest that vouches for it."""
        sha256 = write_shard(self.place, number, draws, number * self.shard_size)
        file = self.place.identity(shard_name(number))
        self.shards[number] = Shard(len(draws), sha256, seconds, file)
        self.write_manifest()

    def record(self, number: int, shard: Shard) -> None:
        """Put a shard that is there into the manifest, which is written now or with later ones."""
        self.shards[number] = shard
        self._unwritten += 1
        if self._unwritten > MAY_BE_FORGOTTEN * len(self.shards):
            self.write_manifest()

    def settle(self) -> None:
        """Write the manifest, where shards were recorded that it does not have yet."""
        if self._unwritten:
            self.write_manifest()

    def write_manifest(self) -> None:
        """Write what is known of the store."""
        self._unwritten = 0
        in_order = sorted(self.shards.items())
        content = hashlib.sha256("".join(shard.sha256 for _, shard in in_order).encode())
        write_json(
            self.folder / MANIFEST,
            self.facts
            | {
                "draws": len(self),
                "content": content.hexdigest(),
                "shards": {shard_name(number): shard.to_dict() for number, shard in in_order},
            },
        )

    def damaged(self) -> list[int]:
        """Return the shards that are absent, or are not what was written."""

        def is_damaged(number: int) -> bool:
            try:
                return self.place.sha256(shard_name(number)) != self.shards[number].sha256
            except OSError:
                return True

        numbers = sorted(self.shards)
        with ThreadPoolExecutor() as pool:
            found = list(pool.map(is_damaged, numbers))
        return [number for number, wrong in zip(numbers, found, strict=True) if wrong]

    def check(self) -> None:
        """Raise an error that names the damaged shards, if there are any."""
        self.refuse(self.damaged())

    def refuse(self, wrong: list[int]) -> None:
        """Raise an error that names these shards as damaged, if there are any."""
        if wrong:
            names = ", ".join(shard_name(number) for number in wrong[:5])
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
        names = [*self._number_columns(), *(ITEMS if items else ())]
        table = pa.concat_tables([self._table(i, names) for i in self.numbers()])
        return self._draws(table, items)

    def read(self, number: int, items: bool = True) -> Draws:
        """Return the draws of one shard; its pages are compared with their checksums."""
        names = [*self._number_columns(), *(ITEMS if items else ())]
        return self._draws(self._table(number, names, check=True), items)

    def items(self, number: int, rows: NDArray[np.intp]) -> Items:
        """Return the items of some draws of a shard, by their place in it."""
        return shards.items_from(self._table(number, list(ITEMS), check=True).take(rows))

    def _table(self, number: int, names: list[str], check: bool = False) -> pa.Table:
        source = self.place.source(shard_name(number))
        there = [name for name in shards.columns_of(source) if name in names]
        return shards.read(source, there, check)

    def _number_columns(self) -> list[str]:
        there = shards.columns_of(self.place.source(shard_name(0)))
        return [name for name in there if name.startswith(("log_", shards.FEATURE))]

    def _draws(self, table: pa.Table, items: bool) -> Draws:
        return shards.draws_from(table, items, self.seed, *self.told())

    def told(self) -> tuple[tuple[str, ...], float]:
        """Return what no draw shows: the run's doubts, and the ceiling of the log ratios."""
        doubts = tuple(self.facts.get("doubts", ()))
        if self.facts["format"] == 1:
            doubts += mixture_doubt(self.folder)
        return doubts, float(self.facts.get("log_ceiling", math.inf))


def facts_of(doubts: tuple[str, ...], log_ceiling: float) -> dict[str, Any]:
    """Return what a manifest keeps of what `Store.told` returns."""
    facts: dict[str, Any] = {"doubts": list(doubts)} if doubts else {}
    return facts | ({"log_ceiling": log_ceiling} if math.isfinite(log_ceiling) else {})


def write_shard(place: Place, number: int, draws: Draws, first: int) -> str:
    """Write draws, the first of which is number `first` of the run; return the file's SHA-256."""
    table = shards.table_of(draws, first)
    return place.write(shard_name(number), lambda temporary: shards.write(table, temporary))
