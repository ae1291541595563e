"""`quasir compare`: other samplers beside QRS on the draws of a recipe."""

from __future__ import annotations

import json as jsonlib
import math
import shutil
from typing import Annotated

from typer import Option

from quasir.cli.bar import Bars, say
from quasir.cli.options import (
    MOST_DRAWS,
    MOST_SAMPLES,
    AllowCode,
    Draws,
    Json,
    Out,
    RecipeName,
    Seed,
)
from quasir.compare import SAMPLERS, compare_recipe
from quasir.compare.sampler_table import WIDTH, samplers_markdown
from quasir.errors import InputError


def compare(
    recipe: RecipeName,
    samplers: Annotated[
        str, Option(help=f"Samplers, with commas: {', '.join(SAMPLERS)}.")
    ] = "qrs,imh,imh-reset",
    rates: Annotated[str, Option(help="Samples per proposal, with commas.")] = "1e-1,1e-3",
    n: Annotated[int, Option("-n", min=1, max=MOST_SAMPLES, help="Samples of a run.")] = 1000,
    runs: Annotated[
        int, Option(min=1, max=100_000, help="Runs of each sampler at each rate.")
    ] = 10,
    burn_in: Annotated[
        int, Option(min=0, max=MOST_SAMPLES, help="Burn-in of chains that are not reset.")
    ] = 1000,
    draws: Draws = None,
    out: Out = None,
    allow_code: AllowCode = False,
    json: Json = False,
    seed: Seed = None,
) -> None:
    """Compare samplers at equal cost, on stored draws.

    Shows moments, perplexity, Self-BLEU, unique samples, TVD and KL, over runs on disjoint
    stretches of the draws. Where the draws are too few, a run has fewer samples, and the
    table says so. Where the draws are there, no model is loaded.
    Writes compare/samplers.csv and .md into the run.

    Example: quasir compare scientists --rates 1e-1,1e-2 -n 1000 --runs 10
    """
    folder, found = compare_recipe(
        recipe,
        [name.strip() for name in samplers.split(",") if name.strip()],
        [_rate(rate) for rate in rates.split(",") if rate.strip()],
        n=n,
        runs=runs,
        burn_in=burn_in,
        draws=draws,
        out=out,
        allow_code=allow_code,
        seed=seed,
        reporter=Bars(),
    )
    if json:
        print(jsonlib.dumps({"run": str(folder)} | found.to_dict()))
    else:
        # The terminal's width, but at least 80 and at most WIDTH columns.
        width = min(WIDTH, max(80, shutil.get_terminal_size((WIDTH, 24)).columns))
        print(samplers_markdown(found, folder.name, width), end="")
    say(f"written: samplers.md and samplers.csv in {folder / 'compare'}")


def _rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = math.nan
    if not 1 / MOST_DRAWS <= rate <= 1:
        raise InputError(
            f"a rate is {text.strip()[:40]!r}, but must be a number above 0 and at most 1, as in "
            f"--rates 1e-1,1e-3, and not below {1 / MOST_DRAWS:g}."
        )
    return rate
