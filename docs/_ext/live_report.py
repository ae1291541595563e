"""The directive ``live-report``: the page of a finished run, embedded as it is."""

import shutil
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

COPIED = "report.html"


class LiveReport(SphinxDirective):
    """A frame with the report, and a link that opens it on its own page."""

    def run(self) -> list[nodes.Node]:
        """Return the frame as HTML."""
        frame = (
            f'<iframe class="live-report" src="{COPIED}" loading="lazy" '
            'title="The report of quasir run scientists"></iframe>'
            f'<p><a href="{COPIED}">Open the report on its own page</a></p>'
        )
        return [nodes.raw("", frame, format="html")]


def copy_report(app: Sphinx, error: Exception | None) -> None:
    """Put the report beside the first page; a report that is absent stops the build."""
    if error is not None or app.builder.format != "html":
        return
    report = Path(app.config.quasir_report)
    if not report.is_file():
        raise ExtensionError(
            f"there is no report at {report}, and the first page shows it: `make docs` makes it"
        )
    shutil.copyfile(report, Path(app.outdir) / COPIED)


def setup(app: Sphinx) -> dict[str, Any]:
    """Tell Sphinx about the directive."""
    app.add_config_value("quasir_report", "", "", str)
    app.add_directive("live-report", LiveReport)
    app.connect("build-finished", copy_report)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
