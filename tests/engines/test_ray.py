"""A real Ray cluster: whoever draws, and whatever happens to them, the draws are the same."""

import json
import os
import signal
import threading

import numpy as np
import pytest

import quasir as qr
from quasir.engines import Local, Ray
from quasir.runs.draw_shards import draw_into
from quasir.store import Store
from tests.cli.helpers import inside, quasir, start
from tests.engines.faulty import Faulty
from tests.engines.test_local_engine import (
    PROPOSAL,
    TARGET,
    N,
    create,
    fails_three_times,
    hashes,
    rare_shard,
    whole,
)
from tests.store.test_store import same
from tests.waiting import wait_until

__all__ = ["rare_shard", "whole"]

# Ray would look for a head at 127.0.0.1 under the machine's other address, unless told not to.
os.environ |= {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_USAGE_STATS_ENABLED": "0"}
pytest.importorskip("ray", reason="the extra ray is not installed")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


@pytest.fixture(scope="module")
def cluster():
    """Return a cluster of a head that does not work and two machines with two places each."""
    from ray.cluster_utils import Cluster

    made = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 0, "include_dashboard": False, "node_ip_address": "127.0.0.1"},
    )
    for _ in range(2):
        made.add_node(num_cpus=2, node_ip_address="127.0.0.1")
    yield made
    made.shutdown()


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2, 4])
def test_any_number_of_workers_draws_the_same(cluster, whole, tmp_path, workers):
    store = create(tmp_path / "run")
    engine = Ray(cluster.address, workers=workers)
    assert draw_into(store, TARGET, PROPOSAL, N, engine=engine) == N
    assert hashes(store) == hashes(whole)
    assert 1 <= store.manifest.workers <= workers
    assert draw_into(store, TARGET, PROPOSAL, N, engine=engine) == 0


@pytest.mark.slow
def test_into_memory(cluster, whole):
    drawn = qr.draw(TARGET, PROPOSAL, N, seed=4, engine=Ray(cluster.address, workers=2))
    same(drawn, qr.draw(TARGET, PROPOSAL, N, seed=4))
    np.testing.assert_array_equal(drawn.items, qr.Draws.load(whole).items)


def test_a_worker_that_is_killed_loses_nothing(cluster, whole, tmp_path, rare_shard):
    _, bad = rare_shard
    store, told = create(tmp_path / "run"), []
    target = Faulty(str(tmp_path), bad)
    draw_into(store, target, PROPOSAL, N, engine=Ray(cluster.address, workers=2, tell=told.append))
    assert len(list(tmp_path.glob("fault-*"))) == 1
    assert sum("a worker was lost" in sentence for sentence in told) == 1
    assert hashes(store) == hashes(whole)


@pytest.mark.slow
@pytest.mark.parametrize("kill", [False, True])
def test_a_shard_that_fails_three_times_is_named(cluster, whole, tmp_path, rare_shard, kill):
    fails_three_times(whole, tmp_path, rare_shard, kill, Ray(cluster.address, workers=2))


class Unloadable:
    """A target whose models cannot be loaded on a worker."""

    def __reduce__(self):
        return (exec, ("raise OSError('no such model here')",))


@pytest.mark.slow
def test_a_worker_that_cannot_begin_is_told(cluster, tmp_path):
    store = create(tmp_path / "run")
    with pytest.raises(qr.errors.QuasirError, match="failed 3 times"):
        draw_into(store, Unloadable(), PROPOSAL, N, engine=Ray(cluster.address, workers=1))
    assert hashes(store) == {}


@pytest.mark.slow
def test_a_machine_that_is_lost_loses_nothing(cluster, tmp_path):
    """A third machine joins, works, and is taken away with its workers in the midst of it."""
    node = cluster.add_node(num_cpus=2, node_ip_address="127.0.0.1")
    whole, store, told = create(tmp_path / "whole"), create(tmp_path / "run"), []
    n = 24 * 1024
    draw_into(whole, TARGET, PROPOSAL, n)
    target = Faulty(str(tmp_path), hold_after=2)

    def take_away():
        try:
            wait_until(lambda: len(Store.open(store.folder).shards) >= 2)
            cluster.remove_node(node, allow_graceful=False)
        finally:
            (tmp_path / "go-on").touch()

    thread = threading.Thread(target=take_away)
    thread.start()
    engine = Ray(cluster.address, workers=6, tell=told.append)
    assert draw_into(store, target, PROPOSAL, n, engine=engine) == n
    thread.join()
    cluster.wait_for_nodes(timeout=120)  # or Ray tells the driver of a later test, on its stdout
    assert any("a worker was lost" in sentence for sentence in told)
    assert hashes(store) == hashes(whole)
    left = {path.name for path in (tmp_path / "run" / "draws").glob("shard*")}
    assert left == {path.name for path in (whole.folder / "draws").iterdir()}


