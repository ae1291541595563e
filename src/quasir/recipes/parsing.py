"""Reading and checking recipes in YAML; a message names a mistake's file and line, and a remedy."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError

from quasir.core.formatting import escaped, short_repr
from quasir.errors import RecipeError
from quasir.features import NAMED
from quasir.features.similarity import is_installed
from quasir.recipes.parts import Part, SimilaritySpec
from quasir.recipes.placeholders import fill_one
from quasir.recipes.schema import Recipe, Source
from quasir.recipes.yaml_tree import LARGEST_TEXT, Node, Place, decode, read_as, read_tree

FOLDER = Path(__file__).parent / "built_in"
BUILT_IN = {path.stem: path for path in sorted(FOLDER.glob("*.yaml"))}
"""The recipes that come with the package, by name."""
MOST = 20  # most mistakes to tell at once
WANTED = {
    "model_type": "must be a mapping, as in {name: value}",
    "dict_type": "must be a mapping, as in {name: value}",
    "list_type": "must be a list, as in [first, second]",
    "bool_type": "must be true or false, without quotes",
    "float_type": "must be a number, without quotes",
    "int_type": "must be an integer, in digits and without quotes",
}
Mistakes = Iterator[tuple[str, list[Any]]]
"""Messages, each with the keys and indices that lead to its line."""


def find(name: str | Path) -> Path:
    """Return the file of a recipe: a path, the folder of a run, or the name of a built-in one."""
    path = Path(name)
    try:
        if path.is_dir():
            path = path / "recipe.yaml"
        if path.is_file():
            return path
    except OSError as error:
        raise RecipeError(
            f"no recipe {short_repr(str(name))} can be read: {error.strerror}."
        ) from error
    if str(name) in BUILT_IN:
        return BUILT_IN[str(name)]
    hint = _did_you_mean(str(name)[:80], BUILT_IN) or "There is no such file."
    raise RecipeError(
        f"no recipe {short_repr(str(name), 200)}: {hint} Built in are {', '.join(BUILT_IN)}."
    )


def read(path: Path, context: str | None = None, **changes: Any) -> Recipe:
    """Read a recipe's file; `changes` replace its fields, unless they are None."""
    made = parse(_read_text(path), str(path), **changes)
    return made if context is None else fill_one(made, context)


def read_run(folder: Path) -> Recipe:
    """Read the recipe that a run keeps."""
    return read(folder / "recipe.yaml")


def parse(text: str, file: str, **changes: Any) -> Recipe:
    """Check a recipe's text."""
    tree = read_tree(text, file)
    if not isinstance(tree.content, dict):
        raise Place(file).error("a recipe is a mapping that begins with base: ...")
    value = tree.plain()
    value |= {key: change for key, change in changes.items() if change is not None}
    try:
        recipe = Recipe.model_validate(value)
    except ValidationError as error:
        raise _in_words(error, tree, file) from error
    for message, steps in _mistakes(recipe):
        raise Place(file, tree.find(steps)[0]).error(message)
    return recipe.changed(_choose_installed)


class _Plain(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True  # what stands in a dictionary twice is written twice


def from_dict(value: Mapping[str, Any], context: str | None = None, **changes: Any) -> Recipe:
    """Check a recipe that is given as a dictionary, as its YAML file would hold it."""
    if not isinstance(value, Mapping):
        raise RecipeError(f"a recipe is a mapping, {{'base': ...}}, but not {short_repr(value)}.")
    try:
        text = yaml.dump(dict(value), Dumper=_Plain, sort_keys=False, allow_unicode=True)
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        raise RecipeError(
            f"a recipe may hold only texts, numbers, lists and mappings: {escaped(str(error), 300)}"
        ) from error
    made = parse(text, "recipe", **changes)
    return made if context is None else fill_one(made, context)


def dump(recipe: Recipe) -> str:
    """Return a recipe as YAML; most fields that have their default are left out."""
    plain = recipe.model_dump(by_alias=True, exclude_defaults=True, mode="json")
    # A proposal takes from the base what it leaves out, so what it gives is kept, defaults too.
    proposal = recipe.proposal.model_dump(exclude_unset=True, mode="json")
    given = {"proposal": proposal or "base"} if "proposal" in recipe.model_fields_set else {}
    always = {"draws": recipe.draws, "max_tokens": recipe.max_tokens, "seed": recipe.seed}
    if "samples" in recipe.model_fields_set:
        always["samples"] = recipe.samples
    return yaml.safe_dump(plain | given | always, sort_keys=False, allow_unicode=True, width=95)


def _choose_installed(part: Part) -> dict[str, Any]:
    """Make a similarity name one model: the package under `instead`, if it is installed."""
    if not isinstance(part, SimilaritySpec) or not part.instead:
        return {}
    ((package, above),) = part.instead.items()
    chosen = {"model": package, "above": above} if is_installed(package) else {}
    return {**chosen, "instead": None}


def _read_text(path: Path) -> str:
    name = escaped(str(path), 300)
    try:
        if not path.is_file():
            kind = "is no file" if path.exists() else "does not exist"
            raise RecipeError(f"{name} {kind}: give the file of a recipe, in YAML.")
        with path.open("rb") as file:
            content = file.read(4 * LARGEST_TEXT + 1)
    except OSError as error:
        raise RecipeError(f"{name} cannot be read: {error.strerror or error}.") from error
    if len(content) > 4 * LARGEST_TEXT:
        most = f"at most {LARGEST_TEXT:,} characters are read"
        raise RecipeError(f"{name}, line 1: the file is too large: {most}.")
    return decode(content, name, RecipeError)


def _in_words(error: ValidationError, tree: Node, file: str) -> RecipeError:
    """Return the mistakes that pydantic found as one error, a line each."""
    mistakes = error.errors(include_url=False, include_context=False)
    messages = list(dict.fromkeys(str(_message(m, tree, file)) for m in mistakes[: 5 * MOST]))
    more = len(messages) - MOST + max(0, len(mistakes) - 5 * MOST)
    if more > 0:
        messages = [*messages[:MOST], f"... and {more:,} more mistakes"]
    return RecipeError("\n".join(messages))


def _message(mistake: Any, tree: Node, file: str) -> RecipeError:
    steps = [step for step in mistake["loc"] if step != "[key]"]
    line, node = tree.find(steps)
    place = Place(file, line)
    where = escaped(".".join(str(step) for step in steps), 120) or "recipe"
    kind, value = mistake["type"], mistake["input"]
    if kind == "extra_forbidden":
        known = _known_keys(steps)
        hint = _did_you_mean(str(steps[-1])[:80], known) or f"known are {', '.join(known)}"
        if len(steps) > 1 and steps[-1] in Recipe.model_fields:
            hint = f"{steps[-1]} stands at the top of a recipe, beside base"
        return place.error(f"{where} is not known here; {hint}")
    if kind == "missing":
        return place.error(f"{where} is missing")
    written = escaped(node.raw) if node.raw and node.content == value else short_repr(value)
    if kind == "string_type" and not isinstance(value, (str, dict, list)):
        return place.error(
            f"{where} must be a text, but YAML reads {written} as {read_as(value)}: quote it, as "
            f'in "{written}"'
        )
    said = (
        mistake["msg"]
        .removeprefix("Value error, ")
        .removesuffix(".")
        .replace("Input should be", "must be", 1)
    )
    message = f"{where}: {WANTED.get(kind, said)}"
    if not isinstance(value, (dict, BaseModel)):
        is_number = isinstance(node.content, (int, float))
        message += f" (given {written if is_number else short_repr(value)})"
    return place.error(message)


def _did_you_mean(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), 1, cutoff=0.5)
    return f"did you mean {escaped(close[0])}?" if close else ""


