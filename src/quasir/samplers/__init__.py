"""Samplers: one algorithm a file, one interface."""

from quasir.samplers.approximate import Approximate, Chain
from quasir.samplers.gwg import Differentiable, Gibbs
from quasir.samplers.imh import IMH
from quasir.samplers.incremental import IncrementalQRS
from quasir.samplers.qrs import QRS
from quasir.samplers.rejection import RS
from quasir.samplers.rejection_chain import RejectionChain
from quasir.samplers.rejection_control import RejectionControl, Weighted
from quasir.samplers.resampling import SIR
from quasir.samplers.rwmh import RWMH, Editor
from quasir.samplers.samples import Samples
from quasir.samplers.supremum import Climbed, EmpiricalSupremum

__all__ = [
    "IMH",
    "QRS",
    "RS",
    "RWMH",
    "SIR",
    "Approximate",
    "Chain",
    "Climbed",
    "Differentiable",
    "Editor",
    "EmpiricalSupremum",
    "Gibbs",
    "IncrementalQRS",
    "RejectionChain",
    "RejectionControl",
    "Samples",
    "Weighted",
]
