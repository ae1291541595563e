"""The errors quasir raises: all are children of `QuasirError`.

>>> import quasir as qr
>>> fair, biased = qr.Table({"h": 0.5, "t": 0.5}), qr.Table({"h": 0.9, "t": 0.1})
>>> try:
...     qr.QRS(fair, biased, beta=5).sample(1_000, seed=0, max_proposals=200)
... except qr.errors.BudgetExceeded as error:
...     print(len(error.samples) < 200)
True
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "BudgetExceeded",
    "FeatureError",
    "InfeasibleError",
    "InputError",
    "QuasirError",
    "QuasirWarning",
    "RatioExceededError",
    "RecipeError",
    "ScoreError",
    "ServerError",
    "StoreError",
    "TuningError",
    "UnreachableError",
    "WorkFailedError",
]


class QuasirError(Exception):
    """The root of every error of this package."""


class InputError(QuasirError, ValueError):
    """An argument that cannot be used; the message names it and the remedy."""


class ScoreError(QuasirError, ValueError):
    """A target or a proposal gave scores that no distribution can have."""


class RatioExceededError(QuasirError):
    """Rejection sampling met an item whose ratio P(x)/q(x) is above beta."""


class UnreachableError(QuasirError):
    """No beta that these draws can vouch for meets the request.

    Attributes
    ----------
    best : Certificate or None
        The closest certificate that the draws can vouch for.
    """

    def __init__(self, message: str, best: Any = None) -> None:
        super().__init__(message)
        self.best = best


class BudgetExceeded(QuasirError):
    """The budget of proposals ran out before all samples were found.

    Attributes
    ----------
    samples : Samples, or another result of the sampler
        The samples found so far; nothing is lost.
    """

    def __init__(self, message: str, samples: Any = None) -> None:
        super().__init__(message)
        self.samples = samples


class QuasirWarning(UserWarning):
    """A problem that the user should know about; the call goes on."""


class FeatureError(QuasirError, ValueError):
    """A feature's function failed or gave invalid values; the message names the feature."""


class InfeasibleError(QuasirError):
    """A request that no target can meet, or that too few draws support."""


class RecipeError(QuasirError, ValueError):
    """A recipe that cannot be run; the message gives the file and the line of each mistake."""


class ServerError(QuasirError):
    """A model's server that is gone, answers wrongly, or cannot be certified."""


class StoreError(QuasirError):
    """A run on disk that cannot be read or written.

    Attributes
    ----------
    damaged : list of int
        Numbers of the shards that are absent, truncated or edited.
    """

    def __init__(self, message: str, damaged: list[int] | None = None) -> None:
        super().__init__(message)
        self.damaged = damaged or []


class TuningError(QuasirError):
    """A proposal that could not be tuned, or could not be tuned further.

    Attributes
    ----------
    tuned : CausalLM or None
        The last good proposal, if there is one.
    """

    def __init__(self, message: str, tuned: Any = None) -> None:
        super().__init__(message)
        self.tuned = tuned


class WorkFailedError(QuasirError):
    """A task that failed repeatedly for the same reason; the results of others are kept.

    Attributes
    ----------
    number : int
        Number of the shard, or of the first block.
    """

    def __init__(self, message: str, number: int = 0) -> None:
        super().__init__(message)
        self.number = number
