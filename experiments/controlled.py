"""Controlled text generation: the numbers that Fig. 4 and the extra figure share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import quasir as qr
from experiments.plots import levels, target_moment, trade_off_figure
from experiments.results import Bounds, Row, cell, per_cent

__all__ = ["RATES", "Pool", "with_paper"]

RATES = (1e-1, 1e-2, 1e-3)
"""The acceptance rates at which the paper takes samples."""
SAMPLES = 50_000
"""The paper's number of samples at each rate; a pool of N draws gives at most N times the rate."""
FEWEST = 10
"""Fewer samples than this are not shown."""


@dataclass(frozen=True)
class Pool:
    """A pool of draws, and what is computed from it.

    Attributes
    ----------
    folder : Path
        A run; its recipe says which means are wanted.
    """

    folder: Path

    @cached_property
    def draws(self) -> qr.Draws:
        """The draws."""
        return qr.Draws.load(self.folder)

    @cached_property
    def curve(self) -> qr.Curve:
        """The trade-off, down to an acceptance rate of 1e-5."""
        return qr.tradeoff(self.draws, log_betas=levels(self.draws))

    @cached_property
    def wanted(self) -> dict[str, float]:
        """Feature -> its wanted mean."""
        return dict(qr.open_run(self.folder).recipe.want)

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

    def observed(self) -> dict[str, list[tuple[float, float]]]:
        """Return feature -> (rate, mean over samples), for the crosses of the figure."""
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in self.draws.features}
        for rate in RATES:
            kept = self.kept(rate)
            for name, column in self.draws.features.items() if kept is not None else ():
                found[name].append((rate, float(column[kept].mean())))
        return found

    def farthest(self) -> float:
        """Return the largest distance of a sample's moment from its prediction, in errors.

        Samples and prediction share their draws, so the errors are at most these.
        """
        worst = 0.0
        for rate in RATES:
            cert, kept = self.at(rate), self.kept(rate)
            if cert is None or kept is None:
                continue
            for name, moment in cert.moments.items():
                mean = float(self.draws.features[name][kept].mean())
                spread = moment.value * (1 - moment.value) / len(kept) + moment.se**2
                if spread > 0:
                    worst = max(worst, abs(mean - moment.value) / spread**0.5)
        return worst

    def rows(self) -> list[Row]:
        """Return TVD, its bounds, KL and the moments at each rate, without the paper's numbers."""
        rows = []
        observed = self.observed()
        for rate in RATES:
            cert, at = self.at(rate), f"at AR {rate:g}"
            if cert is None:
                rows.append((f"TVD(p, p_β) {at}", "", "out of reach: too few draws have P > 0"))
                continue
            rows += [
                (f"TVD(p, p_β) {at}", "", cell(cert.tvd)),
                (f"at most: 1 - Z_β/Z {at}", "", cell(cert.truncated_mass)),
                (f"at most: 1 - p(A_β) {at}", "", cell(cert.tvd_bound)),
                (f"KL(p, p_β) {at}", "", cell(cert.kl)),
                (f"KL(p_β, a) {at}", "", cell(cert.kl_base)),
            ]
            for name, moment in cert.moments.items():
                mean = dict(observed[name]).get(rate)
                seen = "" if mean is None else f"; {100 * mean:.1f} % of the samples"
                rows.append((f"{name} {at}", "", per_cent(moment) + seen))
        return [
            ("TVD(p, q)", "", cell(self.curve.proposal.tvd)),
            ("KL(p, q)", "", cell(self.curve.proposal.kl)),
            *((f"{n} under q", "", per_cent(m)) for n, m in self.curve.proposal.moments.items()),
            *rows,
            *(
                (f"{name} under p", "", f"{100 * target_moment(self.curve, name):.1f} %")
                for name in self.draws.features
            ),
        ]

    def bounds(self, rates: Sequence[float], name: str = "") -> list[Bounds]:
        """Return TVD and what bounds it at some acceptance rates, where these can be reached."""
        certs = {rate: self.at(rate) for rate in rates}
        return [
            (
                f"{name} at AR {rate:g}".strip(),
                *(cell(part) for part in (cert.tvd, cert.truncated_mass, cert.tvd_bound)),
            )
            for rate, cert in certs.items()
            if cert is not None
        ]

    def figure(self, **options: Any) -> Figure:
        """Draw the panels of Fig. 4; the options are those of `trade_off_figure`."""
        return trade_off_figure(self.curve, wanted=self.wanted, observed=self.observed(), **options)


def with_paper(rows: list[Row], stated: dict[str, str]) -> list[Row]:
    """Return rows with the paper's numbers; each must belong to a row."""
    unknown = set(stated) - {what for what, _, _ in rows}
    if unknown:
        raise KeyError(f"no row is called {sorted(unknown)}")
    return [(what, stated.get(what, ""), ours) for what, _, ours in rows]
