"""Targets that go wrong in a worker, for workers to import."""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import stats

from tests.waiting import wait_until


@dataclass(frozen=True)
class Faulty:
    """Poisson(11), but whoever scores `bad` kills its process, or raises, as often as is said.

    How often it has gone wrong is kept in files, since a worker that dies forgets. Once there are
    `hold_after` shards in the folder, those who score wait for a file `go-on`.
    """

    folder: str
    bad: int = -1
    times: int = 1
    kill: bool = True
    hold_after: int = 0

    def may_go_on(self):
        shards = list(Path(self.folder).glob("run/draws/shard-*.parquet"))
        return len(shards) < self.hold_after or (Path(self.folder) / "go-on").exists()

    def log_score(self, items):
        if self.hold_after:
            wait_until(self.may_go_on)
        if self.bad in np.asarray(items):
            done = len(list(Path(self.folder).glob("fault-*")))
            if done < self.times:
                (Path(self.folder) / f"fault-{done}-{os.getpid()}-{time.time_ns()}").touch()
                if self.kill:
                    os.kill(os.getpid(), signal.SIGKILL)
                raise ValueError(f"{self.bad} cannot be scored")
        return stats.poisson(11).logpmf(items)
