"""Runs: a recipe, its draws on disk, and the results from them."""

from quasir.runs.contexts import ContextRun
from quasir.runs.on_disk import Run
from quasir.runs.opening import open_run
from quasir.runs.pipeline import run
from quasir.runs.sampling import Sampled, sample_run
from quasir.runs.streamed_sampling import sample_stored

__all__ = [
    "ContextRun",
    "Run",
    "Sampled",
    "open_run",
    "run",
    "sample_run",
    "sample_stored",
]
