"""Which tests run a line of the source, and how long each test takes."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import coverage


class Recorder:
    """A plugin of pytest: it writes, for each file and line, the tests that run it.

    A line that runs while modules are imported, or in what several tests share, is recorded for the
    first of them only. So a mutant that the recorded tests do not find must meet all tests.
    """

    def __init__(self, tree: Path, out: Path) -> None:
        self.tree, self.out = tree, out
        self.seconds: dict[str, float] = {}
        self.coverage = coverage.Coverage(
            data_file=None, config_file=False, source=[str(tree / "src")]
        )

    def pytest_sessionstart(self) -> None:
        """Begin to record."""
        self.coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Iterator[None]:
        """Record what one test runs under its name."""
        self.coverage.switch_context(item.nodeid)
        start = time.process_time()
        result = yield
        self.seconds[item.nodeid] = time.process_time() - start
        return result

    def pytest_sessionfinish(self) -> None:
        """Write what was recorded."""
        self.coverage.stop()
        data, lines = self.coverage.get_data(), {}
        for file in data.measured_files():
            name = str(Path(file).relative_to(self.tree))
            lines[name] = {
                line: sorted(filter(None, tests), key=lambda test: self.seconds.get(test, 0.0))
                for line, tests in data.contexts_by_lineno(file).items()
            }
        self.out.write_text(json.dumps({"seconds": self.seconds, "lines": lines}))
