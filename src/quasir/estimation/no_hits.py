"""The zero-hit bound: how probable an event may be that n draws never met."""

from __future__ import annotations

import math

__all__ = ["no_hits"]


def no_hits(n: int) -> float:
    """Return the upper bound (97.5 %) on the probability of an event that n draws never met.

    It is the upper end of Clopper and Pearson's 95 % interval at 0 hits, about 3.69/n.

    Examples
    --------
    >>> round(no_hits(1000), 6)
    0.003682
    """
    return -math.expm1(math.log(0.025) / n)
