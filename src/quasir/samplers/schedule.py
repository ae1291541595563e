"""Which states of a chain are samples: burn-in, thinning, or a new chain for each sample."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quasir.core.arguments import MOST, check_count, check_optional_count
from quasir.errors import InputError

STUCK = 0.1  # a chain is warned if it stayed on one state for more than this share of its steps
STAYED = 20  # a stay of at most this many steps raises no warning, however short the chain is

Indices = NDArray[np.intp]


@dataclass(frozen=True)
class Schedule:
    """When a chain starts, and which of its states are samples.

    A chain is a start, numbered 0, and steps 1, 2, ... after it. Without `reset` there is one
    chain, and its samples are the states after steps burn_in + thin, burn_in + 2 thin, ... With
    ``reset=k`` each sample is the last state of its own chain of k states, including the start.
    This takes k proposals for each sample: the samples are i.i.d., and the paper's acceptance
    rate is 1/k.
    """

    burn_in: int = 0
    thin: int = 1
    reset: int | None = None

    def __post_init__(self) -> None:
        whole = {
            "burn_in": check_count("burn_in", self.burn_in, least=0),
            "thin": check_count("thin", self.thin),
            "reset": check_optional_count("reset", self.reset, most=MOST),
        }
        for name, value in whole.items():
            # A numpy integer of few bits would overflow.
            object.__setattr__(self, name, value)
        if self.reset is not None and (self.burn_in or self.thin != 1):
            raise InputError(
                f"reset={self.reset} was given with burn_in={self.burn_in} and thin={self.thin}: "
                "give reset alone, or the other two."
            )

    @property
    def options(self) -> dict[str, Any]:
        """The arguments that say it: `reset` alone, or the other two."""
        if self.reset is not None:
            return {"reset": self.reset}
        return {"burn_in": self.burn_in, "thin": self.thin}

    @property
    def first(self) -> int:
        """How many states a chain has up to its first sample, including the start."""
        return self.states_for(1)

    def states_for(self, n: int) -> int:
        """Return the least number of states that n samples need, including the starts."""
        return 1 + self.burn_in + self.thin * n if self.reset is None else self.reset * n

    def cut(self, possible: NDArray[np.bool_], done: int) -> tuple[Indices, Indices, int]:
        """Return the indices of starts and of samples in a piece of candidates, and `done`.

        `possible` says of each candidate whether P(x) > 0; a chain starts at the first True. The
        current chain had `done` states before this piece; 0 if there is none.
        """
        n = len(possible)
        if self.reset is None:
            starts = np.flatnonzero(possible)[:1] if done == 0 else np.empty(0, np.intp)
            if done == 0 and len(starts) == 0:
                return starts, starts, 0
            origin = int(starts[0]) if done == 0 else -done
            before = max(0, -(origin + self.burn_in + 1) // self.thin)
            first = origin + self.burn_in + self.thin * (before + 1)
            return starts, np.arange(first, n, self.thin), n - origin
        # The first possible index at or after each.
        ahead = np.minimum.accumulate(np.where(possible, np.arange(n), n)[::-1])[::-1].tolist()
        begun, ended = [], []
        start = -done if done else (ahead[0] if n else n)
        while start < n:
            if start >= 0:
                begun.append(start)
            end = start + self.reset
            if end > n:
                break
            ended.append(end - 1)
            start = ahead[end] if end < n else n
        return np.array(begun, np.intp), np.array(ended, np.intp), max(n - start, 0)


def stuck(longest_stay: int, steps: int) -> tuple[str, ...]:
    """Return the warning about a chain that stayed on one state, or an empty tuple."""
    if longest_stay <= max(STUCK * steps, STAYED):
        return ()
    return (
        f"The chain stayed on one state for {longest_stay:,} of {steps:,} steps: its samples "
        "come from few states. Run it longer, reset it for each sample, or use a better proposal.",
    )
