"""Write docs/notebooks/*.ipynb from the tutorials, run, with their outputs.

    python tools/notebooks.py [NAME ...]

A notebook whose cells are those of its tutorial is left as it is; `--all` runs each anew.
"""

import re
import sys
import warnings
from pathlib import Path
from typing import Any

import nbformat
from myst_nb.core.read import read_myst_markdown_notebook

DOCS = Path(__file__).parents[1] / "docs"
OPTIONS = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)


def pages() -> list[Path]:
    """Return the tutorials, and the explanation that is a notebook."""
    return [*sorted((DOCS / "tutorials").glob("*.md")), DOCS / "explanation" / "idea.md"]


def made(page: Path) -> Path:
    """Return where the notebook of a page is."""
    return DOCS / "notebooks" / f"{page.stem}.ipynb"


def unrun(page: Path) -> Any:
    """Return a page as a notebook without outputs, whose links lead from docs/notebooks."""
    notebook = read_myst_markdown_notebook(
        page.read_text(encoding="utf-8"), add_source_map=False, path=str(page)
    )
    for number, cell in enumerate(notebook.cells):
        if cell.cell_type == "code":
            cell.source = OPTIONS.sub("", cell.source)
        else:
            cell.source = re.sub(r"\]\(([\w-]+)\.md", _beside, cell.source)
        cell.metadata, cell["id"] = {}, f"{page.stem}-{number}"
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook.metadata = {"kernelspec": kernel}
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    return notebook


def _beside(link: re.Match[str]) -> str:
    """Return a link to another page of the same folder: its notebook, if it has one."""
    notebook = any(page.stem == link[1] for page in pages())
    return f"]({link[1]}.ipynb" if notebook else f"](../explanation/{link[1]}.md"


def sources(notebook: Any) -> list[tuple[str, str]]:
    """Return kind and text of each cell."""
    return [(cell.cell_type, cell.source) for cell in notebook.cells]


def is_current(page: Path) -> bool:
    """Return whether the notebook of a page has the page's cells, and was run."""
    if not made(page).exists():
        return False
    notebook = nbformat.read(made(page), as_version=4)
    run = all(cell.execution_count for cell in notebook.cells if cell.cell_type == "code")
    return run and sources(notebook) == sources(unrun(page))


def main(names: list[str]) -> None:
    """Run what is not current, or what is named."""
    from nbclient import NotebookClient

    for page in pages():
        if page.stem in names or "--all" in names or (not names and not is_current(page)):
            print(page.stem, file=sys.stderr, flush=True)
            notebook = unrun(page)
            client = NotebookClient(notebook, timeout=1800, resources={"metadata": {"path": DOCS}})
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                client.execute()
            for cell in notebook.cells:
                cell.metadata.pop("execution", None)
                if cell.cell_type == "code":
                    cell.outputs = [out for out in cell.outputs if out.get("name") != "stderr"]
            notebook.metadata.pop("language_info", None)
            nbformat.write(notebook, made(page))


if __name__ == "__main__":
    main(sys.argv[1:])
