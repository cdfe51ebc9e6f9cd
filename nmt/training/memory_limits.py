"""Split batches so that they fit into memory, or have the size that a CPU is fastest with."""

from __future__ import annotations

import torch

from nmt.base.special_tokens import EOS_ID
from nmt.data.store.batching import Batch
from nmt.training.parts import Training
from nmt.training.state import random_state, set_random_state

FASTEST_ON_CPU = 4096  # tokens per micro-batch; docs/log/training-speed.md has the speed of other sizes


def fit_into_memory(training: Training) -> None:
    """Split batches: on a CPU those of automatic size, elsewhere those that do not fit, by trying the longest batch.

    All ranks split the same way. If even the smallest micro-batches do not fit, raises torch.OutOfMemoryError; on a
    CPU, the system ends the process.
    """
    step = training.step
    batch_tokens = training.batches.batch_tokens // training.setup.group.world_size
    if training.setup.device.type == "cpu":
        if training.batches.is_auto:
            step.num_micro_batches = max(step.num_micro_batches, -(-batch_tokens // FASTEST_ON_CPU))
        return
    random = random_state(training.setup.device)
    src_len, tgt_len = training.batches.longest()
    num_rows = max(1, batch_tokens // max(src_len, tgt_len))
    src, tgt = (torch.full((num_rows, length), EOS_ID) for length in (src_len, tgt_len))
    step.dry_run(Batch.from_ids(src, tgt, tgt))
    set_random_state(training.setup.device, random)
    step.recorded = None
    if training.in_blocks and step.num_micro_batches == 1:
        step.record(training.batches.block_shape(), training.stage.config.training.label_smoothing)
