"""Checks before the first update, so that a training that cannot work fails immediately."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from nmt.data.batching import Batch
from nmt.errors import RunError
from nmt.special_tokens import EOS_ID
from nmt.training.distributed import ProcessGroup, local_world_size
from nmt.training.memory import (
    MemoryNeeds,
    available_bytes,
    num_micro_batches_on_cpu,
    own_bytes,
    refuse_beyond_memory,
)
from nmt.training.parts import Training
from nmt.training.state import random_state, set_random_state


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
    group, step = training.setup.group, training.step
    longest = training.batches.longest()
    batch_tokens = training.batches.batch_tokens // group.world_size
    if training.setup.device.type == "cpu":
        needs = memory_needs(training, longest)
        total = available_bytes()
        held = max(0, own_bytes() - training.bytes_before)  # by this training, such as in an earlier stage
        available = None if total is None else total // local_world_size() + held
        if training.batches.is_auto:
            step.num_micro_batches = num_micro_batches_on_cpu(needs, batch_tokens, step.num_micro_batches, available)
        step.num_micro_batches = max(group.gather(step.num_micro_batches))
        refuse_beyond_memory(needs.num_bytes(batch_tokens // step.num_micro_batches), available)
        return
    random = random_state(training.setup.device)
    src_len, tgt_len = longest
    num_rows = max(1, batch_tokens // max(src_len, tgt_len))
    src, tgt = (torch.full((num_rows, length), EOS_ID) for length in (src_len, tgt_len))
    step.dry_run(Batch.from_ids(src, tgt, tgt))
    training.validator.dry_run(training.model, src_len)
    set_random_state(training.setup.device, random)


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
