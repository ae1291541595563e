"""The templates, styles and scripts that come with the package."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files

from jinja2 import Environment, StrictUndefined, Template

__all__ = ["hash_of_script", "packaged", "template"]


@cache
def packaged(name: str) -> str:
    """Return the text of a file of this package."""
    return files("quasir.report").joinpath(name).read_text("utf-8")


@cache
def template(name: str) -> Template:
    """Return a template; it escapes what is put into it."""
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(packaged(name))


def hash_of_script(script: str) -> str:
    """Return the script's hash, so that the page's policy allows this script and no other."""
    digest = hashlib.sha256(script.encode("utf-8")).digest()
    return "sha256-" + base64.b64encode(digest).decode("ascii")
