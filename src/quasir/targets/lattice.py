"""Small models of statistical physics, with the gradients that `GibbsWithGradients` needs.

A state is a row of whole numbers: 0 or 1 for Ising models and Boltzmann machines, 0 to K - 1 for
Potts models. `grad` is the gradient of log P at a state: with respect to the numbers themselves if
they are 0 or 1, else with respect to their one-hot rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quasir.core.arguments import check_count
from quasir.core.types import Array, Batch, Items
from quasir.errors import InputError

__all__ = ["RBM", "Ising", "Potts", "UniformStates", "grid"]

LISTED = 1 << 16
"""Largest number of states to list as a support."""


def grid(rows: int, columns: int, strength: float = 1.0) -> Array:
    """Return the couplings of neighbours on a grid with open edges.

    Examples
    --------
    >>> grid(1, 3, 0.5)
    array([[0. , 0.5, 0. ],
           [0.5, 0. , 0.5],
           [0. , 0.5, 0. ]])
    """
    check_count("rows", rows)
    check_count("columns", columns)
    places = np.arange(rows * columns).reshape(rows, columns)
    coupling = np.zeros((places.size, places.size))
    for a, b in ((places[:, :-1], places[:, 1:]), (places[:-1], places[1:])):
        coupling[a.ravel(), b.ravel()] = coupling[b.ravel(), a.ravel()] = strength
    return coupling


class UniformStates:
    """The uniform distribution over states: by default, chains start from it.

    Parameters
    ----------
    size : int
        Number of sites of a state.
    categories : int
        Number of values of a site.

    Examples
    --------
    >>> UniformStates(2, 2).support
    array([[0, 0],
           [0, 1],
           [1, 0],
           [1, 1]])
    """

    prefix_stable = True

    def __init__(self, size: int, categories: int = 2) -> None:
        check_count("size", size)
        check_count("categories", categories)
        self.size, self.categories = size, categories

    @property
    def support(self) -> NDArray[np.int64] | None:
        """All states, or None if there are too many to list."""
        if self.categories**self.size > LISTED:
            return None
        values = np.indices((self.categories,) * self.size).reshape(self.size, -1)
        return np.ascontiguousarray(values.T)

    def sample(self, n: int, rng: np.random.Generator) -> Batch:
        """Draw n states."""
        states = np.floor(rng.random((n, self.size)) * self.categories).astype(np.int64)
        return Batch(states, self.log_prob(states))

    def log_prob(self, items: Items) -> Array:
        """Return the log of each state's probability."""
        return np.full(len(items), -self.size * np.log(self.categories))


class Ising:
    """log P(x) = s'Js/2 + h's, with spins s = 2x - 1 of states x in {0, 1}^n.

    Parameters
    ----------
    coupling : array (n, n)
        J: symmetric, with 0 on its diagonal; see `grid`.
    field : array (n,) or float
        h.

    Examples
    --------
    >>> Ising(grid(1, 2, 0.5)).log_score(np.array([[0, 0], [0, 1]]))
    array([ 0.5, -0.5])
    """

    categories = 2

    def __init__(self, coupling: ArrayLike, field: ArrayLike = 0.0) -> None:
        self.coupling = _coupling(coupling)
        self.size = len(self.coupling)
        self.field = _shaped("field", field, (self.size,))

    def log_score(self, items: Items) -> Array:
        """Return log P(x) of each state, up to a constant."""
        spins = 2.0 * np.asarray(items) - 1.0
        scores: Array = ((spins @ self.coupling) * spins).sum(axis=1) / 2 + spins @ self.field
        return scores

    def grad(self, states: NDArray[np.int64]) -> Array:
        """Return the gradient of log P with respect to x, one number a site."""
        spins = 2.0 * states - 1.0
        return 2.0 * (spins @ self.coupling + self.field)


class Potts:
    """log P(x) = sum over i < j of J_ij [x_i = x_j], plus h_i(x_i), states in {0..K-1}^n.

    Parameters
    ----------
    coupling : array (n, n)
        J: symmetric, with 0 on its diagonal; see `grid`.
    categories : int
        K.
    field : array (n, K) or float
        h.

    Examples
    --------
    >>> Potts(grid(1, 2), 3).log_score(np.array([[2, 2], [0, 1]]))
    array([1., 0.])
    """

    def __init__(self, coupling: ArrayLike, categories: int, field: ArrayLike = 0.0) -> None:
        check_count("categories", categories)
        self.coupling, self.categories = _coupling(coupling), categories
        self.size = len(self.coupling)
        self.field = _shaped("field", field, (self.size, categories))

    def _one_hot(self, states: Any) -> Array:
        rows: Array = np.eye(self.categories)[np.asarray(states)]
        return rows

    def log_score(self, items: Items) -> Array:
        """Return log P(x) of each state, up to a constant."""
        rows = self._one_hot(items)
        scores: Array = (rows * (self.coupling @ rows / 2 + self.field)).sum(axis=(1, 2))
        return scores

    def grad(self, states: NDArray[np.int64]) -> Array:
        """Return the gradient of log P with respect to the one-hot rows, K numbers a site."""
        gradient: Array = self.coupling @ self._one_hot(states) + self.field
        return gradient


class RBM:
    """A restricted Boltzmann machine's visible units: log P(x) = b'x + sum softplus(c + W'x).

    Parameters
    ----------
    weights : array (n, hidden)
        W.
    visible, hidden : arrays or floats
        b and c.

    Examples
    --------
    >>> RBM([[1.0], [-1.0]]).log_score(np.array([[0, 0], [1, 0]])).round(4)
    array([0.6931, 1.3133])
    """

    categories = 2

    def __init__(
        self, weights: ArrayLike, visible: ArrayLike = 0.0, hidden: ArrayLike = 0.0
    ) -> None:
        self.weights = np.asarray(weights, dtype=np.float64)
        if self.weights.ndim != 2:
            raise InputError(f"weights have shape {self.weights.shape}, but must be a matrix.")
        self.size, units = self.weights.shape
        self.visible = _shaped("visible", visible, (self.size,))
        self.hidden = _shaped("hidden", hidden, (units,))

    def log_score(self, items: Items) -> Array:
        """Return log P(x) of each state, up to a constant."""
        states = np.asarray(items, dtype=np.float64)
        inputs = self.hidden + states @ self.weights
        scores: Array = states @ self.visible + np.logaddexp(0.0, inputs).sum(axis=1)
        return scores

    def grad(self, states: NDArray[np.int64]) -> Array:
        """Return the gradient of log P with respect to x, one number a site."""
        inputs = self.hidden + states @ self.weights
        gradient: Array = self.visible + np.exp(-np.logaddexp(0.0, -inputs)) @ self.weights.T
        return gradient


def _coupling(coupling: ArrayLike) -> Array:
    matrix = np.asarray(coupling, dtype=np.float64)
    if matrix.ndim != 2 or not np.array_equal(matrix, matrix.T) or np.diag(matrix).any():
        raise InputError(
            f"the coupling has shape {matrix.shape}, but must be a symmetric matrix with 0 on its "
            "diagonal: J_ij = J_ji, and no site is coupled to itself."
        )
    return matrix


def _shaped(name: str, values: ArrayLike, shape: tuple[int, ...]) -> Array:
    array = np.asarray(values, dtype=np.float64)
    try:
        return np.broadcast_to(array, shape)
    except ValueError as error:
        raise InputError(
            f"{name} has shape {array.shape}, but must have shape {shape} or be a number."
        ) from error
