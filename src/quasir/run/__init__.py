"""A run: a recipe, its draws on disk, and what came of them."""

from quasir.run.drawing import draw_into
from quasir.run.folder import Run
from quasir.run.sampling import Sampled, checked, sample_run
from quasir.run.stored import sample_stored

__all__ = ["Run", "Sampled", "checked", "draw_into", "sample_run", "sample_stored"]
