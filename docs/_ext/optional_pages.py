"""Contents may name a page that is not there yet: "paper (if there)" in a toctree."""

import re
from typing import Any

from sphinx.application import Sphinx

ENTRY = re.compile(r"^(?P<page>\S+) \(if there\)\n", re.MULTILINE)


def keep_existing(app: Sphinx, _: str, source: list[str]) -> None:
    """Keep such an entry if its page exists, and drop it if not."""
    pages = app.env.found_docs
    source[0] = ENTRY.sub(lambda m: f"{m['page']}\n" if m["page"] in pages else "", source[0])


def setup(app: Sphinx) -> dict[str, Any]:
    """Tell Sphinx to ask."""
    app.connect("source-read", keep_existing)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
