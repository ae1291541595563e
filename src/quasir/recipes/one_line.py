"""A recipe from the options of one command line, or from the answers to a few questions."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from quasir.core.formatting import short_repr
from quasir.errors import InputError

Plain = dict[str, Any]
LONGEST_NAME = 60


def write_recipe(
    base: str,
    *,
    contains: Sequence[str] = (),
    regex: str | None = None,
    schema: Path | None = None,
    choice: str | None = None,
    classifier: Sequence[str] = (),
    want: Sequence[str] = (),
    prompt: str | None = None,
    chat: str | None = None,
    tvd: float = 0.1,
    **others: Any,
) -> Plain:
    """Return the recipe that the options of `quasir run --base` mean; the schema is a file."""
    features: dict[str, Plain] = {}
    wanted: dict[str, float] = {}

    def add(name: str, spec: Plain, mean: float = 1.0) -> None:
        name = name if name not in features else f"{name} {len(features) + 1}"
        features[name], wanted[name] = spec, mean

    languages: Plain = {
        "regex": regex,
        "json_schema": None if schema is None else _read_schema(schema),
        "choice": None if choice is None else split_choice(choice, prompt),
    }
    given = {kind: value for kind, value in languages.items() if value is not None}
    if len(given) > 1:
        raise InputError(
            "a text has one language: give --regex, --schema or --choice, and not two of them."
        )
    if given:
        add("valid", {"language": given})
    for word in contains:
        add(word, {"contains": word})
    for judge in classifier:
        model, label, mean = _split_classifier(judge)
        add(label.lower(), {"classifier": {"model": model, "label": label, "above": 0.5}}, mean)
    for asked in want:
        name, mean = _split_want(asked, features)
        wanted[name] = mean
    if not features:
        raise InputError(
            "nothing is asked of the texts: give --contains, --regex, --schema, --choice or "
            "--classifier."
        )
    source: Plain = {"server" if "://" in base else "model": base}
    source |= {} if prompt is None else {"prompt": prompt}
    source |= {} if chat is None else {"chat": [{"role": "user", "content": chat}]}
    recipe = {"base": source, "features": features, "want": wanted}
    if given and wanted["valid"] == 1 and "model" in source:  # of itself it hardly has the form
        recipe["proposal"] = {"guide": {"mask": "valid"}}
    kept = {name: value for name, value in others.items() if value is not None}
    return recipe | kept | {"choose": {"tvd": tvd, "confidence": 0.95}}


def split_choice(choice: str, prompt: str | None) -> list[str]:
    """Return the answers of ``yes,no``; after a prompt, each begins with a space."""
    space = " " if prompt and not prompt[-1].isspace() else ""
    return [f"{space}{part.strip()}" for part in choice.split(",") if part.strip()]


def name_recipe(recipe: Plain) -> str:
    """Return a short name for the files of a recipe: the model, and what is asked of it."""
    source = recipe["base"].get("model") or "served"
    words = [Path(source).name, *recipe["features"]]
    name = re.sub(r"[^a-z0-9]+", "-", " ".join(words).lower()).strip("-")
    return name[:LONGEST_NAME].strip("-") or "recipe"


def _read_schema(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"the schema {path} could not be read: {error.strerror}.") from error
    except ValueError as error:
        raise InputError(f"{path} is no JSON, so it holds no schema: {error}.") from error


def _split_classifier(given: str) -> tuple[str, str, float]:
    """Split MODEL:LABEL[=MEAN]; a model's name may have a colon, a label has none."""
    model, _, rest = given.rpartition(":")
    label, equals, mean = rest.partition("=")
    if not model or not label:
        raise InputError(
            f"--classifier {short_repr(given)} is not MODEL:LABEL or MODEL:LABEL=MEAN, such as "
            "quasir/sentiment:POSITIVE=0.5."
        )
    return model, label, _mean(mean, given) if equals else 1.0


def _split_want(given: str, features: Plain) -> tuple[str, float]:
    name, _, mean = given.rpartition("=")
    if name not in features:
        raise InputError(
            f"--want {short_repr(given)} is not FEATURE=MEAN: the features are "
            f"{', '.join(features) or 'none'}."
        )
    return name, _mean(mean, given)


def _mean(text: str, given: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise InputError(f"{short_repr(given)} ends in {short_repr(text)}, no number.") from error
