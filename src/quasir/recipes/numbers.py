"""The numbers of a recipe: no texts, no booleans, nothing that a float or an array cannot hold."""

from __future__ import annotations

import math
import re
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from quasir.core.streams import LARGEST_SEED

__all__ = ["Count", "Finite", "Flag", "Fraction", "Positive", "SeedNumber", "Share"]

EXPONENT = re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d{1,4}")
"""Numbers that YAML reads as a text: it wants a point and a sign, as in 1.0e+5."""
LARGEST_COUNT = 10**12
LARGEST_FLOAT_BITS = 1023


def _whole(value: Any) -> Any:
    """Return an integer; refuse booleans and texts, also those that look like one."""
    if isinstance(value, str) and EXPONENT.fullmatch(value):
        number = float(value)
        if number.is_integer() and abs(number) <= LARGEST_COUNT:
            mantissa, exponent = f"{number:e}".split("e")
            short = f"{float(mantissa)!r}e{int(exponent):+d}"
            raise ValueError(f"YAML reads {value} as a text: write {int(number)} or {short}")
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError("must be an integer, in digits and without quotes")
    if isinstance(value, float):
        if not value.is_integer():
            raise ValueError("must be an integer")
        return int(value)
    return value


def _real(value: Any) -> Any:
    """Return a finite float; refuse booleans and texts, except 1e-2: its reader sees a number."""
    if isinstance(value, str) and EXPONENT.fullmatch(value):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError("must be a number, without quotes")
    if isinstance(value, int):
        if value.bit_length() > LARGEST_FLOAT_BITS:
            raise ValueError("must be a number that a float can hold, at most about 1e308")
        return float(value)
    if not math.isfinite(value):
        raise ValueError("must be a finite number")
    return value


def _flag(value: Any) -> Any:
    """Return a boolean; refuse everything else."""
    if not isinstance(value, bool):
        raise ValueError("must be true or false, without quotes")
    return value


Finite = Annotated[float, BeforeValidator(_real)]
Positive = Annotated[Finite, Field(gt=0)]
Fraction = Annotated[Finite, Field(gt=0, le=1)]
"""A share above 0."""
Share = Annotated[Finite, Field(ge=0, le=1)]
Count = Annotated[int, BeforeValidator(_whole), Field(gt=0, le=LARGEST_COUNT)]
SeedNumber = Annotated[int, BeforeValidator(_whole), Field(ge=0, le=LARGEST_SEED)]
Flag = Annotated[bool, BeforeValidator(_flag)]
