"""The processes that train one model together: torchrun starts them, gloo or NCCL joins them."""

from __future__ import annotations

import os
import sys
import time
import uuid
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch
from torch import Tensor
from torch import distributed as dist

_PATIENCE = timedelta(hours=24)  # rank 0 may prepare a large corpus alone; a rank that dies is noticed by torchrun


class ProcessGroup:
    """This process among those that train together; a process of its own is the only one of one."""

    def __init__(self, rank: int = 0, world_size: int = 1, store: dist.Store | None = None):
        """`store` is what torchrun's processes share."""
        self.rank = rank
        self.world_size = world_size
        self._store = store

    @property
    def is_main(self) -> bool:
        """Whether this is the process that writes the run and speaks."""
        return self.rank == 0

    def await_main(self) -> None:
        """Wait until the first process is here, which may prepare a corpus first: asleep, so that signals are heard."""
        if self._store is None:
            return
        if self.is_main:
            self._store.set("first", "here")
        while not self._store.check(["first"]):
            time.sleep(0.05)

    def barrier(self) -> None:
        """Wait until every process is here."""
        if self.world_size > 1:
            self.gather(None)  # of objects, so over gloo: a device may be busy

    def any(self, flag: bool) -> bool:
        """Whether `flag` is set in any process."""
        if self.world_size == 1:
            return flag
        flags = torch.tensor([flag], dtype=torch.int32)
        dist.all_reduce(flags, op=dist.ReduceOp.MAX)
        return bool(flags.item())

    def gather(self, value: Any) -> list[Any]:
        """The `value` of every process, in the order of ranks, in every process."""
        if self.world_size == 1:
            return [value]
        values: list[Any] = [None] * self.world_size
        dist.all_gather_object(values, value, group=_host_group())
        return values

    def sum(self, total: Tensor) -> Tensor:
        """The sum of `total` over the processes, in every process."""
        if self.world_size > 1:
            dist.all_reduce(total)
        return total


_host: Any = None


def _host_group() -> Any:
    """A group whose messages go through the host's memory, whatever the devices are."""
    global _host
    if _host is None:
        _host = dist.new_group(backend="gloo", timeout=_PATIENCE)
    return _host


def join_process_group() -> ProcessGroup:
    """Meet the other processes that torchrun started; alone where it did not."""
    count = int(os.environ.get("WORLD_SIZE", "1"))
    if count == 1:
        return ProcessGroup()
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    store: dist.Store | None = None
    if not dist.is_initialized():
        store, rank, _ = next(dist.rendezvous("env://"))
        if local_world_size() == count:
            # After a restart the agent's store still holds the addresses of the processes before.
            store = dist.PrefixStore(f"restart-{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        dist.init_process_group(backend, store=store, rank=rank, world_size=count, timeout=_PATIENCE)
    return ProcessGroup(dist.get_rank(), dist.get_world_size(), store)


def leave_process_group() -> None:
    """Take leave of the others, once all is done."""
    global _host
    _host = None
    if dist.is_initialized():
        dist.destroy_process_group()


def local_world_size() -> int:
    """How many of the processes share this machine."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


def launch(arguments: Sequence[str], count: int) -> int:
    """Run `nmt ARGUMENTS` in `count` processes under torchrun's agent; returns the first exit code that is not 0.

    The agent hands Ctrl-C and SIGTERM on to the processes, which finish their update and save.
    """
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    options: dict[str, Any] = {"nproc_per_node": count, "min_nodes": 1, "max_nodes": 1, "max_restarts": 0}
    options |= {"rdzv_backend": "c10d", "rdzv_endpoint": "localhost:0", "run_id": uuid.uuid4().hex}
    if "shutdown_timeout" in LaunchConfig.__dataclass_fields__:  # since torch 2.12; 30 seconds before
        options["shutdown_timeout"] = 600
    try:
        elastic_launch(LaunchConfig(**options), sys.executable)("-m", "nmt", *arguments)
    except ChildFailedError as error:
        # The first process that failed is named; those it took down follow. An exit code of -9 is a kill -9.
        code = error.get_first_failure()[1].exitcode
        return code if code >= 0 else 128 - code
    except SignalException as error:
        return 128 + error.sigval
    return 0
