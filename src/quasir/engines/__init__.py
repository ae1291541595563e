"""Who draws: this process, several on this machine, or a Ray cluster.

An engine gives out tasks, pieces of a run that are numbered, to workers that were each made ready
once. Draw i depends on the seed and on i only, so it does not matter who draws it, or how often.
"""

from quasir.engines.engine import Engine
from quasir.engines.local import Local
from quasir.engines.ray import Ray

__all__ = ["Engine", "Local", "Ray"]
