"""The directive ``recipe-fields``: tables of a recipe's fields, read from the pydantic model."""

import re
from typing import Any

from docutils import nodes
from numpydoc.docscrape import NumpyDocString
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from quasir.recipes.explain import meanings
from quasir.recipes.schema import Recipe

LIMITS = {
    "exclusiveMinimum": "above {}",
    "gt": "above {}",
    "minimum": "at least {}",
    "ge": "at least {}",
    "exclusiveMaximum": "below {}",
    "lt": "below {}",
    "maximum": "at most {}",
    "le": "at most {}",
}
WORDS = {
    "integer": "whole number",
    "number": "number",
    "string": "text",
    "boolean": "true or false",
}


class RecipeFields(SphinxDirective):
    """The tables, one a part of a recipe, under headings."""

    def run(self) -> list[nodes.Node]:
        """Return the tables as nodes."""
        return self.parse_text_to_nodes(page(), allow_section_headings=True)


def page() -> str:
    """Return the tables as Markdown: first the recipe, then the parts in the order of use."""
    schema = Recipe.model_json_schema()
    parts = {"Recipe": schema, **schema.get("$defs", {})}
    return "\n\n".join(_table(name, parts) for name in _order(parts))


def without_meaning() -> list[str]:
    """Return the fields that nothing explains, as Part.field."""
    schema = Recipe.model_json_schema()
    parts = {"Recipe": schema, **schema.get("$defs", {})}
    return [
        f"{name}.{field}"
        for name, part in parts.items()
        for field in part.get("properties", {})
        if not _meanings(name, part).get(field)
    ]


def _order(parts: dict[str, Any]) -> list[str]:
    """Return the names of the parts, each after the part that first uses it."""
    names = ["Recipe"]
    for name in names:
        for used in re.findall(r"#/\$defs/(\w+)", str(parts[name])):
            if used not in names and (name != "Recipe" or used in str(parts[name]["properties"])):
                names.append(used)
    return names


def _table(name: str, parts: dict[str, Any]) -> str:
    part = parts[name]
    meanings = _meanings(name, part)
    summary = (part.get("description") or "").strip().partition("\n\n")[0].replace("\n", " ")
    rows = []
    for field, kind in part.get("properties", {}).items():
        default = "*required*" if field in part.get("required", []) else _default(kind, parts)
        rows.append(f"| `{field}` | {meanings.get(field, '')} | {_kind(kind)} | {default} |")
    head = "| field | meaning | value | default |\n|---|---|---|---|"
    return "\n".join([f"## {name}\n\n{summary}\n", head, *rows])


def _meanings(name: str, part: dict[str, Any]) -> dict[str, str]:
    """Return what each field means: from meanings.yaml, the docstring, or the field."""
    found = dict(meanings().get(name, {}))
    for parameter in NumpyDocString(part.get("description") or "")["Attributes"]:
        text = " ".join(line.strip() for line in parameter.desc)
        for field in parameter.name.split(", "):
            if text:
                found.setdefault(field, text)
    for field, kind in part.get("properties", {}).items():
        if "description" in kind and "$ref" not in kind:
            found.setdefault(field, kind["description"])
    return found


def _kind(schema: dict[str, Any]) -> str:
    """Return the values that a field takes, in words."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        kinds = [_kind(one) for one in schema["anyOf"] if one.get("type") != "null"]
        return ", or ".join(kinds)
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    kind = schema.get("type")
    if kind == "array":
        return f"list: {_kind(schema.get('items', {}))}"
    if kind == "object":
        inner = schema.get("additionalProperties")
        return f"name: {_kind(inner)}" if isinstance(inner, dict) else "mapping"
    limits = [said.format(_shown(schema[key])) for key, said in LIMITS.items() if key in schema]
    if len(limits) > 1 and limits[0] == "above 0" and limits[1].startswith("at least"):
        limits = limits[1:]
    return " ".join([WORDS.get(kind or "", "any value"), ", ".join(limits)]).strip()


def _default(schema: dict[str, Any], parts: dict[str, Any]) -> str:
    """Return the default; of a part, only what differs from the part's own defaults."""
    default = schema.get("default")
    if default in (None, "", {}):
        return ""
    if isinstance(default, dict):
        fields = parts[schema["$ref"].rpartition("/")[2]]["properties"]
        given = {key: one for key, one in default.items() if one != fields[key].get("default")}
        return ", ".join(f"`{key}: {_shown(one)}`" for key, one in given.items())
    return f"`{_shown(default)}`"


def _shown(value: Any) -> str:
    if isinstance(value, int) and value >= 10**12:
        return "10^12" if value == 10**12 else f"2^{value.bit_length()} - 1"
    return f"{value:g}" if isinstance(value, float) else str(value)


def setup(app: Sphinx) -> dict[str, Any]:
    """Tell Sphinx about the directive."""
    app.add_directive("recipe-fields", RecipeFields)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
