"""Samplers: one algorithm a file, one interface."""

from quasir.samplers.incremental import IncrementalQRS
from quasir.samplers.qrs import QRS
from quasir.samplers.rejection import RS
from quasir.samplers.samples import Samples

__all__ = ["QRS", "RS", "IncrementalQRS", "Samples"]
