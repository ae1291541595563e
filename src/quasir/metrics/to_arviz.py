"""Conversion of chains, samples and draws for ArviZ."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quasir.core.arguments import reals
from quasir.core.formatting import short_repr
from quasir.draws.draws import Draws
from quasir.errors import InputError
from quasir.samplers.results import Samples

Groups = dict[str, dict[str, NDArray[Any]]]
SAMPLE_DIMS = ["chain", "draw"]


def to_arviz(chains: Mapping[str, ArrayLike] | Samples | Draws) -> Any:
    """Return an `xarray.DataTree` that ArviZ reads; this needs arviz-base.

    Parameters
    ----------
    chains : mapping of names to arrays, Samples, or Draws
        Arrays have the shape (draws,) or (chains, draws), and may have more dimensions after
        these. `to_groups` explains the groups.

    Examples
    --------
    >>> import numpy as np
    >>> tree = to_arviz({"x": np.zeros((2, 50))})
    >>> dict(tree["posterior"].sizes)
    {'chain': 2, 'draw': 50}
    """
    groups = to_groups(chains)
    for name in (name for group in groups.values() for name in group):
        if "/" in name or name in SAMPLE_DIMS:
            raise InputError(
                f"{name!r} cannot name a variable of ArviZ, where / separates groups, and chain "
                "and draw are dimensions: give the feature another name."
            )
    try:
        arviz_base = importlib.import_module("arviz_base")
    except ModuleNotFoundError as error:
        raise InputError(
            f"to_arviz needs {error.name}: pip install arviz-base. Without it, "
            "quasir.metrics.to_arviz.to_groups returns the same data as plain arrays."
        ) from error
    from quasir.core import __version__

    library = {"inference_library": "quasir", "inference_library_version": __version__}
    return arviz_base.from_dict(
        groups, sample_dims=SAMPLE_DIMS, attrs={group: library for group in groups}
    )


def to_groups(chains: Mapping[str, ArrayLike] | Samples | Draws) -> Groups:
    """Return ArviZ's groups as dictionaries of arrays of shape (chains, draws, ...).

    Chains and samples are the group ``posterior``. Draws follow q, not p, until they are weighted
    by the ratio P(x)/q(x), so their group is ``proposal``. The variables are the features, and
    ``item`` if the items are numbers. Scores are in ``sample_stats``: ``log_p`` and ``log_q``; for
    draws also ``log_u`` and the log weights ``log_ratio``; for samples also ``log_p_beta``.
    """
    if isinstance(chains, (Draws, Samples)):
        if not len(chains):
            raise InputError("there are no samples: ArviZ needs at least one.")
        own = "log_u log_ratio log_base" if isinstance(chains, Draws) else "log_p_beta"
        scores = {name: getattr(chains, name) for name in ("log_p", "log_q", *own.split())}
        numbers = isinstance(chains.items, np.ndarray) and chains.items.dtype.kind in "biuf"
        groups = {
            "proposal" if isinstance(chains, Draws) else "posterior": (
                ({"item": chains.items} if numbers else {}) | dict(chains.features)
            ),
            "sample_stats": {name: column for name, column in scores.items() if column is not None},
        }
        return {
            group: {name: column[None] for name, column in columns.items()}
            for group, columns in groups.items()
        }
    if not isinstance(chains, Mapping) or not chains:
        raise InputError(
            f"chains are a {type(chains).__name__}, but must be samples, draws, or a dictionary "
            "from a name to an array of shape (draws,) or (chains, draws)."
        )
    arrays = {}
    for name, values in chains.items():
        if not isinstance(name, str):
            raise InputError(f"{short_repr(name)} names a chain, but a name is a string.")
        array = reals(f"the values of {name!r}", values)
        arrays[name] = array[None] if array.ndim == 1 else array
    shapes = {name: values.shape[:2] for name, values in arrays.items()}
    if len(set(shapes.values())) > 1 or any(len(shape) < 2 for shape in shapes.values()):
        raise InputError(
            f"chains have the shapes {shapes}, but must all have the same (chains, draws)."
        )
    return {"posterior": arrays}
