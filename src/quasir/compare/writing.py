"""The files of a comparison: tables as CSV and Markdown, and the figure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from quasir.compare.comparison import Comparison
from quasir.compare.figure import plot_comparison
from quasir.compare.notes import notes_of
from quasir.compare.spread import Variance
from quasir.compare.table import as_csv, samplers_markdown
from quasir.core.files import make_folder, write_text, write_with

__all__ = ["as_json", "write_comparison"]


def write_comparison(
    folder: Path, name: str, found: Comparison, spread: Variance
) -> dict[str, Path]:
    """Write ``samplers`` and ``is_variance`` into a folder; return the files by name."""
    make_folder(folder)
    titles = f"Samplers at equal cost: {name}", f"Spread of the estimates: {name}"
    texts = {
        "samplers.csv": as_csv([row.to_dict() for row in found.rows]),
        "samplers.md": samplers_markdown(found, titles[0]),
        "is_variance.csv": as_csv([row.to_dict() for row in spread.spreads]),
        "is_variance.md": spread.markdown(titles[1]),
    }
    for file, text in texts.items():
        write_text(folder / file, text)
    figure = plot_comparison(found)
    write_with(
        folder / "samplers.png",
        lambda temporary: figure.savefig(temporary, dpi=160, format="png"),
    )
    return {file: folder / file for file in (*texts, "samplers.png")}


def as_json(found: Comparison, spread: Variance) -> dict[str, Any]:
    """Return a comparison as a JSON-ready dictionary; a number that is not finite is None."""
    return {
        "pool": found.pool_size,
        "asked": {"n": found.n, "runs": found.runs},
        "stretches": [
            {
                "rate": one.cost.rate,
                "length": one.length,
                "runs": one.runs,
                "n": one.n,
            }
            for one in found.stretches
        ],
        "rows": [
            row.to_dict() | {"doubts": [list(doubts) for doubts in row.doubts]}
            for row in found.rows
        ],
        "notes": notes_of(found),
        "is_variance": {
            "runs": spread.runs,
            "draws_a_run": spread.draws,
            "rows": [row.to_dict() for row in spread.spreads],
        },
    }
