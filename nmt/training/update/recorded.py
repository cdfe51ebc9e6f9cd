"""Updates recorded as two CUDA graphs on one block: one adds the gradients of a batch, one changes the weights.

There are two, because the number of batches in an update varies, and several ranks sum their gradients in between.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import torch
from torch import Tensor

from nmt.data.store.batching import Batch
from nmt.decoding.cuda_graphs import record_graph, recording_stream
from nmt.training.update.block import Block, BlockShape
from nmt.training.update.loss import BatchLoss
from nmt.training.update.optimizer import Optimizer

log = logging.getLogger(__name__)

CALLS_BEFORE = 3  # before a recording: the first ones allocate memory and compile kernels

Work = Callable[[], object]
Recorder = Callable[[Work, torch.device], Work]
"""Turns work on tensors that stay where they are into a function that replays it."""


def record_training(work: Work, device: torch.device) -> Work:
    """Record `work` as a CUDA graph without doing it; return a function that replays it."""
    torch.cuda.empty_cache()  # a recording has memory of its own
    return record_graph(work, device, "training")


class Recording:
    """Work on tensors that stay where they are: launched step by step three times, then recorded and replayed."""

    def __init__(self, work: Work, device: torch.device, record: Recorder | None):
        """Record by `record`; None: never."""
        self.work = work
        self.device = device
        self.record = record
        self.num_calls = self.num_replays = 0
        self._replay: Work | None = None

    def __call__(self) -> bool:
        """Do the work; return whether it was replayed."""
        self.num_calls += 1
        if self._replay is not None:
            self._replay()
            self.num_replays += 1
            return True
        self._launch()
        if self.record is not None and self.num_calls == CALLS_BEFORE:
            try:
                self._replay = self.record(self.work, self.device)
            except RuntimeError as error:
                self.record = None
                reason = str(error).partition("\n")[0]  # torch adds lines of advice
                log.warning("updates without CUDA graphs, which would be faster: recording failed: %s", reason)
        return False

    def _launch(self) -> None:
        if self.device.type != "cuda":
            self.work()
            return
        # On the stream of the recording, whose matrix products have a workspace of their own.
        stream = recording_stream(self.device, "training")
        current = torch.cuda.current_stream(self.device)
        stream.wait_stream(current)
        with torch.cuda.stream(stream):
            self.work()
        current.wait_stream(stream)


class RecordedUpdate:
    """The two halves of an update on a block."""

    def __init__(
        self, loss: BatchLoss, optimizer: Optimizer, shape: BlockShape, label_smoothing: float, *,
        checks_loss: bool = True, record: Recorder | None = record_training,
    ):  # fmt: skip
        """Record for blocks of `shape`. With `checks_loss`, a loss that is not finite skips the update, too."""
        self.loss = loss
        self.optimizer = optimizer
        self.label_smoothing = label_smoothing
        self.checks_loss = checks_loss
        device = loss.model.device
        self.block = Block(shape, device)
        self.loss_sum = torch.zeros((), device=device)
        self._results = torch.zeros(2, device=device)
        optimizer.keeps_zeros = True
        optimizer.zero_grad()
        self.backward, self.change = (Recording(work, device, record) for work in (self._backward, self._change))

    def add(self, batch: Batch, scale: float, lr: float) -> bool:
        """Add the gradients of `batch`, which must fit the block, times `scale`; `lr` is that of the whole update.

        Return whether they were replayed.
        """
        self.block.fill(batch, scale, lr)
        return self.backward()

    def finish(self) -> tuple[Tensor, Tensor]:
        """Change the weights; return the sum of the loss in nats, and the norm of the gradient before clipping."""
        if self.backward.record is None:  # it has failed: do not try the other half
            self.change.record = None
        self.change()
        loss_sum, norm = self._results.clone().unbind()
        return loss_sum, norm

    def _backward(self) -> None:
        contents = self.block.contents()
        loss = self.loss.of_block(contents, self.label_smoothing)
        scale = self.optimizer.scaled(contents.scale)
        self.optimizer.accumulate(torch.autograd.grad(loss * scale, self.loss.parameters))
        self.loss_sum += loss.detach()

    def _change(self) -> None:
        norm = self.optimizer.step(self.block.contents().lr, self.loss_sum if self.checks_loss else None)
        self._results.copy_(torch.stack([self.loss_sum, norm]))
        self.loss_sum.zero_()
