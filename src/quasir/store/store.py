"""A folder of shards, and the manifest that describes them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from quasir.core.files import is_file, make_folder, shortened, write_json
from quasir.core.formatting import command, escaped
from quasir.core.streams import BLOCK
from quasir.core.types import Items
from quasir.errors import InputError, StoreError
from quasir.store.locations import Location, location_of
from quasir.store.manifest import BLOCKS_A_SHARD, MANIFEST, Manifest, Origin, Shard, shard_name

if TYPE_CHECKING:
    import pyarrow as pa


FEATURE = "feature:"  # prefix of the name of a feature's column
CONTEXTS = "contexts.jsonl"  # the table of contexts, in the folder of a run over them
CONTEXT = "context"  # the column of a run over contexts that says which context a draw is of


@dataclass(frozen=True, eq=False)
class Rows:
    """Draws as a store keeps them."""

    columns: dict[str, NDArray[Any]]  # log_q, log_p, log_u, log_base if known, feature:NAME
    items: Items = None

    def __len__(self) -> int:
        return len(self.columns["log_q"])


ITEMS = ("text", "token_ids", "item", "json")  # columns of a shard that hold its items
MAY_BE_FORGOTTEN, FORGOTTEN_SECONDS = 1 / 500, 3.0
"""Share of the shards, and seconds of drawing, that a killed process may have to draw again.

