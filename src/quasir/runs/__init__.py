"""Runs: a recipe, its draws on disk, and what comes of them."""

from quasir.runs.draw_shards import draw_into
from quasir.runs.on_disk import Run, open_run
from quasir.runs.pipeline import run
from quasir.runs.sampling import Sampled, checked, sample_run
from quasir.runs.streamed_sampling import sample_stored

__all__ = [
    "Run",
    "Sampled",
    "checked",
    "draw_into",
    "open_run",
    "run",
    "sample_run",
    "sample_stored",
]
