"""One update: compute the gradients of its batches, sum them over all ranks, update the weights."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from nmt.base.device import tf32_products
from nmt.data.store.batching import Batch
from nmt.model.cache import KVCache
from nmt.model.kernels.chunked_loss import RDrop, projected_token_loss, r_drop_loss, with_bias
from nmt.model.kernels.packing import compiles_each_shape
from nmt.model.transformer import Transformer
from nmt.training.update.distributed import ProcessGroup
from nmt.training.update.optimizer import Optimizer
from nmt.training.update.packing import Packings, choose_packing


class BatchLoss(nn.Module):
    """A module that computes the summed loss of a batch."""

    def __init__(self, model: Transformer, label_smoothing: float, compiled: bool = False):
        super().__init__()
        self.model = model
        self.label_smoothing = label_smoothing
        self.r_drop = 0.0  # if positive, batches hold each row twice, and this is the weight of their divergence
        self.compiled = compiled
        # With dynamic sizes, so that all batch shapes share a few graphs.
        self.states = torch.compile(self._states, dynamic=True) if compiled else self._states

    def forward(self, *tensors: Tensor, packings: Packings | None = None) -> Tensor:
        """Return the sum of the loss over real tokens, in nats.

        `tensors` are those of a `Batch` on the model's device; with `r_drop`, those of `Batch.twice`. If `packings` are
        given, the model computes its states in their layout.
        """
        batch = Batch(*tensors)
        states, weight = with_bias(self.states(batch.src, batch.tgt_in, packings), self.model.output_proj)
        if self.r_drop:
            settings = RDrop(self.r_drop, self.label_smoothing)
            return r_drop_loss(states, weight, batch.tgt_out, batch.tgt_real, settings, compiled=self.compiled)
        return projected_token_loss(
            states, weight, batch.tgt_out, batch.tgt_real, self.label_smoothing, compiled=self.compiled
        )

    def _states(self, src: Tensor, tgt_in: Tensor, packings: Packings | None) -> Tensor:
        sources, targets = (None, None) if packings is None else packings
        memory = self.model.encode(src, sources)
        cache = KVCache(self.model.project_memory(memory), memory.mask._replace(queries=targets))
        return self.model.decode_states(tgt_in, cache)


class Step:
    """Computes updates. Each process takes a share of the rows of a batch; the result is the same for any number."""

    def __init__(
        self,
        model: Transformer,
        optimizer: Optimizer,
        group: ProcessGroup,
        label_smoothing: float,
        compiled: bool = False,
    ):
        """Choose the layout of batches; `packed` and `packed_reason` tell if they are packed, and why."""
        self.optimizer = optimizer
        self.group = group
        self.num_micro_batches = 1  # per batch, so that it fits into memory
        self.device = model.device
        self.packed, self.packed_reason = choose_packing(model)
        self.flattened = compiles_each_shape(model.output_proj.weight) and not compiled
        self.loss = BatchLoss(model, label_smoothing, compiled)

    def __call__(self, batches: Sequence[Batch], num_tokens: int, update: int) -> tuple[Tensor, Tensor]:
        """Train on this process's share of an update that has `num_tokens` real target tokens over all processes.

        Return (this process's sum of the loss in nats, norm of the gradient before clipping), on the device. If a rank
        runs out of memory, all ranks halve their batches from then on, and repeat the update.
        """
        with tf32_products(self.device):
            loss_sum = self._within_memory(batches, num_tokens, self.group)
        self.optimizer.sum_gradients(self.group)
        # All processes must decide the same, so they decide by the norm alone, which they share.
        return loss_sum, self.optimizer.step(update, loss_sum if self.group.world_size == 1 else None)

    def _within_memory(self, batches: Sequence[Batch], num_tokens: int, group: ProcessGroup) -> Tensor:
        """Compute gradients, halving batches until they fit into the memory of every rank of `group`."""
        while True:
            parts = list(batches)
            if self.num_micro_batches > 1:
                parts = [part for batch in batches for part in batch.cut(self.num_micro_batches)]
            loss_sum: Tensor | None = None
            try:
                loss_sum = self._gather_gradients(parts, num_tokens)
            except torch.OutOfMemoryError:
                if all(len(part.src) == 1 for part in parts):
                    raise
            if not group.any(loss_sum is None) and loss_sum is not None:
                return loss_sum
            self.num_micro_batches *= 2
            self.optimizer.zero_grad()

    def _gather_gradients(self, batches: Sequence[Batch], num_tokens: int) -> Tensor:
        """Compute forward and backward; return the sum of the loss."""
        loss_sum = torch.zeros((), device=self.device)
        # Divide by the real tokens of the whole update: the mean of micro-batch means is not the token mean.
        scale: float | Tensor = 1 / num_tokens
        if self.optimizer.loss_scale is not None:
            scale = scale * self.optimizer.loss_scale.scale
        for batch in batches:
            loss = self._loss(batch)
            (loss * scale).backward()
            self.optimizer.accumulate()
            loss_sum += loss.detach()
        return loss_sum

    def _loss(self, batch: Batch) -> Tensor:
        """Return the sum of the loss of `batch`, a batch on the host."""
        if self.loss.r_drop:
            batch = batch.twice()
        packings = None
        if self.packed and batch.num_tgt_tokens:
            packings = Packings.from_batch(batch).to(self.device)
        elif self.flattened:
            packings = Packings.flattening(batch)
        loss: Tensor = self.loss(*batch.to(self.device), **({} if packings is None else {"packings": packings}))
        return loss

    def dry_run(self, batch: Batch) -> None:
        """Run forward and backward without an update, so that insufficient memory shows at once.

        Each process tries by itself. Then all split batches as finely as the one with the least memory.
        """
        with tf32_products(self.device):
            self._within_memory([batch], max(1, batch.num_tgt_tokens), ProcessGroup())
        self.optimizer.zero_grad()
        self.num_micro_batches = max(self.group.gather(self.num_micro_batches))
