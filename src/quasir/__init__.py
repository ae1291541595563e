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

from quasir import engines, errors, features, guides, metrics, samplers
from quasir.certificates import Certificate, Curve, Estimate, tradeoff
from quasir.constraints.constrain import Constrained, constrain
from quasir.core import __version__
from quasir.core.progress import Reporter
from quasir.core.types import Batch, Proposal, Target
from quasir.draws.draw import draw
from quasir.draws.draws import Draws
from quasir.features.classifier import reward_model
from quasir.proposals import Mixture, Table, from_scipy
from quasir.samplers import (
    IMH,
    QRS,
    RS,
    RWMH,
    SIR,
    EmpiricalSupremum,
    GibbsWithGradients,
    IncrementalQRS,
    RejectionChain,
    RejectionControl,
)
from quasir.targets import Feature, Product, lattice, reward, tilt

if TYPE_CHECKING:
    from quasir import text, tuning
    from quasir.runs import Run, open_run, run
    from quasir.text import choose, propose

__all__ = [
    "IMH",
    "QRS",
    "RS",
    "RWMH",
    "SIR",
    "Batch",
    "Certificate",
    "Constrained",
    "Curve",
    "Draws",
    "EmpiricalSupremum",
    "Estimate",
    "Feature",
    "GibbsWithGradients",
    "IncrementalQRS",
    "Mixture",
    "Product",
    "Proposal",
    "RejectionChain",
    "RejectionControl",
    "Reporter",
    "Run",
    "Table",
    "Target",
    "__version__",
    "choose",
    "constrain",
    "draw",
    "engines",
    "errors",
    "features",
    "from_scipy",
    "guides",
    "lattice",
    "metrics",
    "open_run",
    "propose",
    "reward",
    "reward_model",
    "run",
    "samplers",
    "text",
    "tilt",
    "tradeoff",
    "tuning",
]


def __getattr__(name: str) -> Any:
    """Import what is heavy when it is first asked for: language models, and runs."""
    if name in ("Run", "open_run", "run"):
        return getattr(importlib.import_module("quasir.runs"), name)
    if name in ("choose", "propose", "text", "tuning"):
        try:
            module = importlib.import_module(f"quasir.{name if name == 'tuning' else 'text'}")
        except ModuleNotFoundError as error:
            raise errors.InputError(
                f"quasir.{name} needs {error.name}: pip install '.[text]' in a clone."
            ) from error
        return getattr(module, name) if name in ("choose", "propose") else module
    raise AttributeError(f"module 'quasir' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the public names, those that are not imported yet included."""
    return __all__
