"""Runs of format 1: their random streams had a defect where the proposal is a mixture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

__all__ = ["mixture_doubt"]

SHARED = (
    "This run was begun with the random streams of format 1. In those, the first part of a mixture "
    "draws with the same random bits that decide on acceptance. So some of the first draws of each "
    "block of 1,024 decide on their own acceptance, and the samples do not quite follow p_beta. "
    "The trade-off uses no such decision and is right. For correct samples, draw a new run."
)


def mixture_doubt(folder: Path) -> tuple[str, ...]:
    """Return the doubt on a run of format 1, or nothing if its proposal is not a mixture."""
    import yaml

    try:
        recipe = yaml.safe_load((folder / "recipe.yaml").read_text())
    except (OSError, ValueError, yaml.YAMLError):
        return (f"If the proposal was a mixture: {SHARED[0].lower()}{SHARED[1:]}",)
    source = recipe if isinstance(recipe, dict) else {}
    proposal = source.get("proposal", "base")
    drawn_from = source.get("base") if proposal in ("base", {}) else proposal
    return (SHARED,) if _has_mixture(drawn_from) else ()


def _has_mixture(source: Any) -> bool:
    return isinstance(source, dict) and source.get("mixture") is not None
