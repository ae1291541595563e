"""Write docs/paper.md, and its figures beside it, from the results of the experiments."""

from __future__ import annotations

import argparse
import json
import re
import shutil
import textwrap
from pathlib import Path
from typing import Any

from experiments.order import ORDER
from experiments.results import OUT
from quasir.core.files import make_folder, write_text

PAGE = Path("docs/paper.md")
WIDTH = 115
FIGURES = "paper"
"""The folder of the page's figures, beside the page."""
HEAD = """<!-- not run: long -->

# The paper beside quasir

Every figure and table of *Sampling from Discrete Energy-Based Models with Quality/Efficiency
Trade-offs* (Eikema, Kruszewski, Elsahar, Dymetman), in its order: the paper's numbers, ours, the
command, and the draws behind them. The paper has GPT-2 and models tuned from it, and one or ten
million draws; ours are the small built-in models, so levels differ where models do. `make paper
DRAWS=20000` makes all of it small. `python -m experiments.page` writes this page from the results
of the commands that stand in each section. A pool that has more draws than a command asks for is
used whole. ± is one standard error, unless it says otherwise. "figure only" is a number that the
paper shows in a picture alone.
"""
SMALL = 20_000
"""The draws of a small run."""


def contents(found: list[dict[str, Any]]) -> str:
    """Return the figures and tables in order, each with a link and how it compares."""
    lines = ["| figure or table | beside the paper |", "|---|---|"]
    for one in found:
        first = re.split(r"(?<=[a-z0-9)])\. ", one["verdict"], maxsplit=1)[0].rstrip(".")
        title, _ = titled(one)
        lines.append(f"| [{title}](#{anchor(title)}) | {first}. |")
    return "\n".join(lines)


def titled(one: dict[str, Any]) -> tuple[str, str]:
    """Return a result's title without the label of the paper's source, and the label.

    Examples
    --------
    >>> titled({"title": "Table (`tab:betas`): all"})
    ('Table: all', 'tab:betas')
    """
    label = re.search(r" \(`([^`]+)`\)", one["title"])
    if label is None:
        return one["title"], ""
    return one["title"].replace(label[0], ""), label[1]


def anchor(title: str) -> str:
    """Return the anchor that GitHub and Sphinx give a heading.

    Examples
    --------
    >>> anchor("Table: 50 %, all")
    'table-50--all'
    """
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def section(content: dict[str, Any], figures: str) -> str:
    """Return one experiment in Markdown."""
    draws = ", ".join(f"{name}: {n:,}" for name, n in content["draws"].items())
    title, label = titled(content)
    source = f" In the paper's source: `{label}`." if label else ""
    parts = [
        f"## {title}",
        textwrap.fill(content["verdict"] + source, WIDTH),
        f"    {content['command']}",
        textwrap.fill(f"Draws: {draws}.", WIDTH),
    ]
    if content["figure"]:
        parts.append(f"![{title}]({figures}/{content['figure']})")
    head = ["| what | paper | ours |", "|---|---|---|"]
    rows = [f"| {r['what']} | {r['paper']} | {r['ours']} |" for r in content["rows"]]
    parts.append("\n".join(head + rows))
    parts += [f"**{title}**\n\n{table}" for title, table in content["tables"].items()]
    return "\n\n".join(parts)


def page(out: Path, figures: str = FIGURES) -> str:
    """Return the page; an experiment without results is named as missing."""
    found, missing = [], []
    for name in ORDER:
        path = out / f"{name}.json"
        if path.is_file():
            found.append(json.loads(path.read_text(encoding="utf-8")))
        else:
            missing.append(name)
    sections = [contents(found), *(section(one, figures) for one in found)]
    beyond = Path(__file__).with_name("beyond.md").read_text(encoding="utf-8").strip()
    note = [f"Not run yet: {', '.join(missing)}."] if missing else []
    parts = [HEAD.strip(), size_of(found), *note, *sections, beyond, bounds_of(found)]
    return "\n\n".join(parts) + "\n"


def bounds_of(found: list[dict[str, Any]]) -> str:
    """Return the table of the two bounds on TVD, of every experiment that has them."""
    lines = [
        "**TVD beside what bounds it: our 1 - Z_β/Z, and the paper's 1 - p(A_β)**\n",
        "| experiment | where | TVD | 1 - Z_β/Z | 1 - p(A_β) |",
        "|---|---|---|---|---|",
    ]
    for one in found:
        for i, row in enumerate(one["bounds"]):
            lines.append("| " + " | ".join(["" if i else titled(one)[0], *row]) + " |")
    return "\n".join(lines)


def size_of(found: list[dict[str, Any]]) -> str:
    """Say how large the runs behind the page are. Experiments share pools; numbers are no texts."""
    pools: dict[str, int] = {}
    for one in found:
        for name, n in one["draws"].items():
            if not name.startswith(("poissons", "steps")):
                pools[name] = max(n, pools.get(name, 0))
    asked = [int(one["command"].split("--draws ")[1].split()[0]) for one in found]
    runs = "large runs" if any(n > SMALL for n in asked) else "small runs"
    return f"This page comes from {runs}: {sum(pools.values()):,} texts, in {len(pools)} pools."


def main() -> None:
    """Write the page, and copy its figures and results."""
    parser = argparse.ArgumentParser(prog="python -m experiments.page", description=__doc__)
    parser.add_argument("--out", type=Path, default=OUT, help=f"folder (default {OUT})")
    parser.add_argument("--page", type=Path, default=PAGE, help=f"default {PAGE}")
    arguments = parser.parse_args()
    folder = arguments.page.parent / FIGURES
    make_folder(folder)
    for name in ORDER:
        for file in (arguments.out / f"{name}.png", arguments.out / f"{name}.json"):
            if file.is_file():
                shutil.copyfile(file, folder / file.name)
    write_text(arguments.page, page(arguments.out))


if __name__ == "__main__":
    main()
