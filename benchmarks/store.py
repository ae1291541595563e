"""The store: time of a trade-off from disk, against reading the same columns with pyarrow."""

import contextlib
import io
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from scipy import stats

import quasir as qr
from benchmarks.show import best
from quasir.cli.reading import tradeoff as command

DRAWS = 10_000_000
COLUMNS = ["log_p", "log_q", "feature:even"]
"""The columns that a trade-off needs."""


def rows(n=DRAWS):
    target, proposal = qr.from_scipy(stats.poisson(11)), qr.from_scipy(stats.poisson(10))
    draws = qr.draw(target, proposal, n, seed=0)
    draws = replace(draws, items=None, features={"even": draws.items % 2 == 0})
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        draws.save(run)
        files = sorted((run / "draws").iterdir())

        def read():
            return [pq.read_table(file, columns=COLUMNS) for file in files]

        def whole_command():
            with (
                contextlib.redirect_stdout(io.StringIO()),
                contextlib.redirect_stderr(io.StringIO()),
            ):
                command(run)

        reading = best(read, 3)
        estimating = best(lambda: str(qr.tradeoff(draws)), 3)
        ours = best(whole_command, 3)
        size = sum(file.stat().st_size for file in files)
        yield (
            f"quasir tradeoff, {n:,} stored draws: times read + trade-off",
            ours / (reading + estimating),
            "<= 3",
            f"{ours:.2f} s, with hashes checked, CSV and figure written, against "
            f"{reading:.2f} s + {estimating:.2f} s; {size / 1e6:.0f} MB; Python's start left out",
        )
        loaded = qr.Draws.load(run)
        assert np.array_equal(loaded.log_p, draws.log_p)
