"""Reading and checking recipes in YAML; a message names a mistake's file and line, and a remedy."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from quasir.errors import RecipeError
from quasir.recipes.schema import Choice, FeatureSpec, Recipe, RoundTripSpec, SimilaritySpec, Source

__all__ = ["BUILT_IN", "dump", "find", "from_dict", "parse", "read"]

FOLDER = Path(__file__).parent / "built_in"
BUILT_IN = {path.stem: path for path in sorted(FOLDER.glob("*.yaml"))}
"""The recipes that come with the package, by name."""

INSIDE: dict[str, type[BaseModel]] = {
    "base": Source,
    "proposal": Source,
    "mixture": Source,
    "round_trip": RoundTripSpec,
    "similarity": SimilaritySpec,
    "choose": Choice,
}
"""The part of a recipe under each key, for suggestions."""


def find(name: str | Path) -> Path:
    """Return the file of a recipe: a path, the folder of a run, or the name of a built-in one."""
    path = Path(name)
    if path.is_dir():
        path = path / "recipe.yaml"
    if path.is_file():
        return path
    if str(name) in BUILT_IN:
        return BUILT_IN[str(name)]
    close = difflib.get_close_matches(str(name), BUILT_IN, 1)
    hint = f"did you mean {close[0]}? " if close else ""
    raise RecipeError(
        f"no recipe {str(name)!r}: {hint}There is no such file, and built in are "
        f"{', '.join(BUILT_IN)}."
    )


def read(path: Path, **changes: Any) -> Recipe:
    """Read a recipe's file; `changes` replace its fields, unless they are None."""
    return parse(path.read_text(encoding="utf-8"), str(path), **changes)


def parse(text: str, file: str, **changes: Any) -> Recipe:
    r"""Check a recipe's text.

    Examples
    --------
    >>> parse("base: {poisson: 11}\ndraw: 100", "my.yaml")
    Traceback (most recent call last):
    ...
    quasir.errors.RecipeError: my.yaml, line 2: draw is not known here; did you mean draws?
    """
    try:
        tree = yaml.compose(text, Loader=yaml.SafeLoader)
        value = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise RecipeError(f"{file}, line {line}: this is no YAML: {error.problem}") from error
    except yaml.YAMLError as error:
        raise RecipeError(f"{file}: this is no YAML: {error}") from error
    if not isinstance(value, dict):
        raise RecipeError(f"{file}, line 1: a recipe is a mapping that begins with base: ...")
    doubled = _doubled(tree)
    if doubled is not None:
        raise RecipeError(
            f"{file}, line {doubled.start_mark.line + 1}: {doubled.value} is given twice; only the "
            "last would count"
        )
    value |= {key: change for key, change in changes.items() if change is not None}
    try:
        recipe = Recipe.model_validate(value)
    except ValidationError as error:
        messages = [_message(mistake, tree, file) for mistake in error.errors()]
        raise RecipeError("\n".join(dict.fromkeys(messages))) from error
    _check(recipe, tree, file)
    return recipe


def from_dict(value: Mapping[str, Any], **changes: Any) -> Recipe:
    """Check a recipe that is given as a dictionary, as its YAML file would hold it."""
    try:
        text = yaml.safe_dump(dict(value), sort_keys=False, allow_unicode=True)
    except yaml.YAMLError as error:
        raise RecipeError(
            f"a recipe may hold only texts, numbers, lists and mappings: {error}"
        ) from error
    return parse(text, "recipe", **changes)


def dump(recipe: Recipe) -> str:
    """Return a recipe as YAML; most fields that have their default are left out."""
    plain = recipe.model_dump(by_alias=True, exclude_defaults=True, mode="json")
    always = {"draws": recipe.draws, "max_tokens": recipe.max_tokens, "seed": recipe.seed}
    return yaml.safe_dump(plain | always, sort_keys=False, allow_unicode=True, width=95)


def _message(mistake: Any, tree: yaml.Node, file: str) -> str:
    place = list(mistake["loc"])
    line = _line(tree, place)
    where = ".".join(str(part) for part in place)
    if mistake["type"] == "extra_forbidden":
        close = difflib.get_close_matches(str(place[-1]), _known(place), 1, cutoff=0.5)
        hint = f"; did you mean {close[0]}?" if close else f"; known are {', '.join(_known(place))}"
        return f"{file}, line {line}: {where} is not known here{hint}"
    if mistake["type"] == "missing":
        return f"{file}, line {line}: {where} is missing"
    message = mistake["msg"].removeprefix("Value error, ")
    shown = "" if isinstance(mistake["input"], dict) else repr(mistake["input"])
    given = f" (given {shown})" if 0 < len(shown) < 60 else ""
    return f"{file}, line {line}: {where or 'recipe'}: {message}{given}"


def _known(place: list[Any]) -> list[str]:
    """Return the known keys at the place of a wrong one."""
    part: type[BaseModel] = Recipe
    for step in place[:-1]:
        if isinstance(step, str) and step in INSIDE:
            part = INSIDE[step]
        elif step == "features" or (len(place) > 2 and place[0] == "features"):
            part = FeatureSpec if part is Recipe else part
    return [field.alias or name for name, field in part.model_fields.items()]


def _line(tree: yaml.Node, place: list[Any]) -> int:
    """Return the line of the deepest existing node on the way to `place`."""
    node, line = tree, tree.start_mark.line
    for step in place:
        if isinstance(node, yaml.MappingNode):
            pairs = {key.value: (key, value) for key, value in node.value}
            if str(step) not in pairs:
                break
            key, node = pairs[str(step)]
            line = key.start_mark.line
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int):
            if step >= len(node.value):
                break
            node = node.value[step]
            line = node.start_mark.line
    return int(line) + 1


def _doubled(node: yaml.Node) -> yaml.Node | None:
    """Return a key that occurs twice in its mapping, if any; YAML silently keeps the last one."""
    children: list[yaml.Node] = []
    if isinstance(node, yaml.MappingNode):
        seen = set()
        for key, value in node.value:
            if key.value in seen:
                doubled: yaml.Node = key
                return doubled
            seen.add(key.value)
            children.append(value)
    elif isinstance(node, yaml.SequenceNode):
        children = node.value
    return next((found for child in children if (found := _doubled(child)) is not None), None)


def _check(recipe: Recipe, tree: yaml.Node, file: str) -> None:
    """Check fields that depend on each other."""
    for field, names in (("want", recipe.want), ("lambda", recipe.coefficients)):
        for name, number in names.items():
            line = _line(tree, [field, name])
            if name not in recipe.features:
                close = difflib.get_close_matches(name, recipe.features, 1, cutoff=0.5)
                hint = f"did you mean {close[0]}?" if close else "name it under features."
                raise RecipeError(f"{file}, line {line}: there is no feature {name!r}: {hint}")
            known = recipe.features[name].boolean and recipe.features[name].python is None
            if field == "want" and known and not 0 <= number <= 1:
                raise RecipeError(
                    f"{file}, line {line}: {name} is true or false, so its mean is between 0 and "
                    f"1, but {number:g} is wanted"
                )
    base = recipe.base
    if base.mixture is not None or base.round_trip is not None or base.source is not None:
        raise RecipeError(
            f"{file}, line {_line(tree, ['base'])}: a base is a causal model, a table or a Poisson"
        )
    if not base.given(("model", "table", "poisson")):
        raise RecipeError(
            f"{file}, line {_line(tree, ['base'])}: base names no model, table or Poisson"
        )
