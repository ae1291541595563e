"""Draws on disk: shards of Parquet, whole or absent, and the manifest that vouches for them.

A store is a folder with `manifest.json` and `draws/shard-00000.parquet`, ...; draw i depends on
the seed and on i only, so a run that was killed goes on where it stopped.
"""

from quasir.store.control import locked
from quasir.store.manifest import MANIFEST, Manifest, Shard
from quasir.store.rows import FEATURE, Rows
from quasir.store.store import Store

__all__ = ["FEATURE", "MANIFEST", "Manifest", "Rows", "Shard", "Store", "locked"]
