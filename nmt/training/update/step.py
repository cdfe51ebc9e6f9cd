"""One update: compute the gradients of its batches, sum them over all ranks, update the weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from nmt.base.device import tf32_products
from nmt.data.store.batching import Batch
from nmt.model.cache import KVCache
from nmt.model.kernels.chunked_loss import projected_token_loss, with_bias
from nmt.model.kernels.packing import Flattening, Packing, compiles_each_shape
from nmt.model.transformer import Transformer
from nmt.training.update.distributed import ProcessGroup
from nmt.training.update.optimizer import Optimizer


class Packings(NamedTuple):
    """The packings, or flattenings, of the sources and the targets of a batch."""

    sources: Packing | Flattening
    targets: Packing | Flattening

    @classmethod
    def from_batch(cls, batch: Batch) -> Packings:
        """Build the packings of `batch` on the host, because on a GPU this would launch about twenty small kernels."""
        sides = ((batch.src, batch.src_real), (batch.tgt_out, batch.tgt_real))
        return cls(*(Packing.from_ids(*side).filled() for side in sides))

    @classmethod
    def flattening(cls, batch: Batch) -> Packings:
        """Build the flattenings of `batch`."""
        return cls(Flattening.from_ids(batch.src), Flattening.from_ids(batch.tgt_out))

    def to(self, device: torch.device) -> Packings:
        """Copy both to `device`; the copy to a GPU is asynchronous."""
        return Packings(self.sources.to(device), self.targets.to(device))


class BatchLoss:
    """The summed loss of a batch."""

    def __init__(self, model: Transformer, *, compiled: bool = False):
        self.model, self.compiled = model, compiled
        # With dynamic sizes, so that all batch shapes share a few graphs.
        self.states = torch.compile(self._states, dynamic=True) if compiled else self._states

    def __call__(self, batch: Batch, label_smoothing: float, packings: Packings | None = None) -> Tensor:
        """Return the sum of the loss over the real tokens of `batch`, on the model's device, in nats.

        If `packings` are given, the model computes its states in their layout.
        """
        states = self.states(batch.src, batch.tgt_in, packings)
        if packings is not None and isinstance(packings.targets, Packing):
            states = states[:, : batch.num_tgt_tokens]  # without the filler
        rows, weight = with_bias(states, self.model.output_proj)
        return projected_token_loss(
            rows, weight, batch.tgt_out, batch.tgt_real, label_smoothing, compiled=self.compiled
        )

    def _states(self, src: Tensor, tgt_in: Tensor, packings: Packings | None) -> Tensor:
        sources, targets = (None, None) if packings is None else packings
        memory = self.model.encode(src, sources)
        mask = memory.mask._replace(queries=targets)
        return self.model.decode_states(tgt_in, KVCache(self.model.project_memory(memory), mask))


class Step:
    """Computes updates. Each rank takes a share of the rows of a batch; the result is the same for any number."""

    def __init__(
        self,
        model: Transformer,
        optimizer: Optimizer,
        group: ProcessGroup,
        *,
        compiled: bool = False,
        packed: bool = False,
    ):
        """Pack batches if `packed`, so that padding is not computed; see `choose_packing`."""
        self.optimizer, self.group, self.device = optimizer, group, model.device
        self.num_micro_batches = 1  # per batch, so that it fits into memory
        self.packed = packed
        self.flattened = compiles_each_shape(model.output_proj.weight) and not compiled
        self.loss = BatchLoss(model, compiled=compiled)

    def __call__(
        self, batches: Sequence[Batch], num_tokens: int, lr: float, label_smoothing: float = 0.0
    ) -> tuple[Tensor, Tensor]:
        """Train on this rank's share of an update that has `num_tokens` real target tokens over all ranks.

        Return (this rank's sum of the loss in nats, norm of the gradient before clipping), on the device. If a rank
        runs out of memory, all ranks halve their batches from then on, and repeat the update.
        """
        with tf32_products(self.device):
            loss_sum = self._within_memory(batches, num_tokens, label_smoothing, self.group)
        self.optimizer.sum_gradients(self.group)
        # All ranks must decide the same, so they decide by the norm alone, which they share.
        return loss_sum, self.optimizer.step(lr, loss_sum if self.group.world_size == 1 else None)

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
            parts = list(batches)
            if self.num_micro_batches > 1:
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
        scale: float | Tensor = 1 / num_tokens
        if self.optimizer.loss_scale is not None:
            scale = scale * self.optimizer.loss_scale.scale
        for batch in batches:
            packings = None
            if self.packed and batch.num_tgt_tokens:
                packings = Packings.from_batch(batch).to(self.device)
            elif self.flattened:
                packings = Packings.flattening(batch).to(self.device)
            loss = self.loss(batch.to(self.device), label_smoothing, packings)
            (loss * scale).backward()
            self.optimizer.accumulate()
            loss_sum += loss.detach()
        return loss_sum
