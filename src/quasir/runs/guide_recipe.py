"""Fitting a guide towards a recipe's target, into the run that then draws with it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from quasir import guides, recipes
from quasir.core.files import write_text
from quasir.core.progress import Quiet, Reporter
from quasir.errors import InputError, StoreError
from quasir.recipes import Recipe
from quasir.recipes.building import Built, build, resolve
from quasir.recipes.paths import located, portable
from quasir.recipes.schema import Source
from quasir.runs.begun import keep_code
from quasir.runs.folders import must_be_possible
from quasir.store import MANIFEST, locked

if TYPE_CHECKING:
    from quasir.text import Guided

__all__ = ["guide_recipe"]

GUIDE = "guide.json"
"""The file of the fitted guide, inside the run's folder."""
SHARE = 0.2
"""The base's share where the fit begins."""


def guide_recipe(
    recipe: str,
    folder: Path,
    *,
    draws: int = 8192,
    allow_code: bool = False,
    seed: int | None = None,
    reporter: Reporter | None = None,
) -> Guided:
    """Fit a guide towards a recipe's target; return the guided model.

    What is boosted is the guide of the recipe's proposal, or the words of the features that the
    recipe wishes for. The recipe that is written into the run draws with the fitted guide.

    Parameters
    ----------
    recipe : str
        A built-in recipe's name, a YAML file, or a run's folder.
    folder : Path
        Folder of the run.
    draws : int
        Of the pilot.
    allow_code : bool
        Whether the recipe's own Python features may be run.
    seed : int, optional
        Instead of the recipe's.
    reporter : Reporter, optional
    """
    from quasir.text import CausalLM, Guided

    reporter = reporter or Quiet()
    must_be_possible(folder)
    with locked(folder):
        if (folder / MANIFEST).exists():
            raise StoreError(
                f"{folder} holds draws already, of another proposal: fit into another folder with "
                "--out."
            )
        source = recipes.find(recipe)
        asked = located(recipes.read(source, seed=seed), source.parent)
        own = asked.proposal.guide is not None and asked.proposal.guide.file is None
        plain = asked if own else asked.model_copy(update={"proposal": Source()})
        built = build(plain, source.parent, allow_code)
        if not isinstance(built.base, CausalLM):
            raise InputError("only a causal language model can have a guide; the base is none.")
        with reporter.stage("fitting") as report:
            resolved, target = resolve(plain, built, report)
        begun = built.proposal if own else built.base.guided(_boost(asked, built), SHARE)
        assert isinstance(begun, Guided)
        reporter.say(f"fitting the guide on {draws:,} draws")
        with reporter.stage("fitting") as report:
            fitted = begun.fit(target, n=draws, seed=resolved.seed, progress=report)
        folder.mkdir(parents=True, exist_ok=True)
        keep_code(asked, source.parent, folder)
        fitted.guide.save(folder / GUIDE)
        proposal = Source.model_validate({"guide": {"file": GUIDE}, "share": fitted.share})
        final = resolved.model_copy(update={"proposal": proposal})
        write_text(folder / "recipe.yaml", recipes.dump(portable(final, folder)))
    return fitted


def _boost(recipe: Recipe, built: Built) -> guides.Boost:
    """Return the boost of the words that the recipe wishes for."""
    wished = [name for name in (*recipe.want, *recipe.coefficients) if recipe.want.get(name) != 0]
    words = [built.features[name] for name in wished if built.features[name].word_groups]
    if not words:
        raise InputError(
            "none of the wished features looks for words, so there is nothing to boost: give the "
            "words yourself, as in proposal: {guide: {boost: [word]}, share: 0.2}."
        )
    return guides.boost(words)
