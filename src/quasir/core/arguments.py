"""Checks of the numbers that a user gives. Beta becomes log beta, since e^800 is not a float."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quasir.core.formatting import short_repr
from quasir.core.types import Array
from quasir.errors import InputError, QuasirError

MOST = 2**42  # largest count: the random streams number 2**32 blocks of 2**10 draws
MOST_AT_ALL = 2**63 - 1  # largest budget or batch size: an int64, and ``sys.maxsize``
LARGEST_LOG = 1e9
"""Largest size of log beta: floats beyond it differ by more than 1e-7, and so do estimates."""
LARGEST = 1e150
"""Largest size of a number that is averaged: the square of a larger one may be infinite."""


def number(name: str, value: Any, *, nan: bool = False) -> float:
    """Return a number as a float; raise `InputError` for anything else, NaN included by default."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    real = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    try:
        with np.errstate(over="ignore"):
            result = float(value) if real else math.nan
    except OverflowError:
        real, result = False, math.inf
    if not real or (math.isnan(result) and not nan):
        raise InputError(f"{name} is {short_repr(value)}, but must be a number.")
    return result


def reals(
    name: str, values: Any, error: type[QuasirError] = InputError, *, ndim: int | None = None
) -> NDArray[Any]:
    """Return numbers as an array of booleans or float64; texts, objects and masks are errors."""
    try:
        array = np.asarray(values)
        kind: str = "masked" if isinstance(values, np.ma.MaskedArray) else array.dtype.kind
    except Exception:  # such as rows of different lengths
        kind = "none"
    if kind not in "biuf":
        raise error(f"{name} are {short_repr(values, 40)}, but must be numbers.")
    if ndim is not None and array.ndim != ndim:
        raise error(f"{name} have shape {array.shape}, but must have {ndim} dimension(s).")
    if array.dtype != bool:
        with np.errstate(over="ignore"):
            array = array.astype(np.float64, copy=False)
    return array


def check_count(name: str, n: Any, *, least: int = 1, most: int = MOST) -> int:
    """Return a whole number above 0 as an int; raise `InputError` for anything else."""
    whole = isinstance(n, (int, np.integer)) and not isinstance(n, bool)
    if not whole or not least <= n <= most:
        bound = "above 0" if least == 1 else f"of at least {least}"
        bound += f", and at most {most:,}" * bool(whole and n > most)
        raise InputError(f"{name} is {short_repr(n)}, but must be a whole number {bound}.")
    return int(n)


def check_optional_count(name: str, n: Any, *, most: int = MOST_AT_ALL) -> int | None:
    """Refuse what is neither None nor a positive integer."""
    return None if n is None else check_count(name, n, most=most)


def check_request(n: Any, rng: Any) -> int:
    """Refuse a request for draws without a number of them or without a generator."""
    if not isinstance(rng, np.random.Generator):
        raise InputError(
            f"rng is {short_repr(rng)}, but must be a numpy Generator: np.random.default_rng(seed)."
        )
    return check_count("n", n, least=0)


def is_iterable(value: Any) -> bool:
    """Return whether a value is iterable; a 0-d array is not."""
    try:
        iter(value)
    except Exception:
        return False
    return True


def check_bool(name: str, value: Any) -> None:
    """Refuse what is neither True nor False."""
    if not isinstance(value, (bool, np.bool_)):
        raise InputError(f"{name} is {short_repr(value)}, but must be True or False.")


def check_callable(name: str, value: Any, what: str) -> None:
    """Refuse what cannot be called."""
    if not callable(value):
        raise InputError(f"{name} is {short_repr(value)}, but must be {what}.")


def as_rate(rate: Any) -> float:
    """Return an acceptance rate as a float; raise `InputError` unless it is in (0, 1]."""
    value = number("acceptance_rate", rate)
    if not 0 < value <= 1:
        raise InputError(
            f"acceptance_rate is {short_repr(rate)}, but must be above 0 and at most 1."
        )
    return value


def as_log_beta(beta: float | None = None, log_beta: float | None = None) -> float:
    """Return log beta, given exactly one of beta and log beta."""
    if (beta is None) == (log_beta is None):
        raise InputError("give exactly one of beta and log_beta.")
    if log_beta is not None:
        level = number("log_beta", log_beta)
        if abs(level) > LARGEST_LOG:
            raise InputError(
                f"log_beta is {short_repr(log_beta)}, but its size must be at most {LARGEST_LOG:g}."
            )
        return level
    level = number("beta", beta)
    if not 0 < level < math.inf:
        raise InputError(
            f"beta is {short_repr(beta)}, but must be above 0 and finite (Algorithm 1). "
            "If it is outside a float's range, give log_beta instead."
        )
    return math.log(level)


def as_log_betas(betas: Any, log_betas: Any) -> Array:
    """Return the levels of a curve, given betas or log betas, as log betas."""
    if betas is not None and log_betas is not None:
        raise InputError("give betas or log_betas, not both.")
    name, given = ("betas", betas) if betas is not None else ("log_betas", log_betas)
    levels = np.atleast_1d(reals(name, given)).ravel()
    usable = len(levels) > 0 and levels.dtype != bool
    if usable and name == "betas":
        with np.errstate(divide="ignore", invalid="ignore"):
            levels = np.log(levels)
    if not usable or not (np.abs(levels) <= LARGEST_LOG).all():
        raise InputError(
            f"{name} are {short_repr(given)}, but must be one or more finite numbers, and betas "
            "above 0. Betas out of a float's range can be given as log_betas."
        )
    return levels


def exp_or_inf(x: float) -> float:
    """Return e^x, or infinity if that is too large for a float."""
    return math.exp(x) if x < 709.7 else math.inf
