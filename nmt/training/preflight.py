"""Checks before the first update, so that a training that cannot work fails immediately."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from nmt.base.errors import RunError
from nmt.base.special_tokens import EOS_ID
from nmt.data.store.batching import Batch
from nmt.training.batches import UpdateBatches
from nmt.training.memory import (
    MemoryNeeds,
    available_bytes,
    num_micro_batches_on_cpu,
    own_bytes,
    refuse_beyond_memory,
)
from nmt.training.parts import Training
from nmt.training.stages import StageSpan
from nmt.training.state import random_state, set_random_state
from nmt.training.update.distributed import ProcessGroup, local_world_size


def refuse_differing_ranks(group: ProcessGroup, facts: Mapping[str, str]) -> None:
    """Raise RunError in every rank, with the first difference, unless all ranks have the same `facts` by name."""
    all_facts = group.gather(dict(facts))
    for rank, others in enumerate(all_facts):
        for name, value in all_facts[0].items():
            if others[name] != value:
                raise RunError(
                    f"the processes of this training differ: {name} is {value} on rank 0 and "
                    f"{others[name]} on rank {rank}",
                    hint="all machines need the same versions, command, and files (a shared file system)",
                )


def fit_into_memory(training: Training) -> None:
    """Split batches so that they fit into memory: on a CPU by an estimate, elsewhere by trying the longest batch.

    All ranks split the same way. If even the smallest micro-batches do not fit, raises RunError on a CPU, elsewhere
    torch.OutOfMemoryError.
    """
    step = training.step
    if training.setup.device.type == "cpu":
        step.num_micro_batches = _num_micro_batches(training, training.stage, training.batches, step.num_micro_batches)
        return
    random = random_state(training.setup.device)
    src_len, tgt_len = training.batches.longest()
    batch_tokens = training.batches.batch_tokens // training.setup.group.world_size
    num_rows = max(1, batch_tokens // max(src_len, tgt_len))
    src, tgt = (torch.full((num_rows, length), EOS_ID) for length in (src_len, tgt_len))
    step.dry_run(Batch.from_ids(src, tgt, tgt))
    training.validator.dry_run(training.model, src_len)
    set_random_state(training.setup.device, random)


def refuse_stages_beyond_memory(training: Training) -> None:
    """On a CPU, raise RunError if a later stage does not fit into memory; other devices try when it begins."""
    if training.setup.device.type == "cpu":
        for stage in training.stages[training.stage.number + 1 :]:
            _num_micro_batches(training, stage, training.batches_of(stage), minimum=1)


def _num_micro_batches(training: Training, stage: StageSpan, batches: UpdateBatches, minimum: int) -> int:
    """Return into how many micro-batches every rank splits a batch of `stage`, by an estimate for CPUs.

    RunError if even the smallest do not fit into memory.
    """
    group = training.setup.group
    needs, batch_tokens = memory_needs(training, batches.longest()), batches.batch_tokens // group.world_size
    total = available_bytes()
    held = max(0, own_bytes() - training.bytes_before)  # by this training, such as in an earlier stage
    available = None if total is None else total // local_world_size() + held
    found = num_micro_batches_on_cpu(needs, batch_tokens, minimum, available) if batches.is_auto else minimum
    found = max(group.gather(found))
    number = stage.number + 1 if training.settings.stages else None
    refuse_beyond_memory(needs.num_bytes(batch_tokens // found), available, number, is_auto=batches.is_auto)
    return found


def memory_needs(training: Training, longest: tuple[int, int]) -> MemoryNeeds:
    """Return what the memory usage of `training` depends on; `longest` has the longest source and target in tokens."""
    return MemoryNeeds(
        training.config.model,
        training.model.num_parameters(),
        training.model.output_proj.weight.size(0),
        longest,
        training.setup.precision.dtype.itemsize,
        training.settings.num_passes,
        training.ema is not None,
    )
