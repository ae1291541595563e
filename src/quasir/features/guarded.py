"""Searches that may never end, in a process of their own that stops them.

Python's engine cannot be stopped from another thread. A signal stops it, but only in the main
thread of a process. So a second process searches, and stops itself by a timer of its own computing
time: a busy machine makes no false alarm.
"""

from __future__ import annotations

import atexit
import os
import pickle
import signal
import subprocess
import sys
import threading
from typing import IO, Any

from quasir.errors import FeatureError

__all__ = ["LIMIT", "found_in", "spans_in"]

LIMIT = 1.0
"""Most seconds of computing for one item."""
LONG = 20_000
"""Characters of a text within which the engine may not look for signals in time."""

WORKER = """
import pickle, re, signal, sys

class TooLong(Exception):
    pass

state = [0, -1]  # the item that is searched, and the item at the last tick

def tick(*_):
    if state[0] == state[1]:
        raise TooLong
    state[1] = state[0]

def answer(pattern, flags, texts, spans):
    compiled, out = re.compile(pattern, flags), []
    state[0] += 1
    if max(map(len, texts)) > long:
        signal.setitimer(signal.ITIMER_PROF, 1.5 * limit)  # ends the process
    signal.setitimer(signal.ITIMER_VIRTUAL, limit / 2, limit / 2)
    try:
        for text in texts:
            state[0] += 1
            if spans:
                out.append([m.span() for m in compiled.finditer(text) if m.end() > m.start()])
            else:
                out.append(compiled.search(text) is not None)
    except TooLong:
        pass  # the item at len(out) took too long
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.setitimer(signal.ITIMER_PROF, 0)
    return out

limit, long = float(sys.argv[1]), int(sys.argv[2])
signal.signal(signal.SIGVTALRM, tick)
source, sink = sys.stdin.buffer, sys.stdout.buffer
while True:
    try:
        asked = pickle.load(source)
    except EOFError:
        break
    pickle.dump(answer(*asked), sink, protocol=5)
    sink.flush()
"""

_lock = threading.RLock()
_workers: dict[int, subprocess.Popen[bytes]] = {}


def found_in(pattern: str, flags: int, texts: list[str]) -> list[bool]:
    """Return whether the pattern is found in each text, or fewer answers if one takes too long."""
    if max(map(len, texts), default=0) <= LONG:
        found: list[bool] = _ask(pattern, flags, texts, False)
        return found
    answers: list[bool] = []
    for text in texts:  # a worker that had to end does not say at which text
        answer = _ask(pattern, flags, [text], False)
        if not answer:
            break
        answers += answer
    return answers


def spans_in(pattern: str, flags: int, text: str) -> list[tuple[int, int]]:
    """Return the places that the pattern matches; none if that takes too long."""
    places = _ask(pattern, flags, [text], True)
    return places[0] if places else []


def _ask(*question: Any) -> Any:
    with _lock:
        worker = _worker()
        try:
            assert worker.stdin is not None
            assert worker.stdout is not None
            pickle.dump(question, worker.stdin, protocol=5)
            worker.stdin.flush()
            return pickle.load(worker.stdout)
        except (OSError, EOFError, pickle.UnpicklingError) as error:
            _stop()
            if worker.returncode == -signal.SIGPROF:
                return []
            raise FeatureError(
                f"the process that searches for the pattern {question[0][:60]!r} ended "
                f"({type(error).__name__}): it may be out of memory. Use a simpler pattern."
            ) from error
        except BaseException:  # an answer that nobody reads would be taken for the next one
            _stop()
            raise


def _worker() -> subprocess.Popen[bytes]:
    """Return this process's worker; a fork does not share that of its parent."""
    worker = _workers.get(os.getpid())
    if worker is not None and worker.poll() is not None:
        _stop()
        worker = None
    if worker is None:
        worker = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", WORKER, str(LIMIT), str(LONG)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        _workers[os.getpid()] = worker
    return worker


def _stop() -> None:
    worker = _workers.pop(os.getpid(), None)
    if worker is not None:
        _close(worker.stdin)  # it ends by itself, if it is not searching
        try:
            worker.wait(0.05)
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()
        _close(worker.stdout)


def _close(pipe: IO[bytes] | None) -> None:
    try:
        if pipe is not None:
            pipe.close()
    except OSError:
        pass  # what was not sent is lost with the process


def _new_lock() -> None:
    global _lock
    _lock = threading.RLock()  # a thread that does not exist after a fork may hold the old one


atexit.register(_stop)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_new_lock)
