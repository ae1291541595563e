"""Samplers: one algorithm a file, one interface."""

from quasir.samplers.empirical_supremum import Climbed, EmpiricalSupremum
from quasir.samplers.gibbs_with_gradients import Differentiable, Gibbs
from quasir.samplers.imh import IMH
from quasir.samplers.incremental_qrs import IncrementalQRS
from quasir.samplers.qrs import QRS
from quasir.samplers.rejection_chain import RejectionChain
from quasir.samplers.rejection_control import RejectionControl, Weighted
from quasir.samplers.results import Approximate, Chain
from quasir.samplers.rs import RS
from quasir.samplers.rwmh import RWMH, Editor
from quasir.samplers.samples import Samples
from quasir.samplers.sir import SIR

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
