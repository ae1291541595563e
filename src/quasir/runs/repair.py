"""Damaged shards of a run that goes on: refused, or drawn again."""

from __future__ import annotations

from quasir.core.progress import Reporter
from quasir.store import Store
from quasir.store.context_store import ContextStore

__all__ = ["check_or_forget"]


def check_or_forget(store: Store | ContextStore, repair: bool, reporter: Reporter) -> None:
    """Refuse damaged shards, or with `repair` forget them, so that they are drawn again."""
    if not repair:
        store.check()
        return
    damaged = store.damaged(marks=True)
    if damaged:
        reporter.say(f"drawing {len(damaged)} damaged shards again")
        store.forget(damaged)
