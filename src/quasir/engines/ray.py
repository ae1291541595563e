"""Drawing on a Ray cluster: workers are actors that load their models once."""

from __future__ import annotations

import contextlib
import os
import socket
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import KW_ONLY, dataclass
from importlib import import_module
from typing import Any

from quasir.core.arguments import check_callable, check_optional_count, number
from quasir.core.formatting import short_repr
from quasir.core.types import optional_attribute
from quasir.engines.engine import (
    PATIENCE,
    Crew,
    Failures,
    Make,
    Stop,
    Task,
    Work,
    reason_of,
    silent,
)
from quasir.errors import InputError

LOOPBACK = ("127.0.0.1", "localhost")


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
            raise InputError(f"{cpus:g} CPUs and {gpus:g} GPUs: neither is negative or infinite.")

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
        failures = Failures(optional_attribute(make, "what"))
        try:
            sent = ray.put(make)
            actor = ray.remote(_Actor).options(
                num_cpus=self.cpus_per_worker, num_gpus=self.gpus_per_worker
            )
            crew = Crew(
                start=lambda: _Worker(ray, actor.remote(sent)),
                size=min(self._room(ray), len(tasks)),
                left=deque(tasks),
                failures=failures,
                died=ray.exceptions.RayActorError,
                why="its worker died.",
                tell=self.tell,
            )
            yield from crew.work(stop, lambda: self._no_room(ray))
        finally:
            if own:
                ray.shutdown()
        if failures.final is not None:
            raise failures.final

    def _no_room(self, ray: Any) -> str:
        return (
            f"no worker has started for {PATIENCE:.0f} s: each needs {self.cpus_per_worker:g} CPUs "
            f"and {self.gpus_per_worker:g} GPUs, and the cluster has {ray.available_resources()} "
            "free"
        )

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
        if self.workers is not None:
            return self.workers
        there = ray.cluster_resources()
        room = [
            int(there.get(kind, 0) // need)
            for kind, need in (("CPU", self.cpus_per_worker), ("GPU", self.gpus_per_worker))
            if need
        ]
        return max(min(room, default=1), 1)


class _Actor:
    def __init__(self, make: Make) -> None:
        self.work = make()

    def do(self, task: Task | None) -> Any:
        return None if task is None else self.work(task)


class _Worker:
    def __init__(self, ray: Any, actor: Any) -> None:
        self.ray, self.actor = ray, actor

    def submit(self, task: Task | None) -> Future[Any]:
        future: Future[Any] = self.actor.do.remote(task).future()
        return future

    def kill(self) -> None:
        self.ray.kill(self.actor)


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
