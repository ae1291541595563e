"""Every block of every page runs as printed, or the page's source says why it is not run.

Python, commands and recipes run page by page, in order, in one folder and one namespace. A comment
before a block changes that: ``<!-- not run: server -->``, ``<!-- file: NAME -->`` (its code goes
into this file instead). Before a page's title the comment holds for every block of the page. Code
cells of notebooks run in test_site.py.
"""

import os
import re
import shlex
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import typer
import yaml
from typer._click import exceptions as click

import quasir as qr
from quasir import recipes
from quasir.cli.main import app
from tests.served.real_servers import llama_server

ROOT = Path(__file__).parents[2]
PAGES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md"))]
    if not {"_build", "generated"} & set(path.relative_to(ROOT).parts)
}
EVENING = sorted((ROOT / "examples" / "first_evening").glob("*.*"))
NOT_RUN = {
    "long": 22,
    "installation": 2,
    "server": 5,
    "your files": 3,
    "part of a recipe": 2,
    "cluster": 1,
    "hub": 1,
}
"""How many blocks are not run, by reason: one more is a decision, not an accident."""
QUICK = ("docs/howto/beta.md",)
"""Pages whose blocks take seconds."""
MARK = r"(?:^<!--(?:(?!-->).)*-->\n+)"
COMMAND = r"(?:quasir|python|pip|make|git)\b"
BLOCK = re.compile(
    rf"(?P<marks>{MARK}*)(?:^```(?P<kind>python|bash|sh|console|yaml)\n(?P<code>.*?)^```"
    rf"|(?<=\n\n)(?P<plain>^    {COMMAND}.*?\n)(?=\n|\Z))",
    re.MULTILINE | re.DOTALL,
)
SETTING = re.compile(r"<!-- ([\w ]+):\s(.*?)\s*-->", re.DOTALL)


def blocks_of(page):
    """Return (kind, code, settings) of each block of a page."""
    of_page = re.match(rf"{MARK}*(?=# )", page, re.MULTILINE | re.DOTALL)
    shared = dict(SETTING.findall(of_page.group())) if of_page else {}
    for found in BLOCK.finditer(page):
        code = found["code"] or re.sub("^    ", "", found["plain"], flags=re.MULTILINE)
        yield found["kind"] or "sh", code, shared | dict(SETTING.findall(found["marks"]))


def check(kind, code):
    """See that a block that is not run could be: it compiles, or its options and fields exist."""
    if kind == "python":
        compile(code, "block", "exec")
    elif kind == "yaml":
        recipes.from_dict({"base": "quasir/biographies"} | yaml.safe_load(code))
    else:
        for line in code.replace("\\\n", " ").splitlines():
            parse(line)


def parse(line):
    """See that a command of quasir has these options, and that a script exists."""
    match shlex.split(line, comments=True):
        case ["quasir", name, *words] if name.islower():
            command = typer.main.get_command(app).commands[name]
            try:
                command.make_context(name, words)
            except click.MissingParameter:  # of a command that is only named
                assert not words
        case ["python", "-m", module, *_] if module.startswith("experiments"):
            assert list(ROOT.glob(f"{module.replace('.', '/')}*"))
        case ["python", script, *_] if not script.startswith("-"):
            assert (ROOT / script).is_file()


def run(kind, code, settings, names):
    """Run a block in this folder; commands as a shell does, Python in the page's namespace."""
    if "file" in settings:
        Path(settings["file"]).write_text(code)
    elif kind == "python":
        exec(compile(code, "block", "exec"), names)
    elif kind == "yaml":
        Path("recipe.yaml").write_text(code)
        shell("quasir run recipe.yaml")
    else:
        shell(code)


def shell(code):
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    more = {"PATH": path, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        ["bash", "-euc", code], env=os.environ | more, capture_output=True, text=True
    )
    assert done.returncode == 0, f"{code}\n{done.stderr[-3000:]}"


def to_run(name):
    return [block for block in blocks_of(PAGES[name]) if "not run" not in block[2]]


@pytest.mark.filterwarnings("ignore::quasir.errors.QuasirWarning")
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(name, marks=() if name in QUICK else pytest.mark.slow)
        for name in PAGES
        if to_run(name)
    ],
)
def test_the_blocks_of_a_page_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for folder in ("examples", "experiments", "training"):
        Path(folder).symlink_to(ROOT / folder)
    names = {}
    for block in to_run(page):
        run(*block, names)


@pytest.mark.parametrize("file", EVENING, ids=lambda file: file.name)
def test_examples_of_the_first_evening_are_on_their_page(file):
    """The page runs them; at most ten lines, or one command after that which fetches a model."""
    _, _, body = file.read_text().partition('"""\n\n' if file.suffix == ".py" else "\n")
    assert body.strip() in PAGES["docs/tonight.md"]
    lines = [line for line in body.splitlines() if line.strip() and "import " not in line]
    assert len(lines) <= 10


@pytest.mark.slow
def test_the_example_of_a_server_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with llama_server() as (address, _):
        monkeypatch.setenv("SERVER", address)
        shell((ROOT / "examples" / "first_evening" / "server.sh").read_text())


def test_blocks_that_are_not_run_are_marked_and_right():
    reasons = Counter()
    for name, page in PAGES.items():
        for kind, code, settings in blocks_of(page):
            if "not run" in settings:
                reasons[settings["not run"]] += 1
                try:
                    check(kind, code)
                except (Exception, SystemExit) as error:
                    pytest.fail(f"{name}: {code}\n{error!r}")
    assert reasons == NOT_RUN


@pytest.mark.parametrize("page", PAGES)
def test_commands_in_a_sentence_exist(page):
    for line in re.findall(r"(?<!`)`(quasir [^`]+)`", PAGES[page]):
        try:
            parse(" ".join(line.split()))
        except click.ClickException as error:
            pytest.fail(f"{line}: {error.format_message()}")


def test_a_block_that_is_wrong_fails(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = "# A\n\n```python\nx = 1\n```\n\n```python\nassert x == 2\n```\n"
    blocks, names = list(blocks_of(page + "\n    quasir rum\n")), {}
    assert [kind for kind, *_ in blocks] == ["python", "python", "sh"]
    run(*blocks[0], names)
    for block in blocks[1:]:
        with pytest.raises(AssertionError):
            run(*block, names)
    for kind, code in (("sh", "quasir run --rom"), ("yaml", "wants: {}"), ("python", "x =")):
        with pytest.raises((click.ClickException, qr.errors.QuasirError, SyntaxError)):
            check(kind, code)
