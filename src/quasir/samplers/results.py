"""What samplers return: samples, and what is known about their distribution."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quasir.core.arguments import LARGEST, exp_or_inf, reals
from quasir.core.formatting import level_text
from quasir.core.items import Coded, Column, Tabular
from quasir.core.types import Array, Items
from quasir.draws.draws import taken_columns
from quasir.errors import InputError
from quasir.estimation.estimate import Z95, Estimate


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class SampleSet(Tabular):
    """What the results of all samplers have in common; ``samples[i]`` is as in `Draws`.

    Attributes
    ----------
    items : column of items
        If the stored draws have no items: the indices of the draws.
    log_p : array
        Unnormalised log P(x).
    log_q : array or None
        log q(x); None if the samples are not draws from q.
    proposals : int
        How many proposals were made for them.
    features : dict of arrays
        A column for each feature of the target.
    warnings : tuple of str
        What is wrong with the samples, in words. Empty is good.
    selected_from : int or None
        How many samples the proposals gave, if these are a selection of them.

    Examples
    --------
    >>> import quasir as qr
    >>> p, q = qr.Table({"a": 1, "b": 1}), qr.Table({"a": 3, "b": 1})
    >>> samples = qr.QRS(p, q, beta=4.0).sample(50, seed=0)
    >>> len(samples), len(samples[:10]), samples.proposals > 50
    (50, 10, True)
    """

    items: Items
    log_p: Array
    log_q: Array | None = None
    proposals: int
    features: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    selected_from: int | None = None

    def __len__(self) -> int:
        return len(self.log_p)

    def take(self, indices: Any) -> Self:
        """Return the samples at `indices`; their proposals are those of all samples."""
        return replace(self, selected_from=self.found, **taken_columns(self, indices))

    def _numbers(self) -> dict[str, NDArray[Any] | None]:
        names = [each.name for each in fields(self) if str(each.type).startswith("Array")]
        return {name: getattr(self, name) for name in names}

    @property
    def found(self) -> int:
        """How many samples the proposals gave; more than these, if these are a selection."""
        return len(self) if self.selected_from is None else self.selected_from

    @property
    def acceptance_rate(self) -> float:
        """Samples per proposal, as the paper counts for all samplers (appendix F)."""
        return self.found / self.proposals if self.proposals else math.nan

    @property
    def distinct(self) -> int:
        """How many of the samples are different."""
        items = self.items
        if isinstance(items, Coded):
            return len({items.support[code] for code in np.unique(items.codes)})
        if isinstance(items, np.ndarray) and items.dtype != object:
            return len(np.unique(items, axis=0))
        if isinstance(items, Column) and hasattr(items, "token_ids"):
            return len({items.token_ids(i).tobytes() for i in range(len(items))})
        try:
            return len(set(items))
        except TypeError:  # items that cannot be hashed, such as lists
            return len({repr(item) for item in items})

    def _repr(self, what: str) -> str:
        selection = f"{len(self):,} of " if self.selected_from is not None else ""
        return f"<{type(self).__name__}: {selection}{self.found:,} {what}>"


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Samples(SampleSet):
    """Samples of p_beta: accepted items, in the order they were drawn.

    They are i.i.d. for a beta that was fixed before their draws. If an estimate or a guarantee on
    the same draws chose beta, they are not exactly i.i.d. (docs/explanation/guarantees.md).

    Attributes
    ----------
    log_p_beta : array
        log p_beta(x), Eq. 1: normalised by `log_z_beta`.
    log_beta : float
        The level they were accepted at.
    log_z_beta : float
        Log of Z_beta: exact if the proposal's support can be listed, else estimated.

    Examples
    --------
    >>> import quasir as qr
    >>> p, q = qr.Table({"a": 1, "b": 1}), qr.Table({"a": 3, "b": 1})
    >>> samples = qr.QRS(p, q, beta=4.0).sample(50, seed=0)
    >>> samples.beta, bool((samples.log_p_beta < 0).all())
    (4.0, True)
    """

    log_p_beta: Array
    log_beta: float
    log_z_beta: float

    @property
    def beta(self) -> float:
        """The level; if it is out of a float's range, see `log_beta`."""
        return exp_or_inf(self.log_beta)

    @property
    def distance(self) -> str:
        """What is known about the distance of their distribution to p."""
        level = level_text(self.log_beta)
        return f"TVD and KL to p at beta = {level} are estimated by quasir.tradeoff from draws"

    def __repr__(self) -> str:
        level = level_text(self.log_beta)
        return self._repr(f"accepted of {self.proposals:,} proposed at beta = {level}")


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class WeightedSamples(Samples):
    """Samples of p_beta with the weights of p over p_beta.

    Attributes
    ----------
    log_weight : array
        log max(1, P(x)/(beta q(x))): the weight up to a constant, which cancels in `mean`.

    Examples
    --------
    >>> import quasir as qr
    >>> p, q = qr.Table({"a": 1, "b": 1}), qr.Table({"a": 3, "b": 1})
    >>> samples = qr.RejectionControl(p, q, beta=1.0).sample(50, seed=0)
    >>> np.unique(samples.log_weight).round(3).tolist()
    [0.288, 1.386]
    """

    log_weight: Array

    def mean(self, values: ArrayLike) -> Estimate:
        """Return the mean under p of a column of values, one for each sample.

        It is self-normalised: consistent, with a bias that falls as 1/n.

        Examples
        --------
        >>> import quasir as qr
        >>> target, proposal = qr.Table({"a": 0.5, "b": 0.5}), qr.Table({"a": 0.9, "b": 0.1})
        >>> samples = qr.RejectionControl(target, proposal, beta=1).sample(1000, seed=0)
        >>> print(samples.mean([item == "a" for item in samples.items]))
        0.5067 ± 0.021 [0.4647, 0.5486]
        """
        column = reals("values", values).astype(np.float64)
        if column.shape != (len(self),) or not (np.abs(column) <= LARGEST).all():
            raise InputError(
                f"values have shape {column.shape}, but must be a finite number, of at most "
                f"{LARGEST:g} in size, for each of the {len(self)} samples."
            )
        if not len(self):
            return Estimate(math.nan, math.nan, -math.inf, math.inf)
        weight = np.exp(self.log_weight - self.log_weight.max())
        weight /= weight.sum()
        mean = float(weight @ column)
        se = float(np.sqrt((weight**2) @ (column - mean) ** 2))
        return Estimate(mean, se, mean - Z95 * se, mean + Z95 * se)

    @property
    def distance(self) -> str:
        """What is known about the distance to p: with the weights, it tends to 0."""
        return "0 as n grows, with the weights in log_weight; without them: " + super().distance


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class ApproximateSamples(SampleSet):
    """Samples of a distribution that tends to p, at a distance that is not estimated.

    Attributes
    ----------
    distance : str
        What is known about the distance to p: "unknown: ..." with the reason, or a bound.

    Examples
    --------
    >>> import quasir as qr
    >>> p, q = qr.Table({"a": 1, "b": 1}), qr.Table({"a": 3, "b": 1})
    >>> qr.SIR(p, q, pool=1_000).sample(10, seed=0).distance.startswith("unknown")
    True
    """

    distance: str

    def __repr__(self) -> str:
        return self._repr(
            f"samples, {self.distinct:,} distinct, from {self.proposals:,} proposals; "
            f"distance to p {self.distance.split(':')[0]}"
        )


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class ClimbingSamples(ApproximateSamples):
    """Samples of rejection sampling with a beta that rose on the way.

    Attributes
    ----------
    log_betas : array
        The level that each sample was accepted at; it follows p_beta at that level.
    log_beta : float
        The largest ratio seen.

    Examples
    --------
    >>> import quasir as qr
    >>> p, q = qr.Table({"a": 1, "b": 1}), qr.Table({"a": 3, "b": 1})
    >>> samples = qr.EmpiricalSupremum(p, q).sample(50, seed=0)
    >>> bool(samples.log_beta >= samples.log_betas.max())
    True
    """

    log_betas: Array
    log_beta: float


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class ChainSamples(ApproximateSamples):
    """Samples of a Markov chain whose stationary distribution is p.

    Attributes
    ----------
    steps, moves : int
        Steps made, including burn-in, and how many of them moved the chain.
    independent : bool
        Whether each sample has a chain of its own.
    tvd_at_most : float
        An upper bound on TVD(p, distribution of each sample); 1 if none is known.

    Examples
    --------
    >>> import quasir as qr
    >>> p, q = qr.Table({"a": 1, "b": 1}), qr.Table({"a": 3, "b": 1})
    >>> samples = qr.IMH(p, q, thin=2).sample(50, seed=0)
    >>> samples.steps >= 100, samples.moves <= samples.steps, samples.independent
    (True, True, False)
    """

    steps: int
    moves: int
    independent: bool
    tvd_at_most: float = 1.0

    @property
    def move_rate(self) -> float:
        """Moves per step: what MCMC calls the acceptance rate."""
        return self.moves / self.steps if self.steps else math.nan