With 100,000 shards, writing the manifest after each would take longer than drawing.
"""


class Store:
    """The draws of a run, as rows on disk; `Draws.load` makes `Draws` of them.

    Make a new one with `Store.create`, or open an existing one with `Store.open`.

    Attributes
    ----------
    folder : Path
    manifest : Manifest
        Facts of the run.
    shards : dict
        Number of a shard -> `Shard`, for each shard that is written.

    Examples
    --------
    >>> import tempfile
    >>> import quasir as qr
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     qr.draw(lambda x: [0.0] * len(x), qr.Table({"a": 1.0}), 100, seed=0).save(folder)
    ...     len(qr.store.Store.open(folder).shards)
    1
    """

    of_contexts = False  # whether its draws are of several contexts

    def __init__(self, folder: Path, manifest: Manifest, shards: dict[int, Shard]) -> None:
        self.folder, self.manifest, self.shards = folder, manifest, shards
        self._unwritten, self._written, self._writing = 0, time.monotonic(), 0.0

    @classmethod
    def create(
        cls, folder: str | Path, seed: int, blocks_a_shard: int = BLOCKS_A_SHARD, **facts: Any
    ) -> Self:
        """Create an empty store; `facts` are further fields of its `Manifest`."""
        folder = Path(folder)
        if is_file(folder / MANIFEST):
            raise InputError(f"{folder} holds a run already: give another folder, or remove it.")
        make_folder(folder)
        manifest = Manifest(seed=seed, blocks_a_shard=blocks_a_shard, **facts)
        if not manifest.shards_at:
            make_folder(folder / "draws")
        store = cls(folder, manifest, {})
        store.write_manifest()
        return store

    @classmethod
    def open(cls, folder: str | Path) -> Self:
        """Open an existing store; no shard is read yet."""
        folder = Path(folder)
        path = folder / MANIFEST
        if not is_file(path):
            raise InputError(f"{shortened(folder)} is no run: it has no {MANIFEST}.")
        try:
            store = cls(folder, *Manifest.from_dict(json.loads(path.read_text())))
        except (ValueError, LookupError, TypeError, RecursionError, StoreError) as error:
            raise StoreError(
                f"{path} cannot be read ({escaped(str(error), 300)}): it was edited, damaged, or "
                "written by another version. Put an unchanged copy back, or begin a new run "
                "elsewhere."
            ) from error
        if (store.manifest.contexts is not None) != cls.of_contexts:
            over = "is a run over contexts: qr.open_run(folder) gives them one by one"
            said = "is no run over contexts" if cls.of_contexts else over
            raise InputError(f"{shortened(folder)} {said}.")
        return store

    @property
    def seed(self) -> int:
        """The seed of the run."""
        return self.manifest.seed

    @property
    def origin(self) -> Origin:
        """What its draws are made from."""
        return Origin(self.seed, self.manifest.recipe)

    @property
    def shard_size(self) -> int:
        """Draws in each shard but the last."""
        return BLOCK * self.manifest.blocks_a_shard

    @property
    def warnings(self) -> tuple[str, ...]:
        """Problems of the run that cannot be seen in its draws."""
        return self.manifest.warnings

    def how_to_draw(self, *options: str) -> str:
        """Say how to get draws that are absent or damaged."""
        if self.manifest.recipe is None:
            return "No recipe says how to draw them: save them again, into another folder."
        own_code = any(name.endswith(".py") for name in self.manifest.code)
        return f"`{command('draw', self.folder, *options, own_code=own_code)}` draws them."

    def _before_gap(self) -> range:
        for number in range(len(self.shards)):
            if number not in self.shards or self.shards[number].draws < self.shard_size:
                return range(number + (number in self.shards))  # after a short shard is a gap
        return range(len(self.shards))

    def __len__(self) -> int:
        """Return the number of draws before the first gap."""
        return sum(self.shards[number].draws for number in self._before_gap())

    def numbers(self) -> range:
        """Return the numbers of the shards before the first gap."""
        if not (numbers := self._before_gap()):
            raise StoreError(f"{self.folder} holds no draws yet. {self.how_to_draw()}")
        return numbers

    def counts(self) -> NDArray[np.int64]:
        """Return the draws of each context before the first gap; an ordinary run has one."""
        return np.array([len(self)], np.int64)

    @cached_property
    def location(self) -> Location:
        """Location of the shards: the run's folder, unless the run began with an address."""
        return location_of(self.manifest.shards_at or self.folder / "draws")

    def path(self, number: int) -> Path:
        """Return the path of a shard in the run's folder, written or not."""
        return self.folder / "draws" / shard_name(number)

    def draws_in(self, number: int, n: int) -> int:
        """Return how many draws shard `number` has in a run of n."""
        return max(0, min(self.shard_size, n - number * self.shard_size))

    def missing(self, n: int) -> list[int]:
        """Return the shards that a run of n draws lacks, or has with too few draws."""
        return [
            number
            for number in range(-(-n // self.shard_size))
            if number not in self.shards or self.shards[number].draws < self.draws_in(number, n)
        ]

    def add(self, number: int, rows: Rows) -> None:
        """Write a shard, whole or not at all, and then the manifest that lists it."""
        from quasir.store.shard_format import table_of

        table = table_of(rows, number * self.shard_size)
        self.shards[number] = write_shard(self.location, number, table, self.origin)
        self.write_manifest()

    def record(self, number: int, shard: Shard) -> bool:
        """List a shard that is written; return whether the file of the manifest has all of them."""
        self.shards[number] = shard
        self._unwritten += 1
        long_ago = time.monotonic() - self._written > FORGOTTEN_SECONDS + 10 * self._writing
        if long_ago or self._unwritten > MAY_BE_FORGOTTEN * len(self.shards):
            self.write_manifest()
        return not self._unwritten

    def settle(self) -> None:
        """Write the manifest if its file lacks recorded shards."""
        if self._unwritten:
            self.write_manifest()

    def change(self, **facts: Any) -> None:
        """Change fields of the manifest; `write_manifest` writes them."""
        self.manifest = replace(self.manifest, **facts)

    def write_manifest(self) -> None:
        """Write the manifest to its file."""
        start = time.monotonic()
        write_json(self.folder / MANIFEST, self.manifest.to_dict(self.shards, len(self)))
        self._unwritten, self._written = 0, time.monotonic()
        self._writing = self._written - start

    def damaged(self, marks: bool = False) -> list[int]:
        """Return the shards that are absent or changed; with `marks`, also those of other runs."""

        def is_damaged(number: int) -> bool:
            try:
                if marks:
                    self._table(number, [], check=False)
                return self.location.sha256(shard_name(number)) != self.shards[number].sha256
            except (OSError, ValueError, StoreError):
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
                f"estimate from them can be trusted. {self.how_to_draw('--repair')}",
                wrong,
            )

    def forget(self, numbers: Sequence[int]) -> None:
        """Remove shards from the manifest, so that they are drawn again."""
        for number in numbers:
            self.shards.pop(number, None)
        self.write_manifest()

    def rows(self, items: bool = True, check: bool = True) -> Rows:
        """Return the rows before the first gap; `check` compares every shard with its hash."""
        if check:
            self.check()
        return self._rows(self.numbers(), items, check=False)

    def rows_of(self, number: int, items: bool = True) -> Rows:
        """Return the rows of one shard; its pages are compared with their checksums."""
        return self._rows([number], items, check=True)

    def items_of(self, number: int, places: NDArray[np.intp]) -> Items:
        """Return the items of some rows of a shard, given by their places in it."""
        from quasir.store.shard_format import items_from

        return items_from(self._table(number, list(ITEMS), check=True).take(places))

    def _rows(self, numbers: Iterable[int], items: bool, check: bool) -> Rows:
        import pyarrow as pa

        from quasir.store.shard_format import rows_from

        names = [*self._number_columns(), *(ITEMS if items else ())]
        tables = [self._table(number, names, check) for number in numbers]
        return rows_from(pa.concat_tables(tables), items)

    def _table(self, number: int, names: list[str], check: bool) -> pa.Table:
        from quasir.store.shard_format import read, schema_of

        source = self.location.source(shard_name(number))
        schema = schema_of(source)
        self.check_origin(number, schema.metadata)
        return read(source, [name for name in schema.names if name in names], check)

    def check_origin(self, number: int, metadata: Any) -> None:
        """Raise an error if a file has not the mark of shard `number` of this run."""
        self.origin.check(metadata, number, self.how_to_draw("--repair"))

    def _number_columns(self) -> list[str]:
        from quasir.store.shard_format import schema_of

        there = schema_of(self.location.source(shard_name(0))).names
        return [name for name in there if name.startswith(("log_", FEATURE))]


def write_shard(location: Location, number: int, table: pa.Table, origin: Origin) -> Shard:
    """Write a table of draws as a shard, whole or not at all; return its entry in the manifest."""
    from quasir.store.shard_format import write

    marked, name = table.replace_schema_metadata(origin.mark(number)), shard_name(number)
    sha256 = location.write(name, lambda temporary: write(marked, temporary))
    return Shard(len(table), sha256, file=location.identity(name))


class Piece(NamedTuple):
    """Draws of one context: those from `start` on, before `stop`."""

    context: int
    start: int
    stop: int


def between(pieces: Sequence[Piece], start: int, stop: int) -> list[Piece]:
    """Return the pieces of some rows: those from `start` on, before `stop`."""
    found, first = [], 0
    for context, low, high in pieces:
        a, b = max(start - first, 0), min(stop - first, high - low)
        if a < b:
            found.append(Piece(context, low + a, low + b))
        first += high - low
    return found


def layout(rounds: Sequence[Sequence[int]], size: int) -> list[list[Piece]]:
    """Return the pieces of each shard, of `size` draws at most."""
    shards: list[list[Piece]] = []
    before = [0] * len(rounds[0]) if rounds else []
    for totals in rounds:
        shard: list[Piece] = []
        room = size
        for context, (start, stop) in enumerate(zip(before, totals, strict=True)):
            while start < stop:
                end = min(stop, start + room)
                shard.append(Piece(context, start, end))
                room -= end - start
                start = end
                if room == 0:
                    shards.append(shard)
                    shard, room = [], size
        if shard:
            shards.append(shard)
        before = list(totals)
    return shards


class ContextStore(Store):
    """The draws of a run over contexts: each shard holds pieces of several contexts."""

    of_contexts = True

    @property
    def rounds(self) -> list[list[int]]:
        """The draws of each context in all, after each round."""
        return self.manifest.rounds or []

    @cached_property
    def pieces(self) -> list[list[Piece]]:
        """The pieces of each shard of the rounds so far."""
        return layout(self.rounds, self.shard_size)

    def add_round(self, totals: Sequence[int]) -> None:
        """Begin a round, after which each context has so many draws in all."""
        self.change(rounds=[*self.rounds, list(totals)])
        self.__dict__.pop("pieces", None)
        self.write_manifest()

    def draws_in(self, number: int, n: int = 0) -> int:
        """Return how many draws a shard has; the rounds say so, not n."""
        return sum(piece.stop - piece.start for piece in self.pieces[number])

    def missing(self, n: int = 0) -> list[int]:
        """Return the shards of the rounds so far that are not drawn; the rounds count, not n."""
        return [
            number
            for number in range(len(self.pieces))
            if number not in self.shards or self.shards[number].draws != self.draws_in(number)
        ]

    def _before_gap(self) -> range:
        missing = self.missing()
        return range(missing[0] if missing else len(self.pieces))

    def __len__(self) -> int:
        return sum(self.draws_in(number) for number in self._before_gap())

    def counts(self) -> NDArray[np.int64]:
        """Return the draws of each context before the first gap."""
        counts = np.zeros(len(self.rounds[0]) if self.rounds else 0, dtype=np.int64)
        for number in self._before_gap():
            for piece in self.pieces[number]:
                counts[piece.context] += piece.stop - piece.start
        return counts

    def contexts_of(self, numbers: Sequence[int]) -> NDArray[np.int64]:
        """Return the context of each row of some shards, by the rounds."""
        pieces = [piece for number in numbers for piece in self.pieces[number]]
        sizes = [piece.stop - piece.start for piece in pieces]
        return np.repeat(np.array([piece.context for piece in pieces], np.int64), sizes)

    def rows_with(self, numbers: Sequence[int], items: bool = True) -> Rows:
        """Return the rows of some shards; their context column must be that of the rounds."""
        rows = self._rows(numbers, items, check=True)
        context = rows.columns.pop(CONTEXT)
        if not np.array_equal(context, self.contexts_of(numbers)):
            raise StoreError(
                f"the contexts of the draws in {self.folder} are not those of its manifest: one of "
                f"them was edited. {self.how_to_draw('--repair')}"
            )
        return rows

    def _number_columns(self) -> list[str]:
        return [*super()._number_columns(), CONTEXT]


def is_context_run(folder: Path) -> bool:
    """Return whether a folder holds a run over contexts."""
    return is_file(folder / MANIFEST) and is_file(folder / CONTEXTS)


def open_store(folder: Path) -> Store:
    """Open the draws of a run, over contexts or not; no shard is read yet."""
    return (ContextStore if is_context_run(folder) else Store).open(folder)
