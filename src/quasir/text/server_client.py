"""Requests to a model's server: repeated until answered, since skipping one would select."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from json import JSONDecodeError
from typing import Any, TypeVar

import httpx2

from quasir.core.arguments import check_count
from quasir.core.formatting import escaped, short_repr
from quasir.errors import InputError, ServerError

BUSY = (408, 425, 429, 502, 503, 504)
"""The server is there and asks to come again: tried until the patience is over."""
TRIES = 5
"""Of a request to which the server answers with an error of its own, or with nonsense."""
FIRST_WAIT, LONGEST_WAIT = 0.25, 10.0
"""Seconds before a request is sent again; they double."""

Job = TypeVar("Job")
Answer = TypeVar("Answer")


class BadAnswer(Exception):
    """An answer that lacks what was asked for; it may be half of one."""


class Client:
    """Talks to one server. It can be pickled; the key is read from the environment when needed."""

    def __init__(
        self, url: str, key: str | None, concurrency: int, patience: float, timeout: float
    ) -> None:
        self.root, self.key = server_root(url), key
        self.concurrency = check_count("concurrency", concurrency)
        self.patience, self.timeout = patience, timeout
        self.retried = 0
        self._reached = False
        self._open()

    def _open(self) -> None:
        self._work = threading.local()  # .stop: set when the jobs of this thread are given up
        self._http = httpx2.Client(
            limits=httpx2.Limits(max_connections=self.concurrency),
            timeout=httpx2.Timeout(self.timeout, connect=10.0, pool=None),
            verify=self.root.startswith("https:"),  # reading certificates takes a second
        )
        weakref.finalize(self, self._http.close)

    def __getstate__(self) -> dict[str, Any]:
        return {name: x for name, x in vars(self).items() if name not in ("_http", "_work")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._open()

    def map(self, function: Callable[[Job], Answer], jobs: Iterable[Job]) -> list[Answer]:
        """Return the answers in the order of the jobs, at most `concurrency` at once."""
        stop = threading.Event()

        def work(job: Job) -> Answer:
            self._work.stop = stop
            return function(job)

        pool = ThreadPoolExecutor(self.concurrency)
        try:
            futures = [pool.submit(work, job) for job in jobs]
            return [future.result() for future in futures]
        finally:  # after an error or Ctrl-C, nothing new begins
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)

    def ask(
        self, path: str, body: Any = None, read: Callable[[Any], Answer] = lambda answer: answer
    ) -> Answer:
        """Return what `read` makes of the answer; it raises `BadAnswer` where it cannot."""
        begun, tries, wait = time.monotonic(), 0, FIRST_WAIT
        stop = getattr(self._work, "stop", None) or threading.Event()
        while True:
            tries += 1
            again, limit = 0.0, TRIES
            try:
                method, url = "GET" if body is None else "POST", self.root + path
                response = self._http.request(method, url, json=body, headers=self._headers())
                self._reached = True
                status = response.status_code
                if status in BUSY:
                    failure, limit = f"HTTP {status}", 0
                    after = response.headers.get("retry-after", "").strip()
                    again = float(after) if after.isdigit() else 0.0  # a date is ignored
                elif status >= 500:
                    failure = f"HTTP {status}: {_said(response)}"
                elif status >= 400:
                    hint = " Give the name of the environment variable with its key (key)."
                    raise ServerError(
                        f"the server at {self.root} refuses a request ({path}, HTTP {status}): "
                        f"{_said(response)}.{hint if status in (401, 403) else ''}"
                    )
                else:
                    return read(response.json())
            except (JSONDecodeError, BadAnswer, KeyError, IndexError, TypeError) as error:
                # Fields that are absent, or half an answer.
                failure = f"an answer that lacks what was asked for ({escaped(str(error), 200)})"
            except httpx2.TransportError as error:
                failure = f"{type(error).__name__}: {escaped(str(error), 200)}"
                limit = 0 if self._reached else 2
            waited = time.monotonic() - begun
            if waited > self.patience or (limit and tries >= limit) or stop.is_set():
                raise ServerError(self._gone(path, failure, tries, waited))
            self.retried += 1
            stop.wait(min(max(wait, again), self.patience))
            wait = min(2 * wait, LONGEST_WAIT)

    def _headers(self) -> dict[str, str]:
        if self.key is None:
            return {}
        if not os.environ.get(self.key):
            raise InputError(
                f"the key of the server is read from the environment variable {self.key}, which "
                f"is not set: export {self.key}=..."
            )
        return {"Authorization": f"Bearer {os.environ[self.key]}"}

    def _gone(self, path: str, failure: str, tries: int, waited: float) -> str:
        if not self._reached:
            return (
                f"no server answers at {self.root} ({failure}). Is it running, and is the address "
                "right? docs/servers.md has the command that starts each kind."
            )
        return (
            f"the server at {self.root} no longer answers {path}: {failure}, after {tries} tries "
            f"in {waited:.0f} s. Nothing was skipped. Start the server again, and then the same "
            "run: it goes on from the last draws that were kept."
        )


def server_root(url: str) -> str:
    """Return the address of a server without ``/v1``."""
    try:
        parsed = httpx2.URL(url)
    except (httpx2.InvalidURL, TypeError) as error:
        raise InputError(f"{short_repr(url)} is not the address of a server: {error}.") from error
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise InputError(
            f"{short_repr(url)} is not the address of a server, such as http://host:8000/v1."
        )
    if parsed.userinfo or parsed.query:
        raise InputError(
            "the address of a server holds a password or a query, which a run would write down: "
            "put the key into an environment variable, and give that variable's name (key)."
        )
    return str(parsed).rstrip("/").removesuffix("/v1").rstrip("/")


def _said(response: httpx2.Response) -> str:
    """Return the server's own words about an error."""
    try:
        found = response.json()
        found = found.get("error", found.get("detail", found))
        found = found.get("message", found) if isinstance(found, dict) else found
    except (ValueError, AttributeError):
        found = response.text
    return escaped(str(found), 300).rstrip(".")
