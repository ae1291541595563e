"""quasir: i.i.d. samples from a distribution you can only score, with a certificate.

>>> import quasir as qr
>>> from scipy import stats
>>> target, proposal = qr.from_scipy(stats.poisson(11)), qr.from_scipy(stats.poisson(10))
>>> curve = qr.tradeoff(qr.draw(target, proposal, 100_000, seed=0))
>>> samples = qr.QRS(target, proposal, log_beta=curve.at(tvd=0.01).log_beta).sample(100, seed=1)
>>> len(samples)
100
"""

import importlib
from typing import TYPE_CHECKING, Any

from quasir import engines, features, guides, metrics
from quasir.certificates.certificate import Certificate
from quasir.certificates.check import Check
from quasir.certificates.curve import Curve, tradeoff
from quasir.constraints.constrain import constrain
from quasir.constraints.constrained import Constrained
from quasir.core import __version__
from quasir.core.progress import Reporter
from quasir.core.types import Batch, Proposal, Scorer, Target
from quasir.draws.draw import draw
from quasir.draws.draws import Draws
from quasir.errors import (
    BudgetExceeded,
    FeatureError,
    InfeasibleError,
    InputError,
    QuasirError,
    QuasirWarning,
    RatioExceededError,
    RecipeError,
    ScoreError,
    StoreError,
    TuningError,
    UnreachableError,
    WorkFailedError,
)
from quasir.estimation.estimate import Estimate
from quasir.estimation.guarantee import Guarantee, Guarantees
from quasir.estimation.quantities import Moment
from quasir.features import Feature
from quasir.proposals import Mixture, Table, from_scipy
from quasir.proposals.scipy_stats import ScipyDistribution
from quasir.samplers import (
    IMH,
    QRS,
    RS,
    RWMH,
    SIR,
    ApproximateSamples,
    ChainSamples,
    ClimbingSamples,
    Differentiable,
    Editor,
    EmpiricalSupremum,
    GibbsWithGradients,
    IncrementalQRS,
    RejectionChain,
    RejectionControl,
    Samples,
    SampleSet,
    WeightedSamples,
)
from quasir.store import Store
from quasir.targets import lattice
from quasir.targets.factors import Factor, Tilt, reward, tilt
from quasir.targets.product import Conditional, Product, Scores

if TYPE_CHECKING:
    from quasir import text, tuning
    from quasir.runs import ContextRun, Run, open_run, run

__all__ = [
    "IMH",
    "QRS",
    "RS",
    "RWMH",
    "SIR",
    "ApproximateSamples",
    "Batch",
    "BudgetExceeded",
    "Certificate",
    "ChainSamples",
    "Check",
    "ClimbingSamples",
    "Conditional",
    "Constrained",
    "ContextRun",
    "Curve",
    "Differentiable",
    "Draws",
    "Editor",
    "EmpiricalSupremum",
    "Estimate",
    "Factor",
    "Feature",
    "FeatureError",
    "GibbsWithGradients",
    "Guarantee",
    "Guarantees",
    "IncrementalQRS",
    "InfeasibleError",
    "InputError",
    "Mixture",
    "Moment",
    "Product",
    "Proposal",
    "QuasirError",
    "QuasirWarning",
    "RatioExceededError",
    "RecipeError",
    "RejectionChain",
    "RejectionControl",
    "Reporter",
    "Run",
    "SampleSet",
    "Samples",
    "ScipyDistribution",
    "ScoreError",
    "Scorer",
    "Scores",
    "Store",
    "StoreError",
    "Table",
    "Target",
    "Tilt",
    "TuningError",
    "UnreachableError",
    "WeightedSamples",
    "WorkFailedError",
    "__version__",
    "constrain",
    "draw",
    "engines",
    "features",
    "from_scipy",
    "guides",
    "lattice",
    "metrics",
    "open_run",
    "reward",
    "run",
    "text",
    "tilt",
    "tradeoff",
    "tuning",
]


def __getattr__(name: str) -> Any:
    """Import what is heavy when it is first asked for: language models, and runs."""
    if name in ("ContextRun", "Run", "open_run", "run"):
        return getattr(importlib.import_module("quasir.runs"), name)
    if name in ("text", "tuning"):
        try:
            return importlib.import_module(f"quasir.{name}")
        except ModuleNotFoundError as error:
            raise InputError(
                f"quasir.{name} needs {error.name}: pip install 'quasir[text]'."
            ) from error
    raise AttributeError(f"module 'quasir' has no attribute {name!r}")
