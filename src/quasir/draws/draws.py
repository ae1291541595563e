"""Draws: the proposed items, their scores, and the uniforms that decide on acceptance.

Each draw keeps its own u, so the set accepted at any beta is ``{alpha > beta}`` with
``alpha = P(x) / (q(x) u)``: reproducible, and nested as beta grows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quasir.core.arguments import LARGEST, as_log_beta, reals
from quasir.core.files import named_folder
from quasir.core.formatting import short_repr
from quasir.core.items import Tabular, as_items, concatenate, places_of, take
from quasir.core.scores import check_drawn, check_log_scores
from quasir.core.streams import log_uniforms, root_seed
from quasir.core.types import Array, Items, Seed
from quasir.draws.acceptance import accepts, log_ratio_of
from quasir.draws.ceiling import BaseCheck, RatioBounds, declared_bounds, user_ceiling
from quasir.errors import InputError
from quasir.store import FEATURE, Rows, Store, locked
from quasir.targets.feature import Feature, check_feature

SCORES = ("log_p", "log_q", "log_u", "log_base")
LARGEST_BASE = 1e100  # largest size of log a(x): its square is then far from overflow


@dataclass(frozen=True, eq=False, kw_only=True)
class Draws(Tabular):
    """Draws x_1..x_N from q, scored under P.

    Make them with `draw`, or from arrays with `Draws.from_arrays`. ``draws[i]`` and iteration give
    the items that were drawn; a slice, an array of indices or of booleans gives `Draws`.

    Attributes
    ----------
    log_p, log_q, log_u : array of float64
        Unnormalised log P(x), log q(x), and the log of each draw's own uniform. log q may be NaN
        where P(x) = 0: a mixture of language models leaves out the passes that would find it.
    items : column of items, or None
        The draws themselves; ``items[i]`` makes the object.
    log_base : array of float64, or None
        log a(x) of the base model; may be NaN where P(x) = 0.
    features : dict of arrays
        A column for each feature, of booleans or float64.
    seed : int
        Seed of the draws, or at least of their uniforms.
    spared : int
        Items that the base did not have to score again: those that other factors made impossible,
        or draws from the base or from a mixture that contains it.
    warnings : tuple of str
        Problems that cannot be seen in the draws, such as a proposal that cuts the support.
    known : RatioBounds
        What is known about ratios that were not drawn (`quasir.draws.ceiling`).
    base_check : BaseCheck or None
        Draws of the base, scored by the proposal: whether it reaches all of the target.

    Examples
    --------
    >>> import quasir as qr
    >>> from scipy import stats
    >>> p, q = qr.from_scipy(stats.poisson(11)), qr.from_scipy(stats.poisson(10))
    >>> draws = qr.draw(p, q, 1_000, seed=0)
    >>> bool(((draws.log_alpha > 0.0) == (draws.log_ratio > draws.log_u)).all())
    True
    >>> len(draws.accepted(beta=2.0)) < len(draws.accepted(beta=1.0)) < len(draws)
    True
    """

    log_p: Array
    log_q: Array
    log_u: Array
    items: Items = None
    log_base: Array | None = None
    features: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    seed: int = 0
    spared: int = 0
    warnings: tuple[str, ...] = ()
    known: RatioBounds = field(default_factory=RatioBounds)
    base_check: BaseCheck | None = None

    @classmethod
    def from_arrays(
        cls,
        log_p: ArrayLike,
        log_q: ArrayLike,
        items: Items = None,
        log_base: ArrayLike | None = None,
        features: Mapping[str, ArrayLike] | None = None,
        seed: Seed = 0,
        log_ceiling: float | None = None,
    ) -> Draws:
        """Make draws from given scores; `seed` determines their uniforms.

        log q may be the log of a density, and so above 0: nothing here can tell.

        Parameters
        ----------
        log_p, log_q, log_base : array
            log_q and log_base may be NaN where P(x) = 0.
        items : column of items, optional
        features : mapping, optional
            Name -> column. A column of booleans is taken to be boolean for every item.
        seed : int, numpy Generator or None
        log_ceiling : float, optional
            Log of a number that no ratio P(x)/q(x) exceeds, drawn or not. You assert it, and
            every guarantee says so; a ratio above it is an error.

        Examples
        --------
        >>> draws = Draws.from_arrays(log_p=[0.0, -1.0], log_q=[-0.7, -0.7], seed=0)
        >>> len(draws)
        2
        """
        log_q_array = np.atleast_1d(reals("log_q", log_q).astype(np.float64))
        given = {} if features is None else features
        if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
            raise InputError(f"features are {short_repr(features)}, not columns by their names.")
        n = len(log_q_array)
        if n == 0:
            raise InputError("there are no draws: log_q is empty. Give at least one draw.")
        rows = range(n) if items is None else as_items(items)
        columns: dict[str, Any] = {"log_p": log_p, "log_base": log_base, "items": rows, **given}
        for name, column in columns.items():
            if column is not None and (length := _length(column)) != n:
                raise InputError(f"{name} has length {length}, but log_q has {n}.")
        checked_p = check_log_scores(log_p, rows, "log_p")
        left_out = np.isnan(log_q_array) & (checked_p == -np.inf)
        check_log_scores(np.where(left_out, 0.0, log_q_array), rows, "log_q", "log q")
        check_drawn(log_q_array, None if items is None else rows, "log_q")
        base = None if log_base is None else _base_column(log_base, checked_p)
        root = root_seed(seed)
        columns_made = {k: _feature_column(k, v) for k, v in given.items()}
        return cls(
            log_p=checked_p,
            log_q=log_q_array,
            log_u=log_uniforms(root, n),
            items=None if items is None else rows,
            log_base=base,
            features=columns_made,
            seed=root,
            known=RatioBounds(
                bounds={k: (0.0, 1.0) for k, v in columns_made.items() if v.dtype == bool},
                **user_ceiling(log_ceiling, log_ratio_of(checked_p, log_q_array)),
            ),
        )

    def __len__(self) -> int:
        return len(self.log_q)

    @property
    def log_ceiling(self) -> float:
        """Upper bound on every log ratio, drawn or not; infinite if none is known."""
        return self.known.log_ceiling

    @property
    def log_ratio(self) -> Array:
        """Log of the ratio P(x)/q(x)."""
        return log_ratio_of(self.log_p, self.log_q)

    @property
    def log_alpha(self) -> Array:
        """Log of alpha = P(x)/(q(x) u): x is accepted at beta exactly when alpha > beta."""
        return self.log_ratio - self.log_u

    def accepted(
        self, beta: float | None = None, *, log_beta: float | None = None
    ) -> NDArray[np.intp]:
        """Return the indices of the draws that QRS accepts at beta (Algorithm 1), nested."""
        return np.flatnonzero(accepts(self.log_alpha, as_log_beta(beta, log_beta)))

    def samples(self, certificate: Any) -> Draws:
        """Return the draws that QRS accepts at a certificate's beta: samples from its p_beta.

        Where these draws chose the beta they are not exactly i.i.d.: the certificate's `choice`.

        Examples
        --------
        >>> import quasir as qr
        >>> target, proposal = qr.Table({"a": 3, "bb": 1}), qr.Table({"a": 1, "bb": 1})
        >>> draws = qr.draw(target, proposal, 1_000, seed=0)
        >>> cert = qr.tradeoff(draws).at(tvd=0.05, confidence=0.95)
        >>> samples = draws.samples(cert)
        >>> len(samples), samples[0]
        (692, 'a')
        """
        if not hasattr(certificate, "log_beta"):
            raise InputError(
                f"{short_repr(certificate)} is not a certificate: give one from curve.at(...)."
            )
        return self.take(self.accepted(log_beta=certificate.log_beta))

    def take(self, indices: ArrayLike) -> Draws:
        """Return the draws at `indices`, uniforms included."""
        return replace(self, **taken_columns(self, indices), spared=0)

    @classmethod
    def concatenate(cls, parts: Sequence[Draws]) -> Draws:
        """Join draws that have the same columns."""
        joins = isinstance(parts, Sequence) and all(isinstance(part, Draws) for part in parts)
        if not joins or not parts:
            raise InputError("only Draws can be joined: give a list of one or more.")
        first = parts[0]
        if len(parts) == 1:
            return first
        made = [["items"] * (part.items is not None) + sorted(part.features) for part in parts]
        if any(names != made[0] for names in made):
            raise InputError(f"draws that are joined must have the same columns, not {made[:5]}.")
        every = {name: [getattr(part, name) for part in parts] for name in SCORES}
        scores: dict[str, Any] = {
            name: None if any(column is None for column in columns) else np.concatenate(columns)
            for name, columns in every.items()
        }
        return replace(
            first,
            **scores,
            items=None if first.items is None else concatenate([part.items for part in parts]),
            features={f: np.concatenate([p.features[f] for p in parts]) for f in first.features},
            spared=sum(part.spared for part in parts),
            known=first.known if all(p.known == first.known for p in parts) else RatioBounds(),
        )

    def with_features(self, *features: Feature) -> Draws:
        """Return these draws with a column for each of more features, asked of their items.

        Their moments are then in every certificate, as those of the target's own features are. An
        expensive feature is asked only where P(x) > 0, and its column is NaN elsewhere.

        Examples
        --------
        >>> import quasir as qr
        >>> target, proposal = qr.Table({"a": 3, "bb": 1}), qr.Table({"a": 1, "bb": 1})
        >>> draws = qr.draw(target, proposal, 10_000, seed=0)
        >>> more = draws.with_features(qr.Feature("letters", len, low=0, high=2))
        >>> print(qr.tradeoff(more).at(beta=6).moments["letters"])
        1.247 ± 0.0037 [1.24, 1.255]
        """
        columns = dict(self.features)
        for feature in features:
            check_feature(feature)
            if feature.name in columns:
                raise InputError(
                    f"the draws have a column {feature.name!r} already: use feature.renamed(name)."
                )
            asked = (self.log_p > -np.inf) | (not feature.expensive)
            columns[feature.name] = feature.column_where(asked, self._column())
        bounds = {**self.known.bounds, **declared_bounds(features)}
        return replace(self, features=columns, known=replace(self.known, bounds=bounds))

    def save(self, folder: str | Path) -> None:
        """Write the draws, if their items fit a table, as a run: Parquet shards and a manifest."""
        folder = named_folder(folder)
        with locked(folder):
            store = Store.create(
                folder,
                self.seed,
                warnings=self.warnings,
                known=self.known.to_dict(),
                base_check=None if self.base_check is None else self.base_check.to_dict(),
            )
            for number in store.missing(len(self)):
                start = number * store.shard_size
                part = self.take(np.arange(start, min(start + store.shard_size, len(self))))
                store.add(number, part.rows)

    @classmethod
    def load(cls, run: str | Path | Store, items: bool = True, check: bool = True) -> Draws:
        """Read the draws of a run, from `save` or from ``quasir draw``; no model is loaded.

        Parameters
        ----------
        run : str, Path or Store
            The run's folder, or its store.
        items : bool
            Whether to read the items too; without them only numbers are read.
        check : bool
            Whether to compare every shard with its hash first.

        Raises
        ------
        StoreError
            If a shard is absent, truncated or edited.
        """
        store = run if isinstance(run, Store) else Store.open(run)
        return cls.from_rows(store.rows(items, check), **_facts(store))

    @classmethod
    def of_shard(cls, store: Store, number: int, items: bool = True) -> Draws:
        """Read the draws of one shard of a run; its pages are compared with their checksums."""
        return cls.from_rows(store.rows_of(number, items), **_facts(store))

    @property
    def rows(self) -> Rows:
        """The draws as rows of a store."""
        names = ("log_q", "log_p", "log_u", "log_base")  # in the order of the files
        columns = {name: x for name in names if (x := getattr(self, name)) is not None}
        columns |= {f"{FEATURE}{name}": column for name, column in self.features.items()}
        return Rows(columns, self.items)

    @classmethod
    def from_rows(cls, rows: Rows, **facts: Any) -> Draws:
        """Return the draws of a store's rows; `facts` are those that hold for all of them."""
        features = {
            name.removeprefix(FEATURE): column
            for name, column in rows.columns.items()
            if name.startswith(FEATURE)
        }
        scores: dict[str, Any] = {name: rows.columns.get(name) for name in SCORES}
        return cls(**scores, items=rows.items, features=features, **facts)

    def __repr__(self) -> str:
        possible, seed = int((self.log_p > -np.inf).sum()), str(self.seed)
        seed = seed if len(seed) <= 20 else f"{seed[:6]}... (see .seed)"
        return f"<Draws: {len(self):,} draws, {possible:,} with P(x) > 0, seed {seed}>"

    def _numbers(self) -> dict[str, NDArray[Any] | None]:
        return {name: getattr(self, name) for name in SCORES}


