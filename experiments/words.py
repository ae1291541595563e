"""A word in every text, on a general language model: the pools of Fig. 3 and of "amazing".

P(x) = a(x) [x contains the word], as in the paper: the string itself, with its capital.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import quasir as qr
from experiments.results import Place
from quasir.core.files import make_folder, write_json
from quasir.core.progress import Quiet
from quasir.runs.active_run import begin, prepare
from quasir.store import Store

__all__ = ["WORTH_IT", "can_have", "guided", "prompted", "searched", "tuned"]

TOKENS = 40
PILOT, SHARE, FACTOR = 1_024, 0.2, 1_000.0
"""Draws that a boost is fitted on, and the share of the base and the factor of a token before the
fit. A factor of 10 would leave a word that is in one text of a million out of most of the pilot.
"""
BUDGET = 4_096
"""Draws of the search for a proposal."""
WORTH_IT = 1_000
"""A search or a tuning takes thousands of draws: a pool of fewer is not worth it."""
RANK, STEPS, BATCH, ROUND = 8, 100, 16, 512
"""Of DPG: the adapter's rank, steps, texts of a step, and draws of a round.

The paper's model had far more.
"""


def can_have(large: Place, pool: str) -> bool:
    """Tell whether a pool that takes a search or a tuning is worth it, or is there already."""
    return large.draws >= WORTH_IT or (not large.draws and large.has(pool))


def recipe_of(place: Place, word: str, proposal: Any = "base") -> dict[str, Any]:
    """Return the recipe of a pool."""
    return {
        "base": place.models.general,
        "features": {word: {"contains": word}},
        "want": {word: 1.0},
        "proposal": proposal,
        "max_tokens": TOKENS,
        "samples": 20,
    }


def prompted(place: Place, word: str, name: str, prompt: str | list[dict[str, str]]) -> Path:
    """Return the pool that proposes from the model after a prompt or a chat."""
    kind = "prompt" if isinstance(prompt, str) else "chat"
    return place.pool(f"{word}-{name}", recipe_of(place, word, {kind: prompt}))


def guided(place: Place, word: str) -> Path:
    """Return the pool that proposes with a boost of the word, fitted on a pilot and then kept."""
    file = place.out / f"{word}-boost.json"
    if not file.is_file():
        make_folder(place.out)
        base, feature = _base(place), qr.features.contains(word, name=word)
        begun = base.guided(qr.guides.boost({feature: FACTOR}), SHARE)
        q = begun.fit(base * feature, n=PILOT, seed=0)
        proposal = {"guide": {"file": file.name}, "share": q.share}
        write_json(file.with_suffix(".yaml"), recipe_of(place, word, proposal))  # JSON is YAML
        q.guide.save(file)
    return place.pool(f"{word}-boost", str(file.with_suffix(".yaml")))


def searched(place: Place, word: str) -> Path:
    """Return the pool of the proposal that `auto` found: boosts, a head, and the base."""
    return place.pool(f"{word}-auto", recipe_of(place, word, "auto"), budget=BUDGET)


def tuned(place: Place, word: str) -> Path:
    """Return the pool of the model tuned by DPG, from draws of what `auto` found to begin with.

    The first draws, of which DPG wants 200 effective ones, are at most as many as those of a pool.
    """
    folder = place.out / "tuned" / word
    if not (folder / "tuning.json").is_file():
        base, found = _base(place), proposal_of(searched(place, word))
        qr.tuning.DPG(
            base * qr.features.contains(word, name=word),
            base,
            lora=RANK,
            steps=STEPS,
            batch=BATCH,
            draws=ROUND,
            give_up=max(place.draws, 2 * ROUND),
            warm_start=found,
            out=folder,
        ).run()
    return place.pool(f"{word}-dpg", recipe_of(place, word, {"adapter": str(folder.resolve())}))


def proposal_of(pool: Path) -> Any:
    """Return the proposal of a pool."""
    order = prepare(str(pool), pool, draws=len(Store.open(pool)))
    return begin(order, reporter=Quiet()).pair[1]


def _base(place: Place) -> qr.text.CausalLM:
    return qr.text.CausalLM(place.models.general, max_tokens=TOKENS)
