"""Gibbs with gradients (Grathwohl et al. 2021; appendix G.2 of the paper, `app:gwg`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from quasir.core.arguments import check_bool, check_count
from quasir.core.formatting import short_repr
from quasir.core.scores import name_of, score
from quasir.core.types import Array, Items, Proposal, optional_attribute
from quasir.errors import InputError, ScoreError
from quasir.samplers.local_chains import LocalSampler, Move, States, choose_column
from quasir.targets.lattice import UniformStates, as_states

__all__ = ["Differentiable", "GibbsWithGradients"]


@runtime_checkable
class Differentiable(Protocol):
    """A target over rows of integers whose log P has a gradient: see `quasir.lattice`.

    For site-first moves it may have ``grad_at(states, sites)``, the gradient at one site of each
    state. With ``encode(items)`` and ``decode(states)`` its items need not be rows.

    Examples
    --------
    >>> import quasir as qr
    >>> isinstance(qr.lattice.Ising(qr.lattice.grid(3, 3, 0.3)), Differentiable)
    True
    """

    size: int
    categories: int

    def log_score(self, items: Items) -> Array:
        """Return log P(x) of each state."""
        ...

    def grad(self, states: NDArray[np.int64]) -> Array:
        """Return the gradient of log P in the one-hot rows, or for 0/1 states in the numbers."""
        ...


class GibbsWithGradients(LocalSampler):
    """Chains that change one site at a time, guided by the gradient of log P.

    Parameters
    ----------
    target : Differentiable
        P, with ``log_score`` and ``grad``.
    proposal : Proposal, optional
        Chains start at its draws with P(x) > 0. By default, uniform over all states.
    site_first : bool
        True picks the site uniformly, then its value by the gradient, as the paper sketches for
        texts. False picks site and value together, as Grathwohl et al. do.
    burn_in, thin, reset, chains
        See `RWMH`.

    Notes
    -----
    With f = log P, one gradient approximates f(x') - f(x) by <grad f(x), x' - x> for every x' that
    differs from x at one site. x' is proposed with a probability proportional to exp of half that
    difference, and accepted by the rule of Metropolis and Hastings. The paper sketches this for P
    itself; with log P no proposal probability is negative.

    Examples
    --------
    >>> import quasir as qr
    >>> from quasir.targets.lattice import Ising, grid
    >>> chain = qr.GibbsWithGradients(Ising(grid(3, 3, 0.3)), chains=10).sample(100, seed=0)
    >>> chain.items.shape, chain.move_rate > 0.5
    ((100, 9), True)
    """

    target: Differentiable
    uniforms: ClassVar[int] = 3

    def __init__(
        self,
        target: Differentiable,
        proposal: Proposal | None = None,
        *,
        site_first: bool = False,
        **chain: Any,
    ) -> None:
        if not isinstance(target, Differentiable) or isinstance(target, type):
            raise InputError(
                f"the target is {short_repr(target)}, but must have log_score(states), "
                "grad(states), size and categories, as those of quasir.lattice have."
            )
        check_count("categories of the target", target.categories, least=2)
        check_bool("site_first", site_first)
        if proposal is None:
            proposal = UniformStates(target.size, target.categories)
        super().__init__(target, proposal, **chain)
        self.site_first = site_first

    def starts(self, items: Items) -> tuple[list[Any], Array]:
        """Return items as states, and their log P."""
        encode = optional_attribute(self.target, "encode")
        size, categories = self.target.size, self.target.categories
        states = list(encode(items) if encode else as_states(items, size, categories))
        return states, score(self.target, self.decode(states))

    def propose(self, states: States, uniforms: Array) -> Move:
        """Change one site of each state; its uniforms choose the site and the value."""
        x = np.asarray(states)
        y, rows = x.copy(), np.arange(len(x))
        if self.site_first:
            # The probability of the site is the same in both directions, and cancels.
            sites = (uniforms[:, 0] * self.target.size).astype(np.int64)
            own = x[rows, sites]
            moves = log_values(own, self._gradient_at(x, sites))
            values = choose_column(np.exp(moves), uniforms[:, 1])
            y[rows, sites] = values
            back = log_values(values, self._gradient_at(y, sites))
            return y, values != own, moves[rows, values], back[rows, own]
        joint = log_moves(x, self._gradient(x))
        chosen = choose_column(np.exp(joint).reshape(len(x), -1), uniforms[:, 0])
        sites, values = np.divmod(chosen, self.target.categories)
        own = x[rows, sites]
        y[rows, sites] = values
        back = log_moves(y, self._gradient(y))
        return y, values != own, joint[rows, sites, values], back[rows, sites, own]

    def _gradient(self, states: NDArray[np.int64]) -> Array:
        gradient = np.asarray(self.target.grad(states), dtype=np.float64)
        if gradient.shape == states.shape and self.target.categories == 2:
            gradient = np.stack([np.zeros_like(gradient), gradient], axis=-1)
        return self._checked(gradient, (*states.shape, self.target.categories))

    def _gradient_at(self, states: NDArray[np.int64], sites: NDArray[np.int64]) -> Array:
        grad_at = optional_attribute(self.target, "grad_at")
        if grad_at is None:
            whole: Array = self._gradient(states)[np.arange(len(states)), sites]
            return whole
        gradient = np.asarray(grad_at(states, sites), dtype=np.float64)
        return self._checked(gradient, (len(states), self.target.categories))

    def _checked(self, gradient: Array, shape: tuple[int, ...]) -> Array:
        right = gradient.shape == shape and bool((gradient < np.inf).all())
        if not right or ((gradient > -np.inf).sum(axis=-1) < 2).any():
            raise ScoreError(
                f"{name_of(self.target)} gave a gradient of shape {gradient.shape}, where {shape} "
                f"is needed, with {int((~np.isfinite(gradient)).sum())} entries not finite."
            )
        return gradient

    def decode(self, states: Sequence[Any]) -> Items:
        """Return states as items: rows, or what the target makes of them."""
        rows = np.asarray(states, dtype=np.int64).reshape(-1, self.target.size)
        decode = optional_attribute(self.target, "decode")
        return decode(rows) if decode else rows


def log_values(own: NDArray[np.int64], gradient: Array) -> Array:
    """Return the log probability of proposing each value of a site; -inf for its own value."""
    return log_moves(own[:, None], gradient[:, None])[:, 0]


def log_moves(states: NDArray[np.int64], gradient: Array) -> Array:
    """Return the log probability of proposing each site and value: (states, sites, categories)."""
    own = states[..., None]
    half = (gradient - np.take_along_axis(gradient, own, axis=2)) / 2
    np.put_along_axis(half, own, -np.inf, axis=2)
    rows = half.reshape(len(half), -1)
    below = rows - rows.max(axis=1, keepdims=True)
    logs: Array = below - np.log(np.exp(below).sum(axis=1, keepdims=True))
    return logs.reshape(half.shape)
