"""Engines: they draw in this process, in several on this machine, or on a Ray cluster.

An engine gives tasks, which are numbered pieces of a run, to workers that load their models once.
Draw i depends on the seed and on i only, so any worker may draw it, any number of times.
"""

from quasir.engines.engine import Engine
from quasir.engines.local import Local
from quasir.engines.ray import Ray

__all__ = ["Engine", "Local", "Ray"]