def taken_columns(table: Any, indices: ArrayLike) -> dict[str, Any]:
    """Return the columns of draws or samples at `indices`, as fields."""
    at = places_of(indices, len(table))
    numbers = {name: None if x is None else x[at] for name, x in table._numbers().items()}
    features = {name: column[at] for name, column in table.features.items()}
    items = None if table.items is None else take(as_items(table.items), at)
    return {**numbers, "items": items, "features": features}


def _facts(store: Store) -> dict[str, Any]:
    return {
        "seed": store.seed,
        "warnings": store.warnings,
        "known": RatioBounds.from_dict(store.manifest.known),
        "base_check": BaseCheck.from_dict(store.manifest.base_check),
    }


def joined(parts: Sequence[Array | None]) -> Array | None:
    """Join the columns that are not None; return None if there are none."""
    present = [part for part in parts if part is not None]
    return np.concatenate(present) if present else None


def _feature_column(name: str, column: ArrayLike) -> NDArray[Any]:
    """Return the values of a feature as booleans or finite float64."""
    values = reals(f"the values of feature {name!r}", column, ndim=1)
    if values.dtype == bool:
        return values
    wrong = ~(np.abs(values) <= LARGEST)
    if wrong.any():
        i = int(np.argmax(wrong))
        raise InputError(
            f"feature {name!r} is {values[i]} at draw {i}: it must be finite, at most {LARGEST:g}."
        )
    return values


def _length(column: Any) -> int:
    return len(column) if hasattr(type(column), "__len__") else 1  # a number, or a class


def _base_column(log_base: ArrayLike, log_p: Array) -> Array:
    """Return log a(x), which must be finite wherever P(x) > 0."""
    base: Array = reals("log_base", log_base, ndim=1).astype(np.float64)
    possible = np.flatnonzero(log_p > -np.inf)
    bad = possible[~(np.abs(base[possible]) <= LARGEST_BASE)]
    if len(bad):
        raise InputError(
            f"log_base is {base[bad[0]]} at draw {bad[0]}, where P(x) > 0 ({len(bad)} such draws): "
            "a target built on a base has P(x) = 0 wherever the base has."
        )
    return base
