"""Checks of the numbers that a user gives. Beta becomes log beta, since e^800 is not a float."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from quasir.errors import InputError

__all__ = ["as_log_beta", "as_rate", "check_count", "check_optional_count", "exp_or_inf", "number"]


def number(name: str, value: Any) -> float:
    """Return a number as a float; raise `InputError` for anything else, NaN included."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.number)):
        raise InputError(f"{name} is {value!r}, but must be a number.")
    if math.isnan(value):
        raise InputError(f"{name} is NaN, but must be a number.")
    return float(value)


def check_count(name: str, n: Any) -> None:
    """Raise `InputError` unless n is a whole number above 0."""
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n <= 0:
        raise InputError(f"{name} is {n!r}, but must be a whole number above 0.")


def check_optional_count(name: str, n: Any) -> None:
    """Refuse what is neither None nor a positive integer."""
    if n is not None:
        check_count(name, n)


def as_rate(rate: Any) -> float:
    """Return an acceptance rate as a float; raise `InputError` unless it is in (0, 1]."""
    value = number("acceptance_rate", rate)
    if not 0 < value <= 1:
        raise InputError(
            f"acceptance_rate is {rate!r}, but must be above 0 and at most 1: "
            "the share of proposals to keep."
        )
    return value


def as_log_beta(beta: float | None = None, log_beta: float | None = None) -> float:
    """Return log beta, given exactly one of beta and log beta.

    Examples
    --------
    >>> as_log_beta(beta=1.0), as_log_beta(log_beta=800)
    (0.0, 800.0)
    """
    if (beta is None) == (log_beta is None):
        raise InputError(
            f"beta={beta!r} and log_beta={log_beta!r} were given: give exactly one of them."
        )
    if log_beta is not None:
        level = number("log_beta", log_beta)
        if math.isinf(level):
            raise InputError(f"log_beta is {log_beta!r}, but must be finite.")
        return level
    level = number("beta", beta)
    if level <= 0 or level == math.inf:
        raise InputError(
            f"beta is {beta!r}, but must be above 0 and finite (Algorithm 1). "
            "If it is outside a float's range, give log_beta instead."
        )
    return math.log(level)


def exp_or_inf(x: float) -> float:
    """Return e^x, or infinity if that is too large for a float.

    Examples
    --------
    >>> exp_or_inf(0.0), exp_or_inf(800.0)
    (1.0, inf)
    """
    return math.exp(x) if x < 709.7 else math.inf
