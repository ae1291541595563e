"""A sampler in one line."""

from __future__ import annotations

from typing import Any

from quasir.core.arguments import show

__all__ = ["describe"]

LINE = 100
"""Longest description."""


def describe(sampler: Any, settings: str = "", /, **options: Any) -> str:
    """Return a sampler's class, target, proposal, options that are not None, and settings.

    Examples
    --------
    >>> import quasir as qr
    >>> coin = qr.Table({"heads": 1, "tails": 1})
    >>> qr.QRS(coin, coin, beta=2)
    QRS(<Table of 2 items>, <Table of 2 items>) at beta = 2
    >>> qr.IMH(coin, coin, burn_in=10)
    IMH(<Table of 2 items>, <Table of 2 items>, burn_in=10, thin=1)
    """
    given = "".join(f", {name}={show(x, 20)}" for name, x in options.items() if x is not None)
    name = type(sampler).__name__
    room = max((LINE - len(name) - len(given) - len(settings) - 4) // 2, 12)
    pair = f"{show(sampler.target, room)}, {show(sampler.proposal, room)}"
    return f"{name}({pair}{given}){settings}"
