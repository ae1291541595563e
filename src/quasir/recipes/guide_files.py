"""Making the guide that a recipe names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from quasir import guides
from quasir.core.formatting import shown
from quasir.errors import QuasirError, RecipeError
from quasir.recipes.guide_schema import GuideSpec
from quasir.targets.feature import Feature

__all__ = ["BUILT_IN_GUIDES", "guide_of"]

BUILT_IN_GUIDES = {
    f"quasir/{path.name.removesuffix('-guide.json')}": path
    for path in sorted((Path(__file__).parent / "built_in").glob("*-guide.json"))
}
"""The guides that come with the package, by name."""


def guide_of(spec: GuideSpec, features: Mapping[str, Feature], folder: Path) -> guides.Guide:
    """Return the guide of a recipe in `folder`, whose features are `features`."""
    if spec.file is not None:
        path = BUILT_IN_GUIDES.get(spec.file, folder / spec.file)
        if not path.is_file():
            raise RecipeError(
                f"there is no file {shown(str(path), 200)}, which a guide names; built in are "
                f"{', '.join(BUILT_IN_GUIDES)}."
            )
        return guides.load(path)
    parts: list[guides.Guide] = []
    for name in spec.mask or []:
        languages = getattr(features.get(name), "languages", None)
        if languages is None:
            raise RecipeError(
                f"the guide's mask names {shown(name)}, but no feature of this recipe is a "
                "language of that name: features: {valid: {language: {json_schema: ...}}}."
            )
        parts += languages
    if spec.boost is not None:
        given = spec.boost if isinstance(spec.boost, dict) else dict.fromkeys(spec.boost)
        try:
            parts.append(guides.boost({features.get(n, n): f for n, f in given.items()}))
        except QuasirError as error:
            raise RecipeError(f"the guide's boost: {error}") from error
    made = parts[0]
    for part in parts[1:]:
        made = made * part
    return made
