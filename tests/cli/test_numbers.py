"""Numbers that no command can use: exit code 2, words, and nothing hangs."""

import pytest

from tests.cli.helpers import POISSONS, inside


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("numbers")
    (folder / "r.yaml").write_text(POISSONS)
    assert inside("run", folder / "r.yaml", "--out", folder / "run")[0] == 0
    return folder / "run"


WRONG = [
    ("plan --se 0", "--se"),
    ("plan --se nan", "--se"),
    ("plan --se inf", "--se"),
    ("plan --se -1", "--se"),
    ("plan --se 1e-300", "more than 1e+18 draws"),
    ("plan --se 0.1 --of nothing", "no estimate 'nothing'"),
    ("sample --tvd 2", "tvd is 2"),
    ("sample --tvd -1", "tvd is -1"),
    ("sample --tvd nan", "--tvd"),
    ("sample --kl -1", "kl is -1"),
    ("sample --acceptance-rate 0", "acceptance_rate is 0"),
    ("sample --acceptance-rate 1.5", "acceptance_rate is 1.5"),
    ("sample --beta 0", "beta is 0"),
    ("sample --beta 1e-400", "beta is 0"),
    ("sample --beta 1e400", "--beta"),
    ("sample --log-beta inf", "--log-beta"),
    ("sample --log-beta 1e308", "log_beta is 1e+308"),
    ("sample --beta x", "--beta"),
    ("sample --tvd 0.1 --kl 0.1", "give one of"),
    ("sample -n 0", "-n"),
    ("sample -n 1.5", "-n"),
    (f"sample -n {10**30}", "-n"),
    ("sample --max-draws 0", "--max-draws"),
    ("watch --every 1e-9", "--every"),
    ("watch --every nan", "--every"),
    ("watch --every 1e300", "--every"),
    ("watch --once --until tvd_se=0", "nothing to stop at"),
    ("watch --once --until nothing_se=1", "no estimate 'nothing'"),
    (f"draw --draws {10**30}", "--draws"),
    ("draw --draws 10**30", "--draws"),
    ("draw --draws 0", "--draws"),
    ("draw --workers 0", "--workers"),
    (f"draw --workers {10**30}", "--workers"),
    ("draw --gpus-per-worker nan --engine ray", "--gpus-per-worker"),
    ("draw --engine nothing", "--engine"),
    ("draw --address auto", "--engine ray"),
    ("compare --rates 0", "a rate is '0'"),
    ("compare --rates x", "a rate is 'x'"),
    ("compare --rates nan", "a rate is 'nan'"),
    ("compare --rates 1e-320", "a rate is '1e-320'"),
    ("compare --rates ,", "no rates"),
    ("compare --samplers nothing", "no sampler"),
    (f"compare -n {10**30}", "-n"),
    ("compare --runs 0", "--runs"),
    ("tune --minutes nan", "--minutes"),
    ("run --seed -1", "--seed"),
    (f"run --seed {2**128}", "--seed"),
    ("tradeoff --seed 5", "No such option"),
]


@pytest.mark.parametrize(("line", "named"), WRONG, ids=[line[:40] for line, _ in WRONG])
def test_a_wrong_value_is_a_wrong_command_line(run, line, named):
    command, *options = line.split()
    code, out, err = inside(command, run, *options)
    assert (code, out) == (2, "")
    assert named in err


def test_largest_seed(run, tmp_path):
    code, _, _ = inside("draw", run / "recipe.yaml", "--out", tmp_path / "b", "--seed", 2**128 - 1)
    assert code == 0


@pytest.mark.parametrize("address", ["nonsense", "127.0.0.1:1", "ray://127.0.0.1:1"])
def test_no_cluster_at_the_address(run, address):
    pytest.importorskip("ray")
    given = ("--engine", "ray", "--address", address, "--draws", 9000)
    code, _, err = inside("draw", run, *given)
    assert code == 2
    assert "no Ray cluster answers" in err


@pytest.mark.parametrize("name", ["nosuch", "", "/", "a" * 5000, "b/" * 2500, "\0"])
def test_a_name_that_is_no_recipe(monkeypatch, tmp_path, name):
    monkeypatch.chdir(tmp_path)
    for command in ("run", "draw", "tune", "compare"):
        code, _, err = inside(command, name)
        assert code == 2, err
        assert len(err) < 1000
    code, _, err = inside("recipes", "show", name)
    assert code == 2
    for command in ("tradeoff", "sample", "report", "watch"):
        code, _, err = inside(command, name)
        assert code == 2, err
        assert len(err) < 1000
    # A wrong command line leaves nothing behind.
    assert not list((tmp_path).iterdir())
