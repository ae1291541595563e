"""Recipes of runs that an earlier version began."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from quasir.store.manifest import MANIFEST

__all__ = ["is_earlier", "migrated"]


def is_earlier(folder: Path) -> bool:
    """Return whether the folder is a run of format 1, which wrote fitted values under lambda."""
    try:
        manifest = json.loads((folder / MANIFEST).read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(manifest, dict) and manifest.get("format") == 1


def migrated(value: dict[str, Any]) -> dict[str, Any]:
    """Return a recipe's content with the lambda of each wish under ``fitted``.

    Recipes of format 1 wrote what was fitted for a wish under ``lambda``, among the tilts that were
    given.

    Examples
    --------
    >>> migrated({"want": {"a": 0.5}, "lambda": {"b": 2.0, "a": 1.5}})
    {'want': {'a': 0.5}, 'lambda': {'b': 2.0}, 'fitted': {'a': 1.5}}
    """
    want, tilts = value.get("want"), value.get("lambda")
    if not isinstance(want, dict) or not isinstance(tilts, dict) or "fitted" in value:
        return value
    fitted = {name: number for name, number in tilts.items() if name in want}
    if not fitted:
        return value
    given = {name: number for name, number in tilts.items() if name not in want}
    return {**value, "lambda": given, "fitted": fitted}
