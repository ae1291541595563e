"""A run: a recipe, its draws on disk, and what came of them."""

from quasir.runs.draw_shards import draw_into
from quasir.runs.folder import Run
from quasir.runs.sampling import Sampled, checked, sample_run
from quasir.runs.streamed_sampling import sample_stored

__all__ = ["Run", "Sampled", "checked", "draw_into", "sample_run", "sample_stored"]
