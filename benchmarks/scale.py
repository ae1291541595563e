"""Scale: more draws than fit in memory, and the engines that make them."""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

import quasir as qr
from benchmarks.show import best
from quasir.engines import Local, Ray
from quasir.runs.active_run import TEXT_BLOCKS_A_SHARD
from quasir.runs.draw_shards import draw_into
from quasir.store import Store

DRAWS = 100_000_000
SHARDS = 24
"""Number of shards that each engine draws from the built-in model."""
COLUMNS = ["log_p", "log_q", "feature:flag", "feature:size"]

LOOK = """
import json, sys, time
import quasir as qr
from benchmarks.memory import gigabytes
from quasir.cli.main import keep_freed_memory
keep_freed_memory()  # as `quasir tradeoff` does
start = time.perf_counter()
curve = qr.tradeoff(sys.argv[1], stream=True)
seconds = time.perf_counter() - start
peak = gigabytes("VmHWM") * 1e9
slack = float((curve.tvd_slack[:-1] / curve.tvd.value[:-1]).max())
print(json.dumps({"seconds": seconds, "peak": peak, "betas": len(curve), "slack": slack}))
"""


def rows(n=DRAWS, shards=SHARDS):
    yield from streaming_rows(n)
    yield from engine_rows(shards)
    yield shard_row()


def synthetic(folder, n):
    """Write n draws with two features, a shard at a time."""
    store = Store.create(folder, seed=0)
    for number in store.missing(n):
        size = store.draws_in(number, n)
        rng = np.random.default_rng(number)
        log_q = rng.normal(size=size)
        store.add(
            number,
            qr.Draws(
                log_p=log_q + rng.normal(0, 1.5, size),
                log_q=log_q,
                log_u=-rng.standard_exponential(size),
                features={"flag": rng.random(size) < 0.2, "size": rng.normal(50, 10, size)},
            ).rows,
        )
    return store


def look(folder):
    """Compute the streamed trade-off in a separate process; return its time and peak memory."""
    out = subprocess.run(
        [sys.executable, "-c", LOOK, str(folder)], check=True, capture_output=True, text=True
    )
    return json.loads(out.stdout)


def streaming_rows(n):
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        store = synthetic(run, n)
        files = [store.path(number) for number in store.numbers()]

        def read():
            for file in files:
                pq.read_table(file, columns=COLUMNS)

        reading = best(read, 2)
        first, second = look(run), look(run)
        size = sum(path.stat().st_size for path in (run / "draws").glob("*.summary"))
        yield (
            f"streamed trade-off, {n:,} draws: peak memory, GB",
            first["peak"] / 1e9,
            "<= 1",
            f"{first['betas']} betas; resident memory of the whole process",
        )
        yield (
            "streamed trade-off: times reading the columns",
            first["seconds"] / reading,
            "<= 3",
            f"{first['seconds']:.2f} s with checksums compared and summaries written, against "
            f"{reading:.2f} s",
        )
        yield (
            "a second look, from summaries: times reading the columns",
            second["seconds"] / reading,
            "<= 1",
            f"{second['seconds']:.2f} s; {size / 1e6:.0f} MB of summaries for {len(files)} shards",
        )
        yield (
            "streamed trade-off: bracket of TVD, share of its value",
            2 * first["slack"],
            "<= 0.001",
            "at every beta but the last, above which no draw lies",
        )


def biographies():
    """Return a target and its base, loaded in the calling process."""
    base = qr.text.CausalLM("quasir/biographies", max_tokens=40)
    return base * qr.features.female, base


def speed(engine, shards):
    """Return draws per second between the first finished shard and the last, without start-up."""
    with tempfile.TemporaryDirectory() as folder:
        store = Store.create(Path(folder) / "run", 0, TEXT_BLOCKS_A_SHARD)
        times = []
        draw_into(
            store,
            None,
            None,
            shards * store.shard_size,
            lambda *_: times.append(time.perf_counter()),
            engine,
            biographies,
        )
        return (len(times) - 1) * store.shard_size / (times[-1] - times[0])


def engine_rows(shards):
    local = speed(Local(processes=2, threads=1), shards)
    ray = speed(Ray(workers=2), shards)
    yield (
        "Ray, 2 workers: share of the local engine's draws a second",
        ray / local,
        ">= 0.8",
        f"{ray:.0f} against {local:.0f} draws a second by 2 processes, a thread each, "
        f"{shards} shards",
    )


def shard_row():
    target, base = biographies()
    start = time.perf_counter()
    draws = qr.draw(target, base, 1024 * TEXT_BLOCKS_A_SHARD, seed=0)
    drawing = time.perf_counter() - start
    with tempfile.TemporaryDirectory() as folder:
        store = Store.create(Path(folder) / "run", 0, TEXT_BLOCKS_A_SHARD)

        def keep():
            store.add(0, draws.rows)

        keeping = best(keep, 5)
    return (
        "a shard of 4,096 texts: writing, hash and manifest, share of drawing",
        keeping / drawing,
        "<= 0.02",
        f"{1000 * keeping:.0f} ms against {drawing:.1f} s",
    )
