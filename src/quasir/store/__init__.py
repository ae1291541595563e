"""Draws on disk: shards of Parquet, whole or absent, and a manifest with their hashes.

A store is a folder with `manifest.json` and `draws/shard-00000.parquet`, ...; draw i depends on
the seed and on i only, so a run that was killed continues where it stopped.
"""

from quasir.store.control import locked
from quasir.store.manifest import MANIFEST, Shard
from quasir.store.store import FEATURE, Rows, Store

__all__ = ["FEATURE", "MANIFEST", "Rows", "Shard", "Store", "locked"]
