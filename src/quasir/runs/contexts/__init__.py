"""Runs over contexts: one recipe, many prompts, and a guarantee about all of them."""

from quasir.runs.contexts.on_disk import ContextRun, OneContext

__all__ = ["ContextRun", "OneContext"]