SLOW = """\
base: {poisson: 11}
features: {slow: {python: "slow.py:slow"}}
proposal: {poisson: 10}
draws: 5000000
choose: {tvd: 0.05}
samples: 10
"""
CODE = """\
import time
def slow(x):
    return x > 12
"""


def shards_in(run):
    path = run / "manifest.json"
    return len(json.loads(path.read_text())["shards"]) if path.exists() else 0


@pytest.mark.slow
def test_a_driver_that_is_killed_goes_on(cluster, tmp_path):
    (tmp_path / "slow.py").write_text(CODE)
    (tmp_path / "r.yaml").write_text(SLOW.replace("5000000", "1200000"))
    quasir("draw", tmp_path / "r.yaml", "--out", tmp_path / "whole", "--allow-code")
    run = tmp_path / "run"
    command = ("draw", tmp_path / "r.yaml", "--out", run, "--allow-code", "--engine", "ray")
    command = (*command, "--address", cluster.address, "--workers", 2)
    process = start(*command)
    wait_until(lambda: shards_in(run) >= 2, process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    there = Store.open(run)
    assert 2 <= len(there.shards) < 5
    assert not there.damaged()
    out, _ = quasir(*command, "--json")
    assert json.loads(out)["draws"] == 1_200_000
    assert json.loads(out)["drawn"] == 1_200_000 - sum(s.draws for s in there.shards.values())
    assert hashes(Store.open(run)) == hashes(Store.open(tmp_path / "whole"))
    whole_content = json.loads((tmp_path / "whole" / "manifest.json").read_text())["content"]
    assert json.loads(out)["content"] == whole_content
    left = {path.name for path in (run / "draws").iterdir()}
    assert left == {f"shard-0000{i}.parquet" for i in range(5)}


@pytest.mark.slow
def test_stdout_is_data_when_a_machine_is_lost(cluster, tmp_path):
    (tmp_path / "slow.py").write_text(CODE)
    (tmp_path / "r.yaml").write_text(SLOW.replace("5000000", "2000000"))
    node = cluster.add_node(num_cpus=2, node_ip_address="127.0.0.1")
    run = tmp_path / "run"
    command = ("draw", tmp_path / "r.yaml", "--out", run, "--allow-code", "--engine", "ray")
    process = start(*command, "--address", cluster.address, "--workers", 4, "--json")
    wait_until(lambda: shards_in(run) >= 1, process)
    cluster.remove_node(node, allow_graceful=False)
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    assert json.loads(out)["draws"] == 2_000_000
    assert "Raylet is terminated" in err  # Ray prints it on stdout
    cluster.wait_for_nodes(timeout=120)


@pytest.mark.slow
def test_a_cluster_of_its_own(whole, tmp_path):
    """Without an address one is started for the call, on this machine alone."""
    import ray

    assert not ray.is_initialized()
    store = create(tmp_path / "run")
    draw_into(store, TARGET, PROPOSAL, N, engine=Ray(workers=2))
    assert hashes(store) == hashes(whole)
    assert not ray.is_initialized()


@pytest.mark.parametrize("options", [["--json"], []])
def test_what_ray_prints_is_no_data(tmp_path, monkeypatch, options):
    """Ray prints on the driver's stdout that a machine was lost."""

    class Printing(Local):
        def map(self, *arguments):
            print("(raylet) The node was marked dead")
            yield from super().map(*arguments)

    monkeypatch.setattr("quasir.cli.draw.Ray", lambda *_, **__: Printing(1))
    run = tmp_path / "run"
    command = ("draw", "poissons", "--draws", 2000, "--out", run, "--engine", "ray", *options)
    code, out, err = inside(*command)
    assert code == 0, err
    assert "marked dead" in err
    assert "marked dead" not in out
    assert not options or json.loads(out)["drawn"] == 2000
