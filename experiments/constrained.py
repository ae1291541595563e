"""The pools of constrained biographies: by a model tuned by DPG, and by what a search found.

Section 3.2.2 and appendix A. The paper's proposals are models tuned by DPG; a built-in recipe names
boosts and a head that `proposal: auto` found.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from experiments.results import Place
from quasir import recipes
from quasir.core.files import make_folder, write_json
from quasir.core.progress import Lines
from quasir.runs.tune import TUNED, tune_recipe

__all__ = ["found", "has_found", "pool_name", "tuned"]

WANT = {
    "scientists": {"science": 1.0, "female": 0.5},
    "sports": {"sports": 1.0, "female": 0.5},
    "female": {"female": 0.5},
}
RANK, STEPS, ROUND = 16, 6000, 8192
"""Of DPG, where a model is tuned here: the adapter's rank, steps at most, and draws of a round."""


def pool_name(name: str) -> str:
    """Return the name of the pool of the tuned model."""
    return f"{name}-tuned"


def tuned(place: Place, name: str) -> Path:
    """Return the pool of the tuned model, after drawing what it lacks."""
    recipe: dict[str, Any] = {
        "base": place.models.biographies,
        "features": {feature: feature for feature in WANT[name]},
        "want": WANT[name],
        "samples": 1000,
    }
    if place.models.adapters is not None:
        recipe["fitted"] = recipes.read(recipes.find(name)).fitted
    if not place.has(pool_name(name)):
        adapters = place.models.adapters
        adapter = f"{adapters}-{name}" if adapters else _tune(place, name, recipe)
        recipe["proposal"] = {"adapter": adapter}
    return place.pool(pool_name(name), recipe)


def has_found(place: Place, name: str) -> bool:
    """Tell whether a search's proposal comes with the package, and a pool is there or wanted."""
    return place.models.adapters is not None and bool(place.draws or place.has(name))


def found(place: Place, name: str) -> Path:
    """Return the pool of the built-in recipe."""
    return place.pool(name, name)


def _tune(place: Place, name: str, recipe: dict[str, Any]) -> str:
    """Tune the model by DPG, once, and return the folder of its adapter."""
    folder = place.out / "tuned" / name
    file = folder.with_suffix(".yaml")
    make_folder(folder)
    write_json(file, recipe)  # JSON is YAML
    if not (folder / TUNED / "tuning.json").is_file():
        tune_recipe(
            str(file), folder, lora=RANK, steps=STEPS, draws=ROUND, seed=0, reporter=Lines()
        )
    return str((folder / TUNED).resolve())
