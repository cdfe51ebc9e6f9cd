"""Exchange sums, flags and values between the ranks (processes) that train a model together: gloo or NCCL."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch import distributed as dist

T = TypeVar("T")


@dataclass
class ProcessGroup:
    """This rank of a (possibly single-process) distributed training."""

    rank: int = 0
    world_size: int = 1
    store: dist.Store | None = None  # shared by the ranks, which connect through it
    timeout: timedelta | None = None  # how long to wait for the slowest rank
    _host: Any = None  # a group that communicates through host memory, whatever the devices are

    @property
    def is_main(self) -> bool:
        """True for rank 0, which writes the run and prints the log."""
        return self.rank == 0

    def await_main(self) -> None:
        """Wait until rank 0, which may prepare a corpus first, calls this too; wake regularly to handle signals."""
        if self.store is None:
            return
        if self.is_main:
            self.store.set("first", "here")
        while not self.store.check(["first"]):
            time.sleep(0.05)

    def barrier(self) -> None:
        """Wait until every rank has called this."""
        if self.world_size > 1:
            self.gather(None)  # objects are gathered over gloo, which works while a device is busy

    def any(self, flag: bool) -> bool:
        """Return True in every rank if `flag` is set in any."""
        if self.world_size == 1:
            return flag
        flags = torch.tensor([flag], dtype=torch.int32)
        dist.all_reduce(flags, op=dist.ReduceOp.MAX)
        return bool(flags.item())

    def gather(self, value: T) -> list[T]:
        """Return the `value` of every rank, in the order of ranks, in every rank."""
        if self.world_size == 1:
            return [value]
        if self._host is None:
            self._host = dist.new_group(backend="gloo", timeout=self.timeout)
        values: list[Any] = [None] * self.world_size
        dist.all_gather_object(values, value, group=self._host)
        return values

    def sum(self, total: Tensor) -> Tensor:
        """Return the sum of `total` over the ranks, in every rank."""
        if self.world_size > 1:
            dist.all_reduce(total)
        return total
