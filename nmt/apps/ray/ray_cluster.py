"""Connect to a Ray cluster, or start one on this machine. Imports Ray only when needed."""

from __future__ import annotations

import logging
import math
import os
import re
import signal
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from nmt.base.errors import NmtError, counted, how_to_install
from nmt.base.machine import num_cores

_CONNECT_SECONDS = 10.0
_LOCAL_STORE_BYTES = 256 << 20  # object store of a cluster on this machine, for texts and translations in transit
_ADDRESS = re.compile(r"(?:ray://)?(?P<host>[\w.-]+|\[[0-9A-Fa-f:]+\]):(?P<port>\d{1,5})")


class Shares(NamedTuple):
    """The number of workers in a cluster, and the resources of each worker."""

    num_workers: int
    num_cpus: int
    num_gpus: int


@contextmanager
def connected(address: str, num_workers: int | None) -> Iterator[Any]:
    """Yield the module ray, connected to the cluster at `address`: auto, local, HOST:PORT or ray://HOST:PORT.

    `local` starts a cluster on this machine with one CPU per core, but at least `num_workers`, and stops it at the end.
    NmtError if Ray is not installed, or there is no cluster.
    """
    if address not in ("auto", "local"):
        _check_address(address)
    ray = _import_ray()
    options: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
    if address == "local":
        num_cpus = max(num_cores(), num_workers or 1)
        options |= {"num_cpus": num_cpus, "include_dashboard": False, "object_store_memory": _LOCAL_STORE_BYTES}
    is_main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(address=address, **options)
    except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
        hint = (
            "start one with `ray start --head`, or use the cores of this machine: --ray local; for a cluster with "
            "token authentication, set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN"
        )
        raise NmtError(f"cannot connect to a Ray cluster ({_first_line(error)})", path=address, hint=hint) from None
    finally:
        if is_main:
            signal.signal(signal.SIGTERM, before)  # Ray's handler would end the program silently
    try:
        yield ray
    finally:
        ray.shutdown()


def share_out(ray: Any, num_workers: int | None, device: str) -> Shares:
    """Divide the free resources of the cluster among `num_workers` (default: one per GPU, else one per CPU).

    Each worker gets at least one whole CPU, and one whole GPU if a GPU is free and `device` allows it. NmtError if the
    cluster, even with all its resources free, has no room for so many workers: some would wait forever.
    """
    free = ray.available_resources()
    num_cpus, num_gpus = max(1, int(free.get("CPU", 1))), int(free.get("GPU", 0)) if device in ("auto", "cuda") else 0
    gpus_each = 1 if num_gpus else 0
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    room = _max_workers(nodes, 1, gpus_each)
    count = num_workers or max(1, min(num_gpus or num_cpus, room))
    if count > room:
        share = "a whole CPU and a whole GPU" if gpus_each else "a whole CPU"
        hint = f"use --ray-workers {room}" if room else "add nodes with CPUs to the cluster"
        hint += ", or --device cpu to translate on CPUs only" if gpus_each else ""
        message = f"the Ray cluster has room for {counted(room, 'worker')}, not {count:,}: each takes {share}"
        raise NmtError(message, hint=hint)
    cpus_each = range(max(1, num_cpus // count), 0, -1)
    return Shares(count, next(cpus for cpus in cpus_each if _max_workers(nodes, cpus, gpus_each) >= count), gpus_each)


def _max_workers(nodes: Sequence[Mapping[str, float]], num_cpus: int, num_gpus: int) -> int:
    """Return how many workers with `num_cpus` and `num_gpus` each fit on nodes with these resources."""
    return sum(
        int(min(node.get("CPU", 0) // num_cpus, node.get("GPU", 0) // num_gpus if num_gpus else math.inf))
        for node in nodes
    )


def _check_address(address: str) -> None:
    """Raise NmtError unless something listens at `address`; Ray itself would wait for minutes."""
    match = _ADDRESS.fullmatch(address)
    if not match or int(match["port"]) > 65535:
        hint = "use auto, local, HOST:PORT of a cluster's head node, or ray://HOST:PORT"
        raise NmtError(f"--ray {address}: not an address of a Ray cluster", hint=hint)
    try:
        socket.create_connection((match["host"].strip("[]"), int(match["port"])), _CONNECT_SECONDS).close()
    except OSError as error:
        hint = "check if the cluster is running there: ray status --address HOST:PORT"
        raise NmtError(f"no Ray cluster answers ({error.strerror or error})", path=address, hint=hint) from None


def _import_ray() -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # send no usage statistics
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # no warning about future changes in Ray
    try:
        import ray
    except ImportError:
        hint = how_to_install("ray")
        raise NmtError("--ray needs the package ray, which is not installed", hint=hint) from None
    return ray


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0].rstrip(".") or type(error).__name__
