"""One update: compute the gradients of its batches, sum them over all ranks, update the weights."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from nmt.base.device import tf32_products
from nmt.data.store.batching import Batch, no_pairs
from nmt.model.kernels.packing import compiles_each_shape
from nmt.model.transformer import Transformer
from nmt.training.update.block import BlockShape
from nmt.training.update.distributed import ProcessGroup
from nmt.training.update.loss import BatchLoss
from nmt.training.update.optimizer import Optimizer
from nmt.training.update.recorded import RecordedUpdate, Recorder, record_training


class Step:
    """Computes updates. Each rank takes a share of the rows of a batch; the result is the same for any number."""

    def __init__(self, model: Transformer, optimizer: Optimizer, group: ProcessGroup):
        self.optimizer = optimizer
        self.group = group
        self.device = model.device
        self.num_micro_batches = 1  # per batch, so that it fits into memory
        # All rows of a batch in one, whose length is a multiple of some number: batches then have few shapes.
        self.flattened = compiles_each_shape(model.output_proj.weight)
        self.loss = BatchLoss(model)
        self.recorded: RecordedUpdate | None = None
        self.num_launched = 0  # batches that were not replayed although there is a block

    def __call__(
        self, batches: Sequence[Batch], num_tokens: int, lr: float, label_smoothing: float = 0.0
    ) -> tuple[Tensor, Tensor]:
        """Train on this rank's share of an update that has `num_tokens` real target tokens over all ranks.

        Return (this rank's sum of the loss in nats, norm of the gradient before clipping), on the device. If a rank
        runs out of memory, all ranks halve their batches from then on, and repeat the update.
        """
        with tf32_products(self.device):
            if self.recorded is not None:
                return self._on_block(self.recorded, batches, num_tokens, lr, label_smoothing)
            loss_sum = self._within_memory(batches, num_tokens, label_smoothing, self.group)
        self.optimizer.sum_gradients(self.group)
        # All ranks must decide the same, so they decide by the norm alone, which they share.
        return loss_sum, self.optimizer.step(lr, loss_sum if self.group.world_size == 1 else None)

    def _on_block(
        self, recorded: RecordedUpdate, batches: Sequence[Batch], num_tokens: int, lr: float, label_smoothing: float
    ) -> tuple[Tensor, Tensor]:
        """Compute the batches that fit the block on it, and the others as without a block.

        Each rank decides for itself, because other ranks' batches may fit. Each fills the block, which has the learning
        rate.
        """
        fits = recorded.block.shape.fits
        rest = [batch for batch in batches if not fits(batch)]
        self.num_launched += len(rest)
        if rest:
            recorded.loss_sum += self._within_memory(rest, num_tokens, label_smoothing, ProcessGroup())
        for batch in [*filter(fits, batches)] or [no_pairs()]:
            self.num_launched += not recorded.add(batch, 1 / num_tokens, lr)
        self.optimizer.sum_gradients(self.group)
        return recorded.finish()

    def record(self, shape: BlockShape, label_smoothing: float, recorder: Recorder | None = record_training) -> None:
        """Compute batches that fit a block of `shape` on it from now on, by recordings; None: never record."""
        self.recorded = RecordedUpdate(
            self.loss, self.optimizer, shape, label_smoothing, checks_loss=self.group.world_size == 1, record=recorder
        )

    def dry_run(self, batch: Batch) -> None:
        """Run forward and backward without an update, so that insufficient memory shows at once.

        Each rank tries by itself. Then all split batches as finely as the one with the least memory.
        """
        with tf32_products(self.device):
            self._within_memory([batch], max(1, batch.num_tgt_tokens), 0.0, ProcessGroup())
        self.optimizer.zero_grad()
        self.num_micro_batches = max(self.group.gather(self.num_micro_batches))

    def _within_memory(
        self, batches: Sequence[Batch], num_tokens: int, label_smoothing: float, group: ProcessGroup
    ) -> Tensor:
        """Compute gradients, halving batches until they fit into the memory of every rank of `group`."""
        while True:
            parts = [part for batch in batches for part in batch.cut(self.num_micro_batches)]
            loss_sum: Tensor | None = None
            try:
                loss_sum = self._compute_gradients(parts, num_tokens, label_smoothing)
            except torch.OutOfMemoryError:
                if all(len(part.src) == 1 for part in parts):
                    raise
            if not group.any(loss_sum is None) and loss_sum is not None:
                return loss_sum
            self.num_micro_batches *= 2
            self.optimizer.zero_grad()

    def _compute_gradients(self, batches: Sequence[Batch], num_tokens: int, label_smoothing: float) -> Tensor:
        """Run forward and backward on batches on the host; return the sum of the loss."""
        loss_sum = torch.zeros((), device=self.device)
        # Divide by the real tokens of the whole update: the mean of micro-batch means is not the token mean.
        scale = self.optimizer.scaled(1 / num_tokens)
        for batch in batches:
            loss = self.loss(batch.to(self.device), label_smoothing, flattened=self.flattened)
            self.optimizer.accumulate(torch.autograd.grad(loss * scale, self.loss.parameters))
            loss_sum += loss.detach()
        return loss_sum
