"""Small models of statistical physics, with the gradients that `GibbsWithGradients` needs.

A state is a row of whole numbers from 0 to K - 1. `grad` is the gradient of log P with respect to
the numbers themselves where K is 2, and for Potts models to their one-hot rows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quasir.core.arguments import LARGEST, check_count, check_request, number, reals
from quasir.core.formatting import short_repr
from quasir.core.items import check_items
from quasir.core.types import Array, Batch, Items
from quasir.errors import InputError

__all__ = ["RBM", "Ising", "Potts", "UniformStates", "grid"]

MOST_SITES = 10_000  # most sites of a grid: its matrix then takes 800 MB
MOST_UNIFORM = 1 << 20  # most sites of a uniform state, and most values of a site


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
    check_count("rows * columns", rows * columns, most=MOST_SITES)
    sites, weight = np.arange(rows * columns).reshape(rows, columns), number("strength", strength)
    coupling = np.zeros((sites.size, sites.size))
    for a, b in ((sites[:, :-1], sites[:, 1:]), (sites[:-1], sites[1:])):
        coupling[a.ravel(), b.ravel()] = coupling[b.ravel(), a.ravel()] = weight
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
    density = False

    def __init__(self, size: int, categories: int = 2) -> None:
        self.size = check_count("size", size, most=MOST_UNIFORM)
        self.categories = check_count("categories", categories, most=MOST_UNIFORM)

    @property
    def support(self) -> NDArray[np.int64] | None:
        """All states, or None if there are too many to list."""
        if self.size > 16 * np.log(2) / np.log(max(self.categories, 2)) + 1e-9:
            return None if self.categories > 1 else np.zeros((1, self.size), np.int64)
        values = np.indices((self.categories,) * self.size).reshape(self.size, -1)
        return np.ascontiguousarray(values.T)

    def sample(self, n: int, rng: np.random.Generator) -> Batch:
        """Draw n states."""
        n = check_request(n, rng)
        uniforms = rng.random((n, self.size))
        states = np.floor(uniforms * self.categories).astype(np.int64)
        return Batch(states, np.full(len(states), -self.size * np.log(self.categories)))

    def log_prob(self, items: Items) -> Array:
        """Return the log of each state's probability; -inf for a row that is no state."""
        rows = _rows(items, self.size)
        inside = ((rows >= 0) & (rows < self.categories)).all(axis=1)
        return np.where(inside, -self.size * np.log(self.categories), -np.inf)


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
    density = False

    def __init__(self, coupling: ArrayLike, field: ArrayLike = 0.0) -> None:
        self.coupling = _coupling(coupling)
        self.size = len(self.coupling)
        self.field = _shaped("field", field, (self.size,))

    def log_score(self, items: Items) -> Array:
        """Return log P(x) of each state, up to a constant."""
        spins = 2.0 * as_states(items, self.size, 2) - 1.0
        scores: Array = ((spins @ self.coupling) * spins).sum(axis=1) / 2 + spins @ self.field
        return scores

    def grad(self, states: NDArray[np.int64]) -> Array:
        """Return the gradient of log P with respect to x, one number per site."""
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

    density = False

    def __init__(self, coupling: ArrayLike, categories: int, field: ArrayLike = 0.0) -> None:
        self.categories = check_count("categories", categories, most=MOST_UNIFORM)
        self.coupling = _coupling(coupling)
        self.size = len(self.coupling)
        self.field = _shaped("field", field, (self.size, self.categories))

    def log_score(self, items: Items) -> Array:
        """Return log P(x) of each state, up to a constant."""
        rows = np.eye(self.categories)[as_states(items, self.size, self.categories)]
        scores: Array = (rows * (self.coupling @ rows / 2 + self.field)).sum(axis=(1, 2))
        return scores

    def grad(self, states: NDArray[np.int64]) -> Array:
        """Return the gradient of log P with respect to the one-hot rows, K numbers per site."""
        gradient: Array = self.coupling @ np.eye(self.categories)[states] + self.field
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
    density = False

    def __init__(
        self, weights: ArrayLike, visible: ArrayLike = 0.0, hidden: ArrayLike = 0.0
    ) -> None:
        self.weights = _finite("weights", weights)
        if self.weights.ndim != 2 or 0 in self.weights.shape:
            raise InputError(f"weights have shape {self.weights.shape}, but must be a matrix.")
        self.size, units = self.weights.shape
        self.visible = _shaped("visible", visible, (self.size,))
        self.hidden = _shaped("hidden", hidden, (units,))

    def log_score(self, items: Items) -> Array:
        """Return log P(x) of each state, up to a constant."""
        states = as_states(items, self.size, 2)
        inputs = self.hidden + states @ self.weights
        scores: Array = states @ self.visible + np.logaddexp(0.0, inputs).sum(axis=1)
        return scores

    def grad(self, states: NDArray[np.int64]) -> Array:
        """Return the gradient of log P with respect to x, one number per site."""
        inputs = self.hidden + states @ self.weights
        gradient: Array = self.visible + np.exp(-np.logaddexp(0.0, -inputs)) @ self.weights.T
        return gradient


def _coupling(coupling: ArrayLike) -> Array:
    matrix = _finite("the couplings", coupling)
    symmetric = matrix.ndim == 2 and len(matrix) > 0 and np.array_equal(matrix, matrix.T)
    if not symmetric or np.diag(matrix).any():
        raise InputError("the coupling must be a symmetric matrix with 0 on its diagonal.")
    return matrix


def _shaped(name: str, values: ArrayLike, shape: tuple[int, ...]) -> Array:
    array = _finite(name, values)
    try:
        return np.broadcast_to(array, shape)
    except ValueError as error:
        raise InputError(
            f"{name} has shape {array.shape}, but must have shape {shape} or be a number."
        ) from error


def _finite(name: str, values: ArrayLike) -> Array:
    array = reals(name, values).astype(np.float64)
    if not (np.abs(array) <= LARGEST).all():
        raise InputError(
            f"{name} are {short_repr(values)}, but must be finite, and at most {LARGEST:g} in size."
        )
    return array


def _rows(items: Items, size: int) -> NDArray[np.float64] | NDArray[np.int64]:
    """Return states as an array with a column for each site."""
    rows = np.asarray(items) if isinstance(items, np.ndarray) else None
    if rows is None or rows.dtype.kind not in "biu":
        check_items(items)
        rows = reals("states", items if rows is not None and rows.dtype != object else list(items))
    if len(rows) == 0:
        rows = rows.reshape(0, size)
    if rows.ndim != 2 or rows.shape[1] != size or not (rows == np.floor(rows)).all():
        raise InputError(
            f"states of shape {rows.shape} are not rows of {size} whole numbers, one for each site."
        )
    return rows


def as_states(items: Items, size: int, categories: int) -> NDArray[np.int64]:
    """Return states as whole numbers from 0 to categories - 1; refuse others."""
    rows = _rows(items, size)
    if len(rows) and not (rows.min() >= 0 and rows.max() < categories):
        raise InputError(f"states must have whole numbers from 0 to {categories - 1}.")
    return rows.astype(np.int64, copy=False)
