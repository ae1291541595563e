"""The table of contexts: what is known about each before anything is drawn."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from quasir.core.files import write_text
from quasir.core.streams import context_seed
from quasir.draws.ceiling import RatioBounds
from quasir.draws.support import BaseCheck
from quasir.errors import StoreError
from quasir.recipes.placeholders import Context

__all__ = ["CONTEXTS", "Entry", "hash_of_table", "read_table", "write_table"]

CONTEXTS = "contexts.jsonl"


@dataclass(frozen=True)
class Entry:
    """One context of a run.

    Attributes
    ----------
    context : Context
    seed : int
        The seed of its draws; it depends on the run's seed, its place and its text only.
    known : RatioBounds
        What is known about its ratios.
    warnings : tuple of str
        Problems that cannot be seen in its draws.
    base_check : BaseCheck or None
    fitted : dict
        Its own lambdas, where each context has its own.
    failed : str or None
        Why nothing is drawn of it.
    """

    context: Context
    seed: int
    known: RatioBounds = field(default_factory=RatioBounds)
    warnings: tuple[str, ...] = ()
    base_check: BaseCheck | None = None
    fitted: dict[str, float] = field(default_factory=dict)
    failed: str | None = None

    @classmethod
    def of(cls, context: Context, seed: int) -> Entry:
        """Return a context about which nothing is known yet, in a run with this seed."""
        return cls(context, context_seed(seed, context.place, context.key))

    def without(self, why: str) -> Entry:
        """Return it as a context of which nothing is drawn."""
        return replace(self, failed=why)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready dictionary."""
        check = self.base_check
        optional = {
            "warnings": list(self.warnings) or None,
            "base_check": None if check is None else check.to_dict(),
            "fitted": self.fitted or None,
            "failed": self.failed,
        }
        return {
            "context": self.context.place,
            "fields": dict(self.context.fields),
            "seed": str(self.seed),
            "known": self.known.to_dict(),
            **{name: value for name, value in optional.items() if value is not None},
        }

    @classmethod
    def from_dict(cls, content: dict[str, Any], where: str) -> Entry:
        """Read what `to_dict` wrote."""
        return cls(
            context=Context(int(content["context"]), dict(content["fields"]), where),
            seed=int(content["seed"]),
            known=RatioBounds.from_dict(content["known"]),
            warnings=tuple(content.get("warnings", ())),
            base_check=BaseCheck.from_dict(content.get("base_check")),
            fitted={str(k): float(v) for k, v in content.get("fitted", {}).items()},
            failed=content.get("failed"),
        )


def write_table(folder: Path, entries: Sequence[Entry]) -> str:
    """Write `contexts.jsonl`, a line for each context; return its hash."""
    text = "".join(json.dumps(entry.to_dict(), ensure_ascii=True) + "\n" for entry in entries)
    write_text(folder / CONTEXTS, text)
    return hash_of_table(text)


def hash_of_table(text: str) -> str:
    """Return the hash of a table's text."""
    return hashlib.sha256(text.encode()).hexdigest()


def read_table(folder: Path, sha256: str) -> list[Entry]:
    """Read `contexts.jsonl`, whose hash the manifest has."""
    path = folder / CONTEXTS
    try:
        text = path.read_bytes().decode()
        if hash_of_table(text) != sha256:
            raise StoreError(
                f"{path} is not the table of contexts that the draws beside it were made with: it "
                "was changed by hand. Put it back, or begin another run with --out."
            )
        return [
            Entry.from_dict(json.loads(line), f"{path}, line {number}")
            for number, line in enumerate(text.splitlines(), start=1)
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreError(f"{path} cannot be read: {error}.") from error
