"""Translate blocks of texts in the worker processes of a Ray cluster, in order, even if workers die.

Ray is imported only when needed.
"""

from __future__ import annotations

import logging
import math
import os
import re
import signal
import socket
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from nmt.apps.ray.ray_worker import ModelPaths, Worker
from nmt.artifacts.rundir import RunDir
from nmt.base.errors import NmtError, counted, in_words, require
from nmt.base.machine import num_cores
from nmt.translation.chain import languages_of
from nmt.translation.languages import LanguagePair
from nmt.translation.memory import TranslationMemory
from nmt.translation.request import Request
from nmt.translation.translator import Blocks, TranslatedBlock, Translator, shared_tokenizers

log = logging.getLogger(__name__)

MAX_RETRIES = 5  # of a block whose worker died, before the block is assumed to be the cause
_BLOCKS_PER_WORKER = 2  # the next block is already queued at the worker, so that it is never idle
_WINDOW_PER_WORKER = 4  # finished blocks that wait for an earlier one stay in memory
_PATIENCE_SECONDS = 60.0
_CONNECT_SECONDS = 10.0
_LOCAL_STORE_BYTES = 256 << 20  # object store of a cluster on this machine, for texts and translations in transit
_ADDRESS = re.compile(r"(?:ray://)?(?P<host>[\w.-]+|\[[0-9A-Fa-f:]+\]):(?P<port>\d{1,5})")


class RayTranslator:
    """A translator of blocks in the workers of a Ray cluster."""

    memory: TranslationMemory | None = None  # that the workers look up
    translators: Sequence[Translator] = ()  # of this process

    def __init__(
        self,
        ray: Any,
        row: Sequence[Sequence[RunDir]],
        paths: Sequence[ModelPaths],
        shares: tuple[int, int, int],
    ):
        """Start the workers, with `shares` as of `share_out`, and wait until each has loaded the models from `paths`.

        There are one or two in a `row`, each with one run or an ensemble. NmtError if a worker cannot load them.
        """
        from nmt import __version__

        self.languages = languages_of([LanguagePair.of(runs[0].essentials()) for runs in row])
        self.tokenizers, self.options = shared_tokenizers(row[-1]), row[-1][0].essentials().decoding
        self._ray = ray
        count, num_cpus, num_gpus = shares
        remote = ray.remote(num_cpus=num_cpus, num_gpus=num_gpus, max_restarts=-1, max_task_retries=MAX_RETRIES)(Worker)
        self._workers = [remote.remote(paths, num_cpus, __version__) for _ in range(count)]
        references = [worker.load.remote() for worker in self._workers]
        self._wait_for(references, count, "waiting for free CPUs or GPUs in the Ray cluster")
        infos = [self._get(reference, "while it loaded the model") for reference in references]
        precisions = sorted({precision for precision, _ in infos})
        if len(precisions) > 1:  # translations might differ
            hint = "set --engine, --device and --precision, so that all compute alike"
            raise NmtError(f"the Ray workers differ in precision: {in_words(precisions)}", hint=hint)
        self.precision, self.max_src_len = infos[0]

    def translate_blocks(self, blocks: Blocks, request: Request, first: int = 1) -> Iterator[TranslatedBlock]:
        """Yield each of `blocks` with its translations, in order, while the workers translate the next ones.

        NmtError if workers repeatedly die of the same block.
        """
        source, count = iter(blocks), len(self._workers)
        memory = None if self.memory is None else self._ray.put(self.memory)  # once for all blocks
        window = deque[tuple[list[str], int, Any]]()  # in order: texts, the first line, and their translations
        running: dict[Any, int] = {}  # the workers of those that are not finished
        while True:
            while (
                len(running) < _BLOCKS_PER_WORKER * count
                and len(window) < _WINDOW_PER_WORKER * count
                and (texts := next(source, None)) is not None
            ):
                worker = min(range(count), key=[*running.values()].count)
                reference = self._workers[worker].translate.remote(texts, request, first, memory)
                running[reference] = worker
                window.append((texts, first, reference))
                first += len(texts)
            if not window:
                return
            texts, start, reference = window[0]
            if reference in running:
                for finished in self._wait_for([*running], 1, "waiting for Ray workers"):
                    del running[finished]
            else:
                window.popleft()
                lines = f"the lines {start:,} to {start + len(texts) - 1:,}"
                yield texts, self._get(reference, f"while it translated {lines}")

    def _wait_for(self, references: list[Any], count: int, message: str) -> list[Any]:
        while True:
            ready, _ = self._ray.wait(references, num_returns=count, timeout=_PATIENCE_SECONDS)
            if len(ready) >= count:
                return ready
            log.warning(message)

    def _get(self, reference: Any, when: str) -> Any:
        """Return the result of a call; raise the NmtError that it returned."""
        try:
            result = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            fault = str(error).strip().splitlines() or [type(error).__name__]
            hint = "it may have run out of memory, or nmt is not installed there; see Ray's logs (ray logs)"
            raise NmtError(f"a Ray worker failed {when}: {fault[-1].strip()}", hint=hint) from None
        if isinstance(result, NmtError):
            raise result
        return result


@contextmanager
def connected(address: str, num_workers: int | None) -> Iterator[Any]:
    """Yield the module ray, connected to the cluster at `address`: auto, local, HOST:PORT or ray://HOST:PORT.

    `local` starts a cluster on this machine with one CPU per core, but at least `num_workers`, and stops it at the end.
    NmtError if Ray is not installed, or there is no cluster.
    """
    if address not in ("auto", "local"):
        _check_address(address)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # send no usage statistics
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # no warning about future changes in Ray
    ray = require("ray", "ray", "--ray")
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
        reason = str(error).strip().partition("\n")[0].rstrip(".") or type(error).__name__
        raise NmtError(f"cannot connect to a Ray cluster ({reason})", path=address, hint=hint) from None
    finally:
        if is_main:
            signal.signal(signal.SIGTERM, before)  # Ray's handler would end the program silently
    try:
        yield ray
    finally:
        ray.shutdown()


def share_out(ray: Any, num_workers: int | None, device: str) -> tuple[int, int, int]:
    """Divide the free resources of the cluster among `num_workers` (default: one per GPU, else one per CPU).

    Return the number of workers, and the CPUs and GPUs of each: at least one whole CPU, and one whole GPU if a GPU is
    free and `device` allows it. NmtError if the cluster, even with all its resources free, has no room for so many
    workers: some would wait forever.
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
    return count, next(cpus for cpus in cpus_each if _max_workers(nodes, cpus, gpus_each) >= count), gpus_each


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
