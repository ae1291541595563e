"""Where a shard's draws come from: a mark in its file that no copy, rename or edit can fake unseen.

A shard knows its number, its seed, and the recipe of its run. So a shard that was copied over
another, or comes from another run, is refused by name even if the manifest was edited to match.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from quasir.core.formatting import shown
from quasir.errors import StoreError
from quasir.store.advice import drawing
from quasir.store.manifest import shard_name

__all__ = ["Origin"]

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

    def check(self, metadata: Mapping[bytes, bytes] | None, number: int, folder: Path) -> None:
        """Raise an error if a file is not shard `number` of this run.

        Raises
        ------
        StoreError
            The message names the shard, and what does not fit.
        """
        expected = json.loads(self.mark(number)[KEY])
        try:
            found = json.loads((metadata or {})[KEY])
        except (KeyError, ValueError):
            found = {}
        wrong = [
            f"its {name} is {shown(found.get(name))} and should be {shown(value)}"
            for name, value in expected.items()
            if found.get(name) != value
        ]
        if wrong:
            raise StoreError(
                f"{shard_name(number)} is not the shard that this run wrote there: "
                f"{'; '.join(wrong)}. It was copied from elsewhere or edited, and no estimate from "
                f"it can be trusted. {drawing(folder, '--repair')}",
                [number],
            )
