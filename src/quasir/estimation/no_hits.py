"""What n draws without a hit say: the zero-hit bound."""

from __future__ import annotations

import math

__all__ = ["no_hits"]


def no_hits(n: int) -> float:
    """Return the largest probability that n draws without a hit allow (97.5 %).

    It is the upper end of Clopper and Pearson's 95 % interval at 0 hits, about 3.69/n.

    Examples
    --------
    >>> round(no_hits(1000), 6)
    0.003682
    """
    return -math.expm1(math.log(0.025) / n)
