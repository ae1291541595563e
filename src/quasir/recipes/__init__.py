"""Experiments as YAML, checked before any model loads."""

from quasir.recipes.parsing import (
    BUILT_IN,
    dump,
    find,
    from_dict,
    parse,
    read,
    read_run,
)
from quasir.recipes.schema import Recipe

__all__ = [
    "BUILT_IN",
    "Recipe",
    "dump",
    "find",
    "from_dict",
    "parse",
    "read",
    "read_run",
]
