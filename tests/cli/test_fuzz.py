"""Command lines with mistakes in them: a documented exit code, and words."""

import io
import random
import shutil

import pytest

import quasir as qr
from quasir.cli.main import COMMANDS
from quasir.runs.active_run import begin, prepare
from tests.cli.helpers import LETTERS, POISSONS, inside

SMALL = ("draws: 4000", "draws: 1500"), ("fit: 5000", "fit: 1000"), ("samples: 300", "samples: 50")
VALID = {
    "run": ["RECIPE", "--draws", "1500", "--out", "NEW", "--json"],
    "draw": ["RECIPE", "--draws", "1200", "--out", "NEW", "--repair", "--workers", "1"],
    "watch": ["RUN", "--once", "--until", "tvd_se=0.1", "--every", "0.1", "--json"],
    "plan": ["RUN", "--se", "0.01", "--tvd", "0.1"],
    "tradeoff": ["RUN", "--stream", "--json"],
    "sample": ["RUN", "-n", "20", "--beta", "1", "--max-draws", "3000", "--json"],
    "report": ["RUN", "--json"],
    "tune": ["RECIPE", "--out", "NEW", "--steps", "1", "--minutes", "0"],
    "compare": ["RUN", "--rates", "0.5,0.1", "-n", "20", "--runs", "2", "--samplers", "qrs,imh"],
    "recipes": ["show", "poissons", "--json"],
    "doctor": ["--json"],
    "init": ["new-recipe.yaml", "--json"],
    "models": ["--json"],
}
"""A command line for each command, to be spoilt."""
ANSWERS = "\n" * 4 + "coffee" + "\n" * 3
"""What is piped to every command; `init` alone reads it."""
VALUES = [
    *("", " ", "0", "-1", "1", "2", "0.1", "1.5", "nan", "inf", "-inf", "1e308", "1e-400", "1e400"),
    *("10**30", "9" * 30, "0x10", "1_000", "٣", "true", "null", "[]", "{}", "%s", "$HOME", "~"),
    *("*", "--", "-", "-n", "--out", "--json", "--nothing", "--se=", "=", ",", ",,", "a,b"),
    *("tvd_se=1", "ess=1", "moment:x_se=1", "kl", "qrs", "rwmh", "gwg", "local", "nothing"),
    *("poissons", "x" * 300, "x" * 5000, "show", "show poissons", "/", ".", "..", "/dev/null"),
    *("/nowhere/at/all", "\ud800", "\0", "a\nb", "\u202e", "🙂", "é", "RUN", "RECIPE", "SAVED"),
    *("EMPTY", "FILE", "YAML", "NEW", "BEGUN", "DAMAGED"),
]
OPTIONS = [
    *("--draws", "--seed", "--out", "-n", "--tvd", "--tvd-bound", "--kl", "--beta", "--log-beta"),
    *("--acceptance-rate", "--max-draws", "--stream", "--allow-code", "--repair", "--workers"),
    *("--gpus-per-worker", "--shards-at", "--until", "--every", "--once", "--se", "--of"),
    *("--samplers", "--rates", "--runs", "--burn-in", "--walk-steps"),
    *("--lora", "--warm-start", "--minutes", "--steps", "--json", "--help", "--version"),
    *("--engine", "--editor"),
]


KINDS = ["replace", "replace", "remove", "insert", "option", "swap", "double", "place"]


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """Return paths by the names that the command lines use."""
    folder = tmp_path_factory.mktemp("fuzz")
    letters = LETTERS
    for old, new in SMALL:
        letters = letters.replace(old, new)
    (folder / "r.yaml").write_text(letters)
    (folder / "p.yaml").write_text(POISSONS.replace("5000", "1500"))
    (folder / "bad.yaml").write_text("base: [")
    (folder / "file").write_bytes(b"\xff\x00")
    (folder / "empty").mkdir()
    qr.Draws.from_arrays([0.0] * 200, [-1.0] * 200).save(folder / "saved")
    assert inside("run", folder / "r.yaml", "--out", folder / "run")[0] == 0
    begin(prepare(str(folder / "r.yaml"), folder / "begun"))
    shutil.copytree(folder / "run", folder / "damaged")
    (folder / "damaged" / "draws" / "shard-00000.parquet").write_bytes(b"PAR1")
    for name in ("run", "begun", "damaged"):
        shutil.copytree(folder / name, folder / f"kept-{name}")
    names = {"RUN": "run", "RECIPE": "r.yaml", "SAVED": "saved", "EMPTY": "empty"}
    names |= {"FILE": "file", "YAML": "bad.yaml", "NEW": "new", "BEGUN": "begun"}
    names |= {"DAMAGED": "damaged"}
    return {name: folder / path for name, path in names.items()}


