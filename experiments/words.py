"""Texts of `quasir/general` that have a word: pools of plain, prompted, guided and tuned proposals.

A guide needs no tuning: its one factor is fitted on a pilot. The tuned model is tuned by DPG, from
draws with that guide, since the plain model has the word in too few texts to learn from.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import quasir as qr
from experiments.results import Place
from quasir.core.files import make_folder, write_json
from quasir.recipes import read_run
from quasir.runs.tune import GUIDE, guide_recipe

__all__ = ["guided", "plain", "prompted", "recipe_of", "tuned"]

MODEL, TOKENS = "quasir/general", 40
PILOT = 4096
RANK, ROUND, DRAWS_A_STEP = 8, 4096, 100
"""The adapter's rank, draws a round, and draws of a pool for each step of tuning."""
MOST_STEPS = 600


def recipe_of(word: str, proposal: Any = "base") -> dict[str, Any]:
    """Return the recipe: P(x) = a(x) [x has the word]."""
    return {
        "base": MODEL,
        "features": {word: {"words": [word]}},
        "want": {word: 1.0},
        "proposal": proposal,
        "max_tokens": TOKENS,
        "samples": 20,
    }


def plain(place: Place, word: str, draws: int | None = None) -> Path:
    """Return the pool that proposes from the model itself."""
    return place.pool(f"{word}-plain", recipe_of(word), draws)


def prompted(place: Place, word: str, name: str, prompt: str, draws: int | None = None) -> Path:
    """Return the pool that proposes from the model after a prompt."""
    return place.pool(f"{word}-{name}", recipe_of(word, {"prompt": prompt}), draws)


def guided(place: Place, word: str, draws: int | None = None) -> Path:
    """Return the pool that proposes with a boost of the word, fitted on a pilot."""
    folder = place.out / "pools" / f"{word}-guide"
    if not (folder / "recipe.yaml").is_file():
        make_folder(place.out)
        asked = place.out / f"{word}.yaml"
        write_json(asked, recipe_of(word))  # JSON is YAML
        guide_recipe(str(asked), folder, draws=min(PILOT, place.draws))
    return place.pool(folder.name, str(folder), draws)


def tuned(place: Place, word: str, draws: int | None = None) -> Path:
    """Return the pool that proposes from the model tuned by DPG, half and half with the base."""
    folder = place.out / "tuned" / word
    adapter = {"adapter": str(folder.resolve())}
    name = f"{word}-tuned"
    if not (folder / "tuning.json").is_file():
        base = qr.text.CausalLM(MODEL, max_tokens=TOKENS)
        kept = place.out / "pools" / f"{word}-guide"
        guided(place, word, min(PILOT, place.draws))
        guide = qr.guides.load(kept / GUIDE)
        share = read_run(kept).proposal.share or 0.0
        qr.tuning.DPG(
            base * qr.features.words([word], name=word),
            base,
            lora=RANK,
            steps=min(MOST_STEPS, max(20, place.draws // DRAWS_A_STEP)),
            draws=min(ROUND, place.draws),
            warm_start=base.guided(guide, share),
            out=folder,
        ).run()
    return place.pool(name, recipe_of(word, {"mixture": [adapter, "base"]}), draws)
