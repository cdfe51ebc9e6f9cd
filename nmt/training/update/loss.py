"""The summed loss of a batch, as it was padded or laid out in a block."""

from __future__ import annotations

from torch import Tensor

from nmt.data.store.batching import Batch
from nmt.model.cache import KVCache
from nmt.model.kernels.chunked_loss import projected_token_loss, with_bias
from nmt.model.kernels.packing import Flattening, Layout
from nmt.model.transformer import Transformer
from nmt.training.update.block import Contents

Layouts = tuple[Layout, Layout]  # of the sources and the targets


class BatchLoss:
    """The summed loss of a batch."""

    def __init__(self, model: Transformer):
        self.model = model
        self.parameters = list(model.parameters())

    def __call__(self, batch: Batch, label_smoothing: float, *, flattened: bool = False) -> Tensor:
        """Return the sum of the loss over the real tokens of `batch`, on the model's device, in nats.

        If `flattened`, the model computes its states in a single row.
        """
        layouts = (Flattening.from_ids(batch.src), Flattening.from_ids(batch.tgt_out)) if flattened else None
        states = self.states(batch.src, batch.tgt_in, layouts)
        return self._loss(states, batch.tgt_out, batch.tgt_real, label_smoothing)

    def of_block(self, contents: Contents, label_smoothing: float) -> Tensor:
        """Return the sum of the loss over the real tokens of a block, in nats."""
        states = self.states(contents.src, contents.tgt_in, (contents.sources, contents.targets))
        return self._loss(states, contents.tgt_out, None, label_smoothing)

    def _loss(self, states: Tensor, tgt_out: Tensor, real: Tensor | None, label_smoothing: float) -> Tensor:
        rows, weight = with_bias(states, self.model.output_proj)
        return projected_token_loss(rows, weight, tgt_out, real, label_smoothing)

    def states(self, src: Tensor, tgt_in: Tensor, layouts: Layouts | None) -> Tensor:
        """Return the decoder's final states, laid out by `layouts`: [B, T, D] without, else [1, N, D]."""
        sources, targets = (None, None) if layouts is None else layouts
        memory = self.model.encode(src, packing=sources)
        mask = memory.mask._replace(queries=targets)
        return self.model.decode_states(tgt_in, KVCache(self.model.project_memory(memory), mask))
