"""`quasir report`: write the page of a run again."""

from __future__ import annotations

import json as jsonlib

from quasir.cli.bar import Bars
from quasir.cli.options import Json, RunFolder, Seed
from quasir.cli.shared import existing
from quasir.runs.begun import check_seed
from quasir.runs.pipeline import finish
from quasir.store import Store, locked

__all__ = ["report"]


def report(run: RunFolder, json: Json = False, seed: Seed = None) -> None:
    """Write the report of a run again.

    Uses the stored draws; no model is loaded.

    Example: quasir report runs/scientists
    """
    with locked(existing(run)):
        check_seed(Store.open(run), seed)
        finish(run, Bars())
    path = run / "report.html"
    print(jsonlib.dumps({"report": str(path)}) if json else f"open {path} in a browser")
