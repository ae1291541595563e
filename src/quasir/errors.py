"""The errors quasir raises: all are children of `QuasirError`."""

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
    """The root of every error of this package.

    Examples
    --------
    >>> import quasir as qr
    >>> try:
    ...     qr.Table({})
    ... except qr.errors.QuasirError as error:
    ...     print(type(error).__name__)
    InputError
    """


class InputError(QuasirError, ValueError):
    """An argument that cannot be used; the message names it and the remedy.

    Examples
    --------
    >>> import quasir as qr
    >>> qr.Table({"a": -1.0})
    Traceback (most recent call last):
    quasir.errors.InputError: ...
    """


class ScoreError(QuasirError, ValueError):
    """A target or a proposal gave scores that no distribution can have.

    Examples
    --------
    >>> import numpy as np
    >>> import quasir as qr
    >>> coin = qr.Table({"heads": 0.5, "tails": 0.5})
    >>> qr.draw(lambda items: np.full(len(items), np.nan), coin, 10, seed=0)
    Traceback (most recent call last):
    quasir.errors.ScoreError: ...
    """


class RatioExceededError(QuasirError):
    """Rejection sampling met an item whose ratio P(x)/q(x) is above beta.

    Examples
    --------
    >>> import quasir as qr
    >>> fair, biased = qr.Table({"h": 0.5, "t": 0.5}), qr.Table({"h": 0.9, "t": 0.1})
    >>> qr.RS(fair, biased, beta=2.0).sample(100, seed=0)
    Traceback (most recent call last):
    quasir.errors.RatioExceededError: ...
    """


class UnreachableError(QuasirError):
    """No beta that these draws can vouch for meets the request.

    Attributes
    ----------
    best : Certificate or None
        The closest certificate that the draws can vouch for.

    Examples
    --------
    >>> import quasir as qr
    >>> from scipy import stats
    >>> p, q = qr.from_scipy(stats.poisson(11)), qr.from_scipy(stats.poisson(10))
    >>> curve = qr.tradeoff(qr.draw(p, q, 1_000, seed=0))
    >>> try:
    ...     curve.at(tvd=0)
    ... except qr.errors.UnreachableError as error:
    ...     print(error.best is not None)
    True
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

    Examples
    --------
    >>> import quasir as qr
    >>> fair, biased = qr.Table({"h": 0.5, "t": 0.5}), qr.Table({"h": 0.9, "t": 0.1})
    >>> try:
    ...     qr.QRS(fair, biased, beta=5).sample(1_000, seed=0, max_proposals=200)
    ... except qr.errors.BudgetExceeded as error:
    ...     print(len(error.samples) < 200)
    True
    """

    def __init__(self, message: str, samples: Any = None) -> None:
        super().__init__(message)
        self.samples = samples


class QuasirWarning(UserWarning):
    """A problem that the user should know about; the call goes on.

    Examples
    --------
    >>> import quasir as qr
    >>> issubclass(qr.errors.QuasirWarning, UserWarning)
    True
    """


class FeatureError(QuasirError, ValueError):
    """A feature's function failed or gave invalid values; the message names the feature.

    Examples
    --------
    >>> import quasir as qr
    >>> qr.Feature("length", len, boolean=True)(["two"])
    Traceback (most recent call last):
    quasir.errors.FeatureError: ...
    """


class InfeasibleError(QuasirError):
    """A request that no target can meet, or that too few draws support.

    Examples
    --------
    >>> import quasir as qr
    >>> coin = qr.Table({"heads": 0.5, "tails": 0.5})
    >>> qr.constrain(coin, {qr.features.contains("edge"): 0.5}, n=1_000, seed=0)
    Traceback (most recent call last):
    quasir.errors.InfeasibleError: ...
    """


class RecipeError(QuasirError, ValueError):
    """A recipe that cannot be run; the message gives the file and the line of each mistake.

    Examples
    --------
    >>> import quasir as qr
    >>> qr.run({"base": {"poisson": -1}})
    Traceback (most recent call last):
    quasir.errors.RecipeError: ...
    """


class ServerError(QuasirError):
    """A model's server that is gone, answers wrongly, or cannot be certified.

    Examples
    --------
    >>> import quasir as qr
    >>> issubclass(qr.errors.ServerError, qr.errors.QuasirError)
    True
    """


class StoreError(QuasirError):
    """A run on disk that cannot be read or written.

    Attributes
    ----------
    damaged : list of int
        Numbers of the shards that are absent, truncated or edited.

    Examples
    --------
    >>> import quasir as qr
    >>> qr.errors.StoreError("shard 3 is truncated", damaged=[3]).damaged
    [3]
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

    Examples
    --------
    >>> import quasir as qr
    >>> qr.errors.TuningError("no draw meets the target").tuned is None
    True
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

    Examples
    --------
    >>> import quasir as qr
    >>> qr.errors.WorkFailedError("shard 3 failed three times", number=3).number
    3
    """

    def __init__(self, message: str, number: int = 0) -> None:
        super().__init__(message)
        self.number = number