def spoilt(random, command):
    """Return a command line with one to three mistakes, or none."""
    words = [command, *VALID[command]]
    for _ in range(random.choice([0, 1, 1, 1, 2, 2, 3])):
        place = random.randrange(len(words) + 1)
        kind = random.choice(KINDS)
        if kind == "place":
            words[1:2] = [random.choice(["DAMAGED", "BEGUN", "SAVED"])]  # where RUN stood
            continue
        if kind == "insert" or place == len(words):
            words.insert(place, random.choice(VALUES))
        elif kind == "option":
            words[place:place] = [random.choice(OPTIONS), random.choice(VALUES)]
        elif kind == "replace":
            words[place] = random.choice(VALUES)
        elif kind == "remove":
            del words[place]
        elif kind == "swap":
            other = random.randrange(len(words))
            words[place], words[other] = words[other], words[place]
        else:
            words.insert(place, words[place])
    return words


def allowed(words):
    """Return whether a line is run: not one that loads a model, starts a cluster, or waits."""
    line = " ".join(words)
    heavy = ("ray", "sports", "scientists", "female", "contains")
    waits = "watch" in words and "--once" not in words
    slow = "poissons" in words and not words[:1] == ["recipes"]  # a million draws
    return not (any(word in line for word in heavy) or waits or slow)


def tracebacks(folder):
    """Return the texts that the last handler has written: a bug that comes once must be seen."""
    return "\n".join(file.read_text() for file in folder.rglob("traceback-*.txt"))


def try_lines(places, monkeypatch, seed, count, commands=COMMANDS):
    monkeypatch.chdir(places["EMPTY"])
    monkeypatch.setenv("XDG_CACHE_HOME", str(places["EMPTY"].parent / "cache"))
    source, codes = random.Random(seed), set()
    while count:
        words = spoilt(source, source.choice(commands))
        if not allowed(words):
            continue
        count -= 1
        given = [str(places.get(word, word)) for word in words]
        monkeypatch.setattr("sys.stdin", io.StringIO(ANSWERS))
        code, _, err = inside(*given)
        assert code in (0, 1, 2), (given, err, tracebacks(places["EMPTY"].parent))
        assert "Traceback" not in err, given
        assert "this is a bug" not in err, given
        assert code == 0 or err.strip(), given
        codes.add(code)
        shutil.rmtree(places["NEW"], ignore_errors=True)
        if source.random() < 0.05:  # whatever it has become
            for name in ("RUN", "DAMAGED", "BEGUN"):
                shutil.rmtree(places[name])
                shutil.copytree(places[name].with_name(f"kept-{places[name].name}"), places[name])
    return codes


def test_every_command_has_a_line_to_spoil(places, monkeypatch):
    assert set(VALID) == set(COMMANDS)
    monkeypatch.chdir(places["EMPTY"])
    for command, words in VALID.items():
        monkeypatch.setattr("sys.stdin", io.StringIO(ANSWERS))
        code, _, err = inside(command, *(str(places.get(word, word)) for word in words))
        assert code == (2 if command == "tune" else 0), err
        shutil.rmtree(places["NEW"], ignore_errors=True)


def test_some_hundred_command_lines(places, monkeypatch):
    assert try_lines(places, monkeypatch, seed=0, count=200) == {0, 1, 2}


def test_a_traceback_would_be_seen(places, monkeypatch):
    """The control: a bug in one command is found."""

    def broken(*_, **__):
        raise ZeroDivisionError

    monkeypatch.setattr("quasir.cli.listing.find", broken)
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        try_lines(places, monkeypatch, seed=0, count=50, commands=["recipes"])
