"""Runs: a recipe, its draws on disk, and the results from them."""

from quasir.runs.pipeline import run
from quasir.runs.sampling import Sampled, sample_run
from quasir.runs.stored_run import Run, RunContext, open_run

__all__ = ["Run", "RunContext", "Sampled", "open_run", "run", "sample_run"]
