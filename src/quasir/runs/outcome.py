"""What comes of a run's draws: the trade-off, beta as the recipe chooses it, samples, checks."""

from __future__ import annotations

from dataclasses import dataclass

from quasir.certificates.certificate import Certificate
from quasir.certificates.check import Check
from quasir.certificates.curve import Curve
from quasir.certificates.tradeoff import tradeoff
from quasir.draws.draws import Draws
from quasir.errors import UnreachableError
from quasir.recipes import Recipe
from quasir.runs.sampling import Sampled, sample_run
from quasir.samplers.results import Samples

__all__ = ["Outcome", "choose_beta", "conclude"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Outcome:
    """What comes of a run's draws.

    Attributes
    ----------
    draws : Draws
    curve : Curve
    sampled : Sampled
        Samples, the certificate at their beta, and the checks.
    shortfalls : tuple of str
        What the recipe asked for and did not get; also among the certificate's doubts.
    """

    draws: Draws
    curve: Curve
    sampled: Sampled
    shortfalls: tuple[str, ...]

    @property
    def certificate(self) -> Certificate:
        """At the beta that the recipe chooses."""
        return self.sampled.certificate

    @property
    def samples(self) -> Samples:
        """Accepted at that beta."""
        return self.sampled.samples

    @property
    def checks(self) -> tuple[Check, ...]:
        """Their moments beside the predicted ones."""
        return self.sampled.checks


def conclude(recipe: Recipe, draws: Draws, folder: object) -> Outcome:
    """Estimate, choose beta, and sample from the draws that are there; nothing is written.

    Raises
    ------
    UnreachableError
        Where not even the closest to what was asked is known.
    """
    curve = tradeoff(draws)
    certificate, why = choose_beta(curve, recipe.choose.wish)
    sampled = sample_run(draws, certificate, recipe.samples)
    shortfalls = [] if why is None else [why]
    found = len(sampled.samples)
    if found < recipe.samples:
        shortfalls.append(
            f"Only {found:,} of the {recipe.samples:,} samples asked for are among the draws: "
            f"`quasir sample {folder} -n {recipe.samples}` draws on until there are as many."
        )
    return Outcome(
        draws=draws,
        curve=curve,
        sampled=sampled.with_doubts(*shortfalls),
        shortfalls=tuple(shortfalls),
    )


def choose_beta(curve: Curve, wish: dict[str, float]) -> tuple[Certificate, str | None]:
    """Return the certificate that a wish asks for, or the best there is and why it is not that.

    Raises
    ------
    UnreachableError
        Where not even a best is known.
    """
    try:
        return curve.at(**wish), None
    except UnreachableError as error:
        if error.best is None or not curve.n_possible:
            raise
        beta = error.best.log_beta
        best = curve.at(log_beta=beta if beta > float("-inf") else float(curve.log_betas[0]))
        return best, f"What was asked could not be had, and this is the closest: {error}"