def _known_keys(steps: list[Any]) -> list[str]:
    part: type[BaseModel] = Recipe
    named = False  # whether the next step is a name that the user chose
    for step in steps[:-1]:
        field = None if named else part.model_fields.get(str(step))
        named = field is not None and get_origin(field.annotation) is dict
        part = (field and _part_in(field.annotation)) or part
    return [field.alias or name for name, field in part.model_fields.items()]


def _part_in(kind: Any) -> type[BaseModel] | None:
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return kind
    return next(filter(None, map(_part_in, get_args(kind))), None)


def _mistakes(recipe: Recipe) -> Mistakes:
    """Yield what is wrong with a recipe whose parts are right one by one."""
    asked = {"want": recipe.want, "lambda": recipe.coefficients, "fitted": recipe.fitted}
    for field, names in asked.items():
        for name in names:
            if name not in recipe.features:
                hint = _did_you_mean(name, recipe.features) or (
                    f"describe it, as in features: {{{short_repr(name)}: {{contains: "
                    f"{short_repr(name)}}}}}; built in are {', '.join(NAMED)}."
                )
                yield f"there is no feature {short_repr(name)}: {hint}", [field, name]
    for name, moment in recipe.want.items():
        if recipe.features[name].is_boolean and not 0 <= moment <= 1:
            said = f"is true or false, so its mean is between 0 and 1, but {moment:g} is wanted"
            yield f"{escaped(name)} {said}", ["want", name]
    for name in recipe.coefficients:
        if name in recipe.want:
            said = "a tilt is given under lambda, a constraint under want, and this is under both"
            yield f"{escaped(name)}: {said}", ["lambda", name]
    for name in recipe.fitted:
        if name not in recipe.want:
            said = "has a lambda under fitted, but no constraint under want: a tilt goes to lambda"
            yield f"{escaped(name)} {said}", ["fitted", name]
        elif recipe.want[name] in (0.0, 1.0) and recipe.features[name].is_boolean:
            said = "holds for every item, so it has no lambda: leave it out of fitted"
            yield f"{escaped(name)} {said}", ["fitted", name]
    if recipe.fitted and recipe.unfitted:
        said = f"fitted has no lambda of {escaped(', '.join(recipe.unfitted))}"
        yield f"{said}: give all of them, or leave fitted out", ["fitted"]
    base = recipe.base
    if base.given(("mixture", "round_trip", "source")):
        yield "a base is a causal model, a table or a Poisson", ["base"]
    if not base.given(("model", "server", "table", "poisson")):
        yield "base names no model, server, table or Poisson", ["base"]
    for field, source in (("base", base), ("proposal", recipe.proposal)):
        if "weight" in source.model_fields_set:
            yield (
                f"a weight goes only in a mixture, and {field} is none: leave it out",
                [field, "weight"],
            )
    if base.model is None and base.server is None:
        yield from _without_model(recipe.proposal, ["proposal"])


def _without_model(source: Source, steps: list[Any]) -> Mistakes:
    """Find settings of the base's model, where the base has no model."""
    for i, part in enumerate(source.mixture or []):
        yield from _without_model(part, [*steps, "mixture", i])
    if source.model is None and source.server is None and source.of_model:
        name = source.of_model[0]
        yield (
            f"{name} is a setting of a model, but the proposal names no model: give one",
            [*steps, name],
        )
