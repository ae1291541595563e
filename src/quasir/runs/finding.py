"""The search for a run's proposal, where its recipe asks for one (`proposal: auto`).

What is found is a file of the run, and the run's recipe names it: from then on nothing is searched.
The draws of the search are kept until then, so that a run that was killed goes on.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from quasir.core.progress import Progress
from quasir.errors import InputError
from quasir.estimation.quantities import GUARANTEED
from quasir.recipes.building import build, resolve
from quasir.recipes.schema import Recipe, Source

FILE = "proposal.safetensors"
"""The proposal that was found, inside the run's folder."""
DRAWS = "search"
"""The folder of the search's draws, inside the run's folder; it goes once the proposal is there."""


def find_proposal(
    recipe: Recipe,
    folder: Path,
    *,
    budget: int | None = None,
    allow_code: bool = False,
    progress: Progress = False,
) -> Recipe:
    """Return the recipe with a proposal, which is searched unless the folder has it already.

    The folder holds the recipe's own files. Lambdas that the recipe leaves out are fitted on draws
    of the base, for the search and for the run.
    """
    from quasir.text import CausalLM
    from quasir.text.found import save_proposal
    from quasir.text.search import BUDGET, propose

    built = build(recipe.model_copy(update={"proposal": Source()}), folder, allow_code)
    if not isinstance(built.base, CausalLM):
        raise InputError(
            "proposal: auto searches a proposal on a causal language model, and the base is none: "
            "name the proposal, or leave it out to draw from the base."
        )
    resolved, target = resolve(recipe, built, progress)
    if not (folder / FILE).is_file():
        asked = recipe.choose.asked
        q = propose(
            target,
            built.base,
            budget or BUDGET,
            recipe.seed,
            progress,
            tvd=next((asked[name] for name in GUARANTEED[:2] if name in asked), 0.1) or 0.1,
            confidence=asked.get("confidence", 0.95),
            draws=recipe.draws,
            folder=folder / DRAWS,
        )
        save_proposal(q, folder / FILE)
        shutil.rmtree(folder / DRAWS, ignore_errors=True)
    named = Source.model_validate({"guide": {"file": FILE}})
    return resolved.model_copy(update={"proposal": named})
