"""The search for a run's proposal, where its recipe asks for one (`proposal: auto`).

What is found is a file of the run, and the run's recipe names it: from then on nothing is searched.
The draws of the search are kept until then, so that a run that was killed goes on.
"""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

from quasir.core.files import write_bytes
from quasir.core.progress import Quiet, Reporter
from quasir.errors import InputError
from quasir.recipes.schema import Recipe, Source
from quasir.runs.contexts import Builder, Entry
from quasir.runs.fitting import fit_lambdas
from quasir.runs.integrity import recipe_hash

FILE = "proposal.safetensors"
"""The proposal that was found, inside the run's folder."""
DRAWS = "search"
"""The folder of the search, inside the run's folder."""


def find_proposal(
    recipe: Recipe,
    folder: Path,
    budget: int | None = None,
    allow_code: bool = False,
    reporter: Reporter | None = None,
) -> Recipe:
    """Return the recipe with a proposal, which is searched unless the folder has it already.

    The folder holds the recipe's own files. Lambdas that the recipe leaves out are fitted on draws
    of the base, for the search and for the run.
    """
    from quasir.text import CausalLM
    from quasir.text.found import read_proposal, save_proposal
    from quasir.text.search import BUDGET, propose

    reporter, plain = reporter or Quiet(), recipe.model_copy(update={"proposal": Source()})
    # Another recipe in the same folder has another search.
    search = folder / DRAWS / recipe_hash(plain)[:16]
    builder, entries = Builder(plain, folder, allow_code), [Entry.only(recipe.seed)]
    base = builder.built(entries[0]).base
    if not isinstance(base, CausalLM):
        raise InputError(
            "proposal: auto searches a proposal on a causal language model, and the base is none: "
            "name the proposal, or leave it out to draw from the base."
        )
    if plain.unfitted:
        plain, entries = fit_lambdas(plain, builder, entries, folder, reporter)
        builder.recipe = plain
    kept = search / FILE
    if not kept.is_file():
        asked, size = recipe.choose.asked, budget or BUDGET
        reporter.say(f"searching a proposal with {size:,} draws")
        with reporter.stage("searching") as report:
            q = propose(
                builder.pair(entries[0])[0],
                base,
                size,
                recipe.seed,
                report,
                tvd=min(asked.get("tvd", asked.get("truncated_mass", 0.1)) or 0.1, 1.0),
                confidence=asked.get("confidence", 0.95),
                draws=recipe.draws,
                folder=search,
            )
        save_proposal(q, kept)
        for file in search.glob("stage-*.npz"):
            file.unlink()
    write_bytes(folder / FILE, kept.read_bytes())
    reporter.say(str(read_proposal(kept).record))
    named = Source.model_validate({"guide": {"file": FILE}})
    return plain.model_copy(update={"proposal": named})


def refuse_contexts() -> NoReturn:
    """Refuse a search over contexts, and say how they can have what a search finds."""
    raise InputError(
        "proposal: auto searches for one context. Search with `quasir tune RECIPE --guide "
        "--context ...` for one of them, and name the file that it finds: proposal: {guide: "
        "{file: proposal.safetensors}} serves every context of the same model and features."
    )
