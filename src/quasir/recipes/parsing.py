"""Reading and checking recipes in YAML; a message names a mistake's file and line, and a remedy."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from quasir.core.formatting import escaped, shown
from quasir.errors import RecipeError
from quasir.recipes.checks import check
from quasir.recipes.context import filled
from quasir.recipes.earlier import is_earlier, migrated
from quasir.recipes.installed import with_installed
from quasir.recipes.messages import in_words
from quasir.recipes.schema import Recipe
from quasir.recipes.yaml_tree import LARGEST_TEXT, read_tree

__all__ = ["BUILT_IN", "dump", "find", "from_dict", "parse", "read", "read_run"]

FOLDER = Path(__file__).parent / "built_in"
BUILT_IN = {path.stem: path for path in sorted(FOLDER.glob("*.yaml"))}
"""The recipes that come with the package, by name."""


def find(name: str | Path) -> Path:
    """Return the file of a recipe: a path, the folder of a run, or the name of a built-in one."""
    path = Path(name)
    try:
        if path.is_dir():
            path = path / "recipe.yaml"
        if path.is_file():
            return path
    except OSError as error:
        raise RecipeError(f"no recipe {shown(str(name))} can be read: {error.strerror}.") from error
    if str(name) in BUILT_IN:
        return BUILT_IN[str(name)]
    close = difflib.get_close_matches(str(name)[:80], BUILT_IN, 1)
    hint = f"did you mean {close[0]}? " if close else ""
    raise RecipeError(
        f"no recipe {shown(str(name), 200)}: {hint}There is no such file, and built in are "
        f"{', '.join(BUILT_IN)}."
    )


def read(path: Path, context: str | None = None, **changes: Any) -> Recipe:
    """Read a recipe's file; `changes` replace its fields, unless they are None.

    `context` fills ``{context}`` in its texts. The recipe of a run that an earlier version began is
    read as that version meant it.
    """
    text = _text_of(path)
    made = _parsed(text, str(path), changes, migrated if is_earlier(path.parent) else None)
    return made if context is None else filled(made, context)


def read_run(folder: Path) -> Recipe:
    """Read the recipe that a run keeps, also one that an earlier version began."""
    return read(folder / "recipe.yaml")


def parse(text: str, file: str, **changes: Any) -> Recipe:
    r"""Check a recipe's text.

    Examples
    --------
    >>> parse("base: {poisson: 11}\ndraw: 100", "my.yaml")
    Traceback (most recent call last):
    ...
    quasir.errors.RecipeError: my.yaml, line 2: draw is not known here; did you mean draws?
    """
    return _parsed(text, file, changes)


def from_dict(value: Mapping[str, Any], context: str | None = None, **changes: Any) -> Recipe:
    """Check a recipe that is given as a dictionary, as its YAML file would hold it."""
    if not isinstance(value, Mapping):
        raise RecipeError(
            f"a recipe is a mapping such as {{'base': ...}}, but {shown(value)} was given."
        )
    try:
        text = yaml.safe_dump(dict(value), sort_keys=False, allow_unicode=True)
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        raise RecipeError(
            f"a recipe may hold only texts, numbers, lists and mappings: {escaped(str(error), 300)}"
        ) from error
    made = parse(text, "recipe", **changes)
    return made if context is None else filled(made, context)


def dump(recipe: Recipe) -> str:
    """Return a recipe as YAML; most fields that have their default are left out."""
    plain = recipe.model_dump(by_alias=True, exclude_defaults=True, mode="json")
    # A proposal takes from the base what it leaves out, so what it gives is kept, defaults too.
    proposal = recipe.proposal.model_dump(exclude_unset=True, mode="json")
    given = {"proposal": proposal} if proposal else {}
    always = {"draws": recipe.draws, "max_tokens": recipe.max_tokens, "seed": recipe.seed}
    return yaml.safe_dump(plain | given | always, sort_keys=False, allow_unicode=True, width=95)


def _parsed(
    text: str,
    file: str,
    changes: dict[str, Any],
    migrate: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
) -> Recipe:
    tree = read_tree(text, file)
    if not isinstance(tree.content, dict):
        raise RecipeError(
            f"{escaped(file, 300)}, line 1: a recipe is a mapping that begins with base: ..."
        )
    value = tree.plain()
    if migrate is not None:
        value = migrate(value)
    value |= {key: change for key, change in changes.items() if change is not None}
    try:
        recipe = Recipe.model_validate(value)
    except ValidationError as error:
        raise in_words(error, tree, file) from error
    check(recipe, tree, file)
    return with_installed(recipe)


def _text_of(path: Path) -> str:
    """Return the text of a file, or say why it is none."""
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
        raise RecipeError(
            f"{name}, line 1: the file is too large: a recipe has at most {LARGEST_TEXT:,} "
            "characters. Make a larger base as a Table in Python."
        )
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        kind = "UTF-16 or UTF-32" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "not UTF-8"
        raise RecipeError(
            f"{name}, line {line}: the text is {kind} ({error.reason} at byte {error.start}): save "
            "the file as UTF-8."
        ) from error
