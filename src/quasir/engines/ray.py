"""Drawing on a Ray cluster: workers are actors that load their models once.

The driver gives each worker one task at a time. A worker that dies, alone or with its machine,
loses only the task it was working on. Another worker gets that task, and makes the same draws.
"""

from __future__ import annotations

import contextlib
import os
import socket
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from importlib import import_module
from typing import Any

from quasir.core.arguments import check_callable, check_optional_count, number
from quasir.core.formatting import short_repr
from quasir.core.types import optional_attribute
from quasir.engines.engine import Failures, Make, Stop, Task, Work, reason_of, silent
from quasir.errors import InputError

LOOPBACK = ("127.0.0.1", "localhost")
PATIENCE = 60.0
"""Seconds without a single worker after which the user is informed."""


@dataclass(frozen=True)
class Ray:
    """A Ray cluster.

    Parameters
    ----------
    address : str, optional
        ``"auto"`` for the cluster of this machine, or ``HOST:PORT`` of its head. By default one is
        started on this machine, bound to 127.0.0.1, and ends with the work.
    workers : int, optional
        Largest number of workers; by default as many as the cluster has room for. Workers that
        find no room join when there is some.
    cpus_per_worker, gpus_per_worker : float
        CPUs and GPUs of each worker. A worker has as many threads as CPUs.
    tell : callable, optional
        Called with a sentence when a worker is lost, or when none can start.

    Notes
    -----
    Every machine needs quasir and what the target needs, and must see the folder or address that
    shards are written to. Ray's usage statistics are turned off where quasir starts the cluster.

    Examples
    --------
    >>> Ray(address="auto", gpus_per_worker=1).gpus_per_worker
    1
    """

    address: str | None = None
    workers: int | None = None
    cpus_per_worker: float = 1
    _: KW_ONLY
    gpus_per_worker: float = 0
    tell: Callable[[str], object] = silent

    def __post_init__(self) -> None:
        if self.address is not None and not isinstance(self.address, str):
            raise InputError(
                f"address is {short_repr(self.address)}, but must be 'auto' or HOST:PORT."
            )
        check_optional_count("workers", self.workers)
        check_callable("tell", self.tell, "a function that takes a sentence")
        cpus = number("cpus_per_worker", self.cpus_per_worker)
        gpus = number("gpus_per_worker", self.gpus_per_worker)
        if not (0 <= cpus < float("inf") and 0 <= gpus < float("inf")):
            raise InputError(
                f"cpus_per_worker is {self.cpus_per_worker} and gpus_per_worker is "
                f"{self.gpus_per_worker}, but neither may be below 0 or infinite."
            )

    def map(
        self, make: Make, tasks: Sequence[Task], stop: Stop = lambda: None, here: Work | None = None
    ) -> Iterator[tuple[Task, Any]]:
        """Yield each task with its result; see `Engine.map`."""
        if not tasks:
            return
        ray = _ray()
        own = not ray.is_initialized()
        if own:
            self._connect(ray)
        try:
            yield from _Crew(ray, self, make, min(self._room(ray), len(tasks))).work(tasks, stop)
        finally:
            if own:
                ray.shutdown()

    def _connect(self, ray: Any) -> None:
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        quiet = {"log_to_driver": False, "logging_level": "ERROR"}
        if self.address is not None:
            try:
                _knock(ray, self.address)
                ray.init(address=self.address, **quiet)
            except (ConnectionError, ValueError) as error:
                raise InputError(
                    f"no Ray cluster answers at {self.address!r} ({reason_of(error)}). Start one "
                    "with `ray start --head`, or give no address: a cluster is then started here."
                ) from error
            return
        needed = round((self.workers or 1) * max(self.cpus_per_worker, 1))
        ray.init(
            address="local",
            num_cpus=max(needed, os.cpu_count() or 1),
            include_dashboard=False,
            _node_ip_address="127.0.0.1",
            **quiet,
        )

    def _room(self, ray: Any) -> int:
        """Return how many workers to ask for."""
        if self.workers is not None:
            return self.workers
        there = ray.cluster_resources()
        room = [
            int(there.get(kind, 0) // need)
            for kind, need in (("CPU", self.cpus_per_worker), ("GPU", self.gpus_per_worker))
            if need
        ]
        return max(min(room, default=1), 1)


class _Crew:
    """The actors of one call of `Ray.map`, and the task of each."""

    def __init__(self, ray: Any, engine: Ray, make: Make, size: int) -> None:
        self.ray, self.engine, self.size = ray, engine, size
        self.make = ray.put(make)
        self.failures = Failures(optional_attribute(make, "what"))
        self.actor = ray.remote(_Worker).options(
            num_cpus=engine.cpus_per_worker, num_gpus=engine.gpus_per_worker
        )
        self.starting: dict[Any, Any] = {}
        self.working: dict[Any, tuple[Any, Task]] = {}
        self.idle: list[Any] = []

    def work(self, tasks: Sequence[Task], stop: Stop) -> Iterator[tuple[Task, Any]]:
        left = deque(tasks)
        waited = 0.0
        try:
            while left or self.working:
                if left and (self.failures.final is not None or stop() is not None):
                    left.clear()
                    continue
                while left and self.idle:
                    worker, task = self.idle.pop(), left.popleft()
                    self.working[worker.do.remote(task)] = worker, task
                while len(self.starting) + len(self.working) < min(
                    self.size, len(left) + len(self.working)
                ):
                    worker = self.actor.remote(self.make)
                    self.starting[worker.ready.remote()] = worker
                under_way = [*self.working, *self.starting]
                done, _ = self.ray.wait(under_way, num_returns=1, timeout=1.0)
                waited = 0.0 if done or self.working else waited + 1.0
                if waited == PATIENCE:
                    self.engine.tell(
                        f"no worker has started for {PATIENCE:.0f} s: each needs "
                        f"{self.engine.cpus_per_worker:g} CPUs and "
                        f"{self.engine.gpus_per_worker:g} GPUs, and the cluster has "
                        f"{self.ray.available_resources()} free"
                    )
                for ref in done:
                    yield from self._take(ref, left)
        finally:
            for worker in (
                *self.starting.values(),
                *self.idle,
                *(worker for worker, _ in self.working.values()),
            ):
                self.ray.kill(worker)
        if self.failures.final is not None:
            raise self.failures.final

    def _take(self, ref: Any, left: deque[Task]) -> Iterator[tuple[Task, Any]]:
        """Handle a message from a worker: it is ready, has a result, has failed, or has died."""
        exceptions = self.ray.exceptions
        task: Task | None = None
        if ref in self.starting:
            worker = self.starting.pop(ref)
        else:
            worker, task = self.working.pop(ref)
        try:
            result = self.ray.get(ref)
        except exceptions.RayActorError as error:
            self.engine.tell(f"a worker was lost: {reason_of(error)}")
            # A worker that dies before its first task counts as a failure of the next task.
            against = task if task is not None else (left[0] if left else None)
            if against is not None:
                cause = reason_of(error.cause) if getattr(error, "cause", None) else ""
                again = self.failures.add(against, "died", f"its worker died. {cause}".strip())
                if task is not None and again:
                    left.appendleft(task)
        except exceptions.RayError as error:
            cause = getattr(error, "cause", None) or error
            self.idle.append(worker)
            assert task is not None
            if self.failures.add(task, reason_of(cause), f"{reason_of(cause)}."):
                left.appendleft(task)
        else:
            self.idle.append(worker)
            if task is not None:
                yield task, result


class _Worker:
    """An actor: loads its models, then does tasks."""

    def __init__(self, make: Make) -> None:
        self.work = make()

    def ready(self) -> None:
        """Return when the models are loaded."""

    def do(self, task: Task) -> Any:
        return self.work(task)


def _knock(ray: Any, address: str) -> None:
    """Raise an error if nothing listens at HOST:PORT: Ray itself would take minutes to notice."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if not (host and port.isdecimal()):
        return
    # For a head on this machine, Ray uses the address of the machine, not the loopback.
    hosts = [host, *([ray.util.get_node_ip_address()] if host in LOOPBACK else [])]
    for name in hosts:
        with contextlib.suppress(OSError):
            socket.create_connection((name, int(port)), timeout=5).close()
            return
    raise ConnectionError("nothing listens there")


def _ray() -> Any:
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return import_module("ray")
    except ImportError as error:
        raise InputError("the engine Ray needs ray: pip install '.[ray]' in a clone.") from error
