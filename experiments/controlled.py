"""A pool of draws, and what is computed from it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

import quasir as qr
from experiments.plots import levels
from experiments.results import numbers_of

__all__ = ["RATES", "Pool"]

RATES = (1e-1, 1e-2, 1e-3)
"""The acceptance rates at which the paper takes samples."""
SAMPLES = 50_000
"""The paper's number of samples at each rate; a pool of N draws gives at most N times the rate."""
FEWEST = 10
"""Fewer samples than this are not shown."""


@dataclass(frozen=True)
class Pool:
    """A pool of draws in a folder."""

    folder: Path

    @cached_property
    def draws(self) -> qr.Draws:
        """The draws."""
        return qr.Draws.load(self.folder)

    @cached_property
    def curve(self) -> qr.Curve:
        """The trade-off, down to an acceptance rate of 1e-5."""
        return qr.tradeoff(self.draws, log_betas=levels(self.draws))

    @property
    def share(self) -> float:
        """The share of draws with P > 0: the highest acceptance rate."""
        return self.curve.n_possible / self.curve.n

    def at(self, rate: float) -> qr.Certificate | None:
        """Return the certificate at an acceptance rate, or None where it is out of reach."""
        try:
            return self.curve.at(acceptance_rate=rate)
        except qr.errors.UnreachableError:
            return None

    def kept(self, rate: float) -> np.ndarray | None:
        """Return the places of the samples of Algorithm 2: the n best of n/rate draws."""
        n = min(SAMPLES, int(rate * len(self.draws) * (1 + 1e-12)))
        log_alpha = self.draws.log_alpha[: round(n / rate)]
        if n < FEWEST or (log_alpha > -np.inf).sum() < n:
            return None
        return np.sort(np.argpartition(log_alpha, -n)[-n:])

    def observed(self, name: str) -> list[tuple[float, float, float]]:
        """Return (rate, mean of a feature over the samples, its standard error)."""
        found = []
        for rate in RATES:
            kept = self.kept(rate)
            if kept is not None:
                values = self.draws.features[name][kept].astype(float)
                found.append((rate, values.mean(), values.std() / math.sqrt(len(values))))
        return found

    def lowest_rate(self) -> float | None:
        """Return the lowest power of ten at which ten samples are left, or None."""
        for rate in (1e-5, 1e-4, 1e-3, 1e-2, 1e-1):
            if FEWEST <= rate * len(self.draws) and rate <= self.share:
                return rate
        return None

    def numbers(self) -> dict[str, Any]:
        """Return everything about q, and about p_beta and the samples at each rate."""
        curve = self.curve
        found: dict[str, Any] = {
            "draws": curve.n,
            "with P > 0": curve.n_possible,
            "effective draws": float(curve.ess),
            "q": _distances(curve.proposal),
        }
        for rate in (*RATES, 1e-4, 1e-5):
            cert = self.at(rate) if rate <= self.share else None
            if cert is None:
                continue
            found[f"AR {rate:g}"] = {
                "log_beta": cert.log_beta,
                **_distances(cert),
                "truncated_mass": numbers_of(cert.truncated_mass),
                "tvd_bound": numbers_of(cert.tvd_bound),
            }
        for name in self.draws.features:
            found[f"samples: {name}"] = [
                {"rate": rate, "mean": mean, "se": se} for rate, mean, se in self.observed(name)
            ]
        return found


def _distances(of: Any) -> dict[str, Any]:
    parts = {name: getattr(of, name) for name in ("tvd", "kl", "kl_base")}
    known = {name: numbers_of(part) for name, part in parts.items() if part is not None}
    return known | {f"moment: {name}": numbers_of(part) for name, part in of.moments.items()}
