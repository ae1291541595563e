"""Waiting for what another process does: until it is so, and not for a time."""

import time

LIMIT = 300
"""Seconds after which it is not expected any more."""


def wait_until(condition, process=None):
    """Return once the condition holds; fail where it never does, or the process has ended."""
    end = time.monotonic() + LIMIT
    while not condition():
        assert process is None or process.poll() is None, process.communicate()
        assert time.monotonic() < end, f"not so after {LIMIT} seconds"
        time.sleep(0.002)
