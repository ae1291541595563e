"""Experiments as YAML, checked before any model loads."""

from quasir.recipes.parsing import (
    BUILT_IN,
    check_drawable,
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
    "check_drawable",
    "dump",
    "find",
    "from_dict",
    "parse",
    "read",
    "read_run",
]
