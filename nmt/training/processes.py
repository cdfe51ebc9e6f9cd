"""Start the ranks (processes) that train a model together, and connect them: torchrun's agent, gloo or NCCL."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
from torch import distributed as dist

from nmt.base.errors import ConfigError, NmtError, RunError
from nmt.base.machine import environment_count
from nmt.training.update.distributed import ProcessGroup

_TIMEOUT_VARIABLE = "NMT_COLLECTIVE_TIMEOUT"
_WATCH_SECONDS = 1.0  # between looks whether torchrun's agent still exists

log = logging.getLogger(__name__)


@contextmanager
def joined_process_group() -> Iterator[ProcessGroup]:
    """Connect to the other ranks if torchrun started this process. If one rank is lost, the others get a RunError."""
    timeout = timedelta(seconds=environment_count(_TIMEOUT_VARIABLE, 600, minimum=1))
    group = _join(timeout)
    try:
        yield group
    except NmtError:
        # All ranks do this, or the others notice when their connections close. A process that exits while gloo's
        # threads are still working would sometimes abort instead of returning its exit code.
        if dist.is_initialized() and dist.get_backend() == "gloo":
            dist.destroy_process_group()
        raise
    except (dist.DistError, RuntimeError) as error:
        if group.world_size == 1 or isinstance(error, torch.OutOfMemoryError):
            raise
        lost = f"was lost, or did not answer for {timeout.total_seconds():.0f} seconds"
        raise RunError(
            f"another process of this training {lost} ({next(iter(str(error).splitlines()), '')})",
            hint=f"continue from the last checkpoint with --resume; ${_TIMEOUT_VARIABLE} sets the seconds to wait",
        ) from error
    if dist.is_initialized():
        dist.destroy_process_group()


def _join(timeout: timedelta) -> ProcessGroup:
    world_size = environment_count("WORLD_SIZE", 1, minimum=1)
    if world_size == 1:
        return ProcessGroup()
    if torch.cuda.is_available():
        torch.cuda.set_device(environment_count("LOCAL_RANK", 0))
    store: dist.Store | None = None
    if not dist.is_initialized():
        try:
            store, rank, _ = next(dist.rendezvous("env://", timeout=timeout))
        except (ValueError, OSError, dist.DistError) as error:  # a variable is missing, or nobody answers
            raise ConfigError(
                f"WORLD_SIZE is {world_size}, but this process cannot find the others ({error})",
                hint="start them with torchrun or --num-processes, or unset WORLD_SIZE",
            ) from error
        if local_world_size() == world_size:
            # After a restart, the agent's store still contains the addresses of the previous processes.
            store = dist.PrefixStore(f"restart-{environment_count('TORCHELASTIC_RESTART_COUNT', 0)}", store)
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        if "TORCHELASTIC_RUN_ID" in os.environ:
            _end_without_launcher()
        dist.init_process_group(backend, store=store, rank=rank, world_size=world_size, timeout=timeout)
    return ProcessGroup(dist.get_rank(), dist.get_world_size(), store, timeout)


def _end_without_launcher() -> None:
    """Stop this process, as SIGTERM does, when torchrun's agent, which started it, is gone, for example killed."""
    agent = os.getppid()

    def watch() -> None:
        while os.getppid() == agent:
            time.sleep(_WATCH_SECONDS)
        log.warning("the process that started this training has been killed")
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="watch-launcher", daemon=True).start()


def local_world_size() -> int:
    """Return the number of ranks on this machine."""
    return environment_count("LOCAL_WORLD_SIZE", 1, minimum=1)


def launch(arguments: Sequence[str], num_processes: int) -> int:
    """Run `nmt ARGUMENTS` in `num_processes` processes under torchrun's agent; return the first nonzero exit code.

    The agent forwards Ctrl-C and SIGTERM to the processes, which finish their update and save.
    """
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    options: dict[str, Any] = {"nproc_per_node": num_processes, "min_nodes": 1, "max_nodes": 1, "max_restarts": 0}
    options |= {"rdzv_backend": "c10d", "rdzv_endpoint": "localhost:0", "run_id": uuid.uuid4().hex}
    if "shutdown_timeout" in LaunchConfig.__dataclass_fields__:  # since torch 2.12; fixed at 30 seconds before
        options["shutdown_timeout"] = 600
    try:
        logging.disable(logging.ERROR)  # each process reports its errors; torch's agent would repeat them at length
        try:
            elastic_launch(LaunchConfig(**options), sys.executable)("-m", "nmt", *arguments)
        finally:
            logging.disable(logging.NOTSET)
    except ChildFailedError as error:
        # Report the process that failed first; the others fail because of it. An exit code of -9 means kill -9.
        rank, failure = error.get_first_failure()
        if failure.exitcode < 0:
            log.error("process %d of this training was killed by signal %d", rank, -failure.exitcode)
            return 128 - failure.exitcode
        return failure.exitcode
    except SignalException as error:
        return 128 + error.sigval
    return 0
