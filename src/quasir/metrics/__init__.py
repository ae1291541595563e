"""Metrics of samples and of Markov chains.

`self_bleu`, `distinct`, `unique_share` and `perplexity` describe a set of samples; `over_runs`
gives their mean and spread over repeated runs. `moments` estimates means, with standard errors.
`autocorrelation_time` and `ess` are for chains. `to_arviz` converts chains, draws and samples for
ArviZ.
"""

from quasir.metrics.chains import autocorrelation_time, ess, to_arviz
from quasir.metrics.diversity import distinct, self_bleu, unique_share
from quasir.metrics.moments import Runs, moments, over_runs, perplexity

__all__ = [
    "Runs",
    "autocorrelation_time",
    "distinct",
    "ess",
    "moments",
    "over_runs",
    "perplexity",
    "self_bleu",
    "to_arviz",
    "unique_share",
]
