"""Runs: a recipe, its draws on disk, and the results from them."""

from quasir.runs.on_disk import Run, open_run
from quasir.runs.pipeline import run
from quasir.runs.sampling import Sampled, sample_run
from quasir.runs.streamed_sampling import sample_stored

__all__ = [
    "Run",
    "Sampled",
    "open_run",
    "run",
    "sample_run",
    "sample_stored",
]
