"""The report of a run over contexts: the whole, and a table of contexts that sorts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from quasir.certificates.figures import COLOURS
from quasir.core.formatting import escaped, rounded_up
from quasir.estimation.mean_guarantee import LEVELS
from quasir.estimation.quantities import heading_of
from quasir.report.page import About, hash_of_script, packaged, template
from quasir.report.sentences import number_text, phrase

if TYPE_CHECKING:
    from quasir.certificates.contexts_certificate import ContextsCertificate

__all__ = ["contexts_page"]

LONGEST = 120  # characters of a context in the table; all of it is shown when it is opened
TABLE_LEVELS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)


def contexts_page(
    about: About, whole: ContextsCertificate, rows: Sequence[Mapping[str, Any]]
) -> str:
    """Return the report as one HTML file."""
    script = packaged("contexts.js")
    html = template("contexts.html.jinja").render(
        about=about,
        colours=COLOURS,
        follows=whole.note,
        headline=_headline(whole),
        levels=_levels(whole),
        means=[
            ("Proposals a sample" if key == "proposals" else heading_of(key), phrase(part))
            for key, part in whole.estimates.items()
        ],
        most=lambda x: _number(rounded_up(x)),
        number=_number,
        rows=[_row(row) for row in rows],
        script=Markup(script),
        script_hash=hash_of_script(script),
        style=Markup(packaged("page.css") + packaged("contexts.css")),
        whole=whole,
    )
    return html.encode("utf-8", "replace").decode("utf-8")


def _headline(whole: ContextsCertificate) -> str:
    if whole.guarantee is None:
        return f"{whole.served:,} of {whole.contexts:,} contexts are served; no mean is guaranteed"
    return (
        f"The mean TVD of {whole.served:,} contexts is at most "
        f"{rounded_up(whole.guarantee.tvd):.3g}, with confidence {whole.guarantee.confidence:g}"
    )


def _levels(whole: ContextsCertificate) -> list[tuple[str, int]]:
    """Return levels of TVD, and how many contexts are above them at most."""
    if whole.guarantee is None:
        return []
    found = []
    for wanted in TABLE_LEVELS:
        # The largest level below: as many as are above it are above this one at most.
        below = [i for i, level in enumerate(LEVELS) if level <= wanted]
        found.append((f"{wanted:g}", int(whole.guarantee.above[below[-1]])))
    return found


def _row(row: Mapping[str, Any]) -> dict[str, Any]:
    text = ", ".join(str(value) for value in row["fields"].values())
    # What cannot be sorted by number goes last.
    keys = {
        name: row.get(name) if _is_number(row.get(name)) else ""
        for name in ("acceptance_rate", "tvd", "tvd_guaranteed", "draws", "samples")
    }
    return {
        **row,
        "title": escaped(text, LONGEST),
        "keys": keys,
        "worries": len(row["warnings"]) + (row["unserved"] is not None),
    }


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)


def _number(value: Any) -> str:
    return number_text(value) if _is_number(value) else "unknown"
