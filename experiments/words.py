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
from quasir.recipes import read

__all__ = ["guide_of", "guided", "plain", "prompted", "recipe_of", "tuned"]

MODEL, TOKENS = "quasir/general", 40
PILOT, SHARE = 4096, 0.2
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


def guide_of(place: Place, word: str) -> tuple[qr.guides.Guide, float]:
    """Return the boost of the word and the share of the base, fitted on a pilot and then kept."""
    file, pilot = place.out / f"{word}-guide.json", min(PILOT, place.draws)
    if not file.is_file():
        make_folder(place.out)
        base, feature = qr.text.CausalLM(MODEL, max_tokens=TOKENS), qr.features.words([word])
        q = base.guided(qr.guides.boost(feature), SHARE).fit(base * feature, n=pilot, seed=0)
        proposal = {"guide": {"file": file.name}, "share": q.share}
        write_json(file.with_suffix(".yaml"), recipe_of(word, proposal))  # JSON is YAML
        q.guide.save(file)
    share = read(file.with_suffix(".yaml")).proposal.share or 0.0
    return qr.guides.load(file), share


def guided(place: Place, word: str, draws: int | None = None) -> Path:
    """Return the pool that proposes with a boost of the word, fitted on a pilot."""
    guide_of(place, word)
    return place.pool(f"{word}-guide", str(place.out / f"{word}-guide.yaml"), draws)


def tuned(place: Place, word: str, draws: int | None = None) -> Path:
    """Return the pool that proposes from the model tuned by DPG, half and half with the base."""
    folder = place.out / "tuned" / word
    adapter = {"adapter": str(folder.resolve())}
    name = f"{word}-tuned"
    if not (folder / "tuning.json").is_file():
        base = qr.text.CausalLM(MODEL, max_tokens=TOKENS)
        guide, share = guide_of(place, word)
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
