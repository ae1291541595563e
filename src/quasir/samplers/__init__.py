"""Samplers: a family of algorithms in each file, one interface for all."""

from quasir.samplers.gibbs_with_gradients import Differentiable, GibbsWithGradients
from quasir.samplers.imh import IMH, RejectionChain
from quasir.samplers.incremental_qrs import IncrementalQRS
from quasir.samplers.qrs import QRS, RS, EmpiricalSupremum, RejectionControl
from quasir.samplers.results import (
    ApproximateSamples,
    ChainSamples,
    ClimbingSamples,
    Samples,
    SampleSet,
    WeightedSamples,
)
from quasir.samplers.rwmh import RWMH, Editor
from quasir.samplers.sir import SIR

__all__ = [
    "IMH",
    "QRS",
    "RS",
    "RWMH",
    "SIR",
    "ApproximateSamples",
    "ChainSamples",
    "ClimbingSamples",
    "Differentiable",
    "Editor",
    "EmpiricalSupremum",
    "GibbsWithGradients",
    "IncrementalQRS",
    "RejectionChain",
    "RejectionControl",
    "SampleSet",
    "Samples",
    "WeightedSamples",
]
