"""`quasir report`: write the page of a run again."""

from __future__ import annotations

import json as jsonlib

from quasir.cli.options import ContextNumber, Json, RunFolder, opened
from quasir.runs.outputs import write_context_page
from quasir.runs.pipeline import finish
from quasir.store import locked


def report(run: RunFolder, context: ContextNumber = None, json: Json = False) -> None:
    """Write the report of a run again.

    Uses the stored draws; no model is loaded. With --context, it writes the page of one context.

    Example: quasir report runs/scientists
    """
    made = opened(run, context)
    made.store.numbers()  # without draws there is nothing to report, and nothing to lock
    with locked(run):
        path = finish(made).report if context is None else write_context_page(made[context])
    print(jsonlib.dumps({"report": str(path)}) if json else f"open {path} in a browser")
