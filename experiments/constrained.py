"""The pools of constrained biographies, from models tuned by DPG (section 3.2.2, appendix A)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from experiments.results import Place
from quasir.core.files import make_folder, write_json
from quasir.core.progress import Lines
from quasir.runs.tune import TUNED, tune_recipe

__all__ = ["biographies", "pool_name"]

WANT = {
    "scientists": {"science": 1.0, "female": 0.5},
    "sports": {"sports": 1.0, "female": 0.5},
    "female": {"female": 0.5},
}
RANK, STEPS, ROUND = 16, 6000, 8192
"""Of DPG, where a model is tuned here: the adapter's rank, steps at most, and draws of a round."""


def pool_name(name: str) -> str:
    """Return the name of a pool: that of scientists says that its model is tuned, and no more."""
    return "scientists-tuned" if name == "scientists" else name


def biographies(place: Place, name: str) -> Path:
    """Return the pool of a constraint, after drawing what it lacks."""
    known = place.models.adapter
    if known is not None and name != "scientists":
        return place.pool(pool_name(name), name)  # as it comes with the package
    recipe: dict[str, Any] = {
        "base": place.models.biographies,
        "features": {feature: feature for feature in WANT[name]},
        "want": WANT[name],
        "samples": 1000,
    }
    if known is not None:
        recipe["fitted"] = {"female": 2.5035}
    if not place.has(pool_name(name)):
        recipe["proposal"] = {"adapter": known or tuned(place, name, recipe)}
    return place.pool(pool_name(name), recipe)


def tuned(place: Place, name: str, recipe: dict[str, Any]) -> str:
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
