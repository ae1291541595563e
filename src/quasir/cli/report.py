"""`quasir report`: write the page of a run again."""

from __future__ import annotations

import json as jsonlib

from quasir.cli.bar import Bars
from quasir.cli.contexts import refuse_context, report_contexts
from quasir.cli.options import ContextNumber, Json, RunFolder, Seed
from quasir.runs.begun import check_seed
from quasir.runs.opening import is_context_run
from quasir.runs.pipeline import finish
from quasir.store import Store, locked

__all__ = ["report"]


def report(
    run: RunFolder, context: ContextNumber = None, json: Json = False, seed: Seed = None
) -> None:
    """Write the report of a run again.

    Uses the stored draws; no model is loaded. With --context, it writes the page of one context.

    Example: quasir report runs/scientists
    """
    if is_context_run(run):
        path = report_contexts(run, context, seed)
        print(jsonlib.dumps({"report": str(path)}) if json else f"open {path} in a browser")
        return
    refuse_context(run, context)
    store = Store.open(run)
    check_seed(store, seed)
    store.numbers()  # without draws there is nothing to report, and nothing to lock
    with locked(run):
        finish(run, Bars())
    path = run / "report.html"
    print(jsonlib.dumps({"report": str(path)}) if json else f"open {path} in a browser")
