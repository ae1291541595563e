"""The results from a run's draws: the trade-off, the chosen beta, samples and checks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from quasir.certificates.certificate import Certificate, Choice
from quasir.certificates.check import Check, WantedMoment, wanted_moments
from quasir.certificates.choice import certificate_at
from quasir.certificates.curve import Curve
from quasir.draws.draws import Draws
from quasir.errors import UnreachableError
from quasir.recipes import Recipe
from quasir.recipes.placeholders import prompt_fields
from quasir.runs.integrity import command
from quasir.runs.sampling import Sampled, sample_run
from quasir.samplers.results import Samples

__all__ = ["Outcome", "choose_beta", "conclude", "unfilled"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Outcome:
    """The results from a run's draws.

    Attributes
    ----------
    draws : Draws
    curve : Curve
    sampled : Sampled
        Samples, the certificate at their beta, and the checks.
    shortfalls : tuple of str
        What the recipe asked for and did not get; also among the certificate's warnings.
    wanted : tuple of WantedMoment
        Each wanted moment, with the moment that the target has.
    """

    draws: Draws
    curve: Curve
    sampled: Sampled
    shortfalls: tuple[str, ...]
    wanted: tuple[WantedMoment, ...] = ()

    @property
    def certificate(self) -> Certificate:
        """The certificate at the beta that the recipe chooses."""
        return self.sampled.certificate

    @property
    def samples(self) -> Samples:
        """The samples accepted at that beta."""
        return self.sampled.samples

    @property
    def checks(self) -> tuple[Check, ...]:
        """The samples' moments, compared with the predicted ones."""
        return self.sampled.checks


def conclude(recipe: Recipe, draws: Draws, curve: Curve, folder: str | Path) -> Outcome:
    """Choose beta, and sample from the stored draws; nothing is written."""
    certificate, why = choose_beta(curve, recipe.choose.asked)
    sampled = sample_run(draws, certificate, recipe.samples)
    shortfalls = [] if why is None else [why]
    shortfalls += unfilled(recipe)
    found = len(sampled.samples)
    if found < recipe.samples:
        shortfalls.append(
            f"Only {found:,} of the {recipe.samples:,} samples asked for are among the draws: "
            f"`{command('sample', folder, '-n', recipe.samples, recipe=recipe)}` draws more until "
            "there are enough."
        )
    boolean = [name for name, column in draws.features.items() if column.dtype == bool]
    wanted = wanted_moments(curve, certificate, recipe.want, boolean)
    shortfalls += [one.warning for one in wanted if one.warning is not None]
    return Outcome(
        draws=draws,
        curve=curve,
        sampled=sampled.with_warnings(*shortfalls),
        shortfalls=tuple(shortfalls),
        wanted=wanted,
    )


def unfilled(recipe: Recipe) -> list[str]:
    """Return the warnings on prompts that look as if they had fields, in a run without contexts."""
    return [
        f"A prompt holds {{{name}}}, and this run has no contexts: the model read it as text. If a "
        "field was meant, begin a run with --contexts."
        for name in prompt_fields(recipe)
    ]


def choose_beta(curve: Curve, request: dict[str, float]) -> tuple[Certificate, str | None]:
    """Return the certificate for a request and None, or the closest one and why."""
    try:
        return curve.at(**request), None
    except UnreachableError as error:
        if error.best is None or not curve.n_possible:
            raise
        beta = error.best.log_beta
        level = beta if beta > float("-inf") else float(curve.log_betas[0])
        name, wanted = next((k, v) for k, v in request.items() if k != "confidence")
        choice = Choice(name, wanted, False)
        best = certificate_at(curve.evaluator, level, request.get("confidence", 0.95), choice)
        return best, f"The request could not be met, and this is the closest: {error}"
