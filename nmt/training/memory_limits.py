"""Estimate memory before training starts, because the kernel kills a CPU process that allocates too much."""

from __future__ import annotations

import torch

from nmt.base.errors import RunError
from nmt.base.machine import available_bytes, own_bytes
from nmt.base.special_tokens import EOS_ID
from nmt.config.model import ModelConfig
from nmt.data.store.batching import Batch
from nmt.model.kernels.chunked_loss import CHUNK_ROWS
from nmt.training.batches import UpdateBatches
from nmt.training.parts import Training
from nmt.training.processes import local_world_size
from nmt.training.stages import StageSpan
from nmt.training.state import random_state, set_random_state

FASTEST_ON_CPU = 4096  # tokens per micro-batch; docs/log/training-speed.md has the speed of other sizes
_PROCESS = 300 << 20  # bytes of Python, torch and the tokenizer


def bytes_needed(training: Training, longest: tuple[int, int], tokens: int) -> int:
    """Estimate the bytes that training needs with micro-batches of `tokens`, padding included.

    `longest` has the longest source and target in tokens.
    """
    itemsize = training.setup.precision.dtype.itemsize
    logits = 3 * CHUNK_ROWS * training.model.output_proj.weight.size(0) * 4
    # Weights, gradients and both Adam moments in fp32; the bf16 copy of weights and gradients.
    weights = training.model.num_parameters() * (16 if itemsize == 4 else 20)
    return _PROCESS + weights + activation_bytes(training.config.model, longest, tokens, itemsize) + logits


def activation_bytes(model: ModelConfig, longest: tuple[int, int], tokens: int, itemsize: int) -> int:
    """Estimate the bytes that the layers keep for the backward pass of a micro-batch of `tokens`."""
    src, tgt = longest
    # How many numbers the operations of a layer keep, estimated by hand: 20 per feature of a token in
    # the encoder, 32 in the decoder, which has a second attention; 3 per hidden feature and per score.
    # Additive scores are computed from d_model / num_heads features per head, query and key: [B, H, T, S, K].
    features = model.d_model if model.attention == "additive" else 0
    per_key = 3 * model.num_heads + features  # numbers that attention keeps per query and key
    encoder = 20 * model.d_model + 3 * model.d_ff + src * per_key  # numbers per source token
    decoder = 32 * model.d_model + 3 * model.d_ff + (src + tgt) * per_key
    layers = max(tokens, src) * model.encoder_layers * encoder + max(tokens, tgt) * model.decoder_layers * decoder
    temporary = 3 * max(tokens, src, tgt) * max(src, tgt) * features  # before tanh, and their gradients
    return (layers + temporary) * itemsize


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
    set_random_state(training.setup.device, random)
    step.recorded = None
    if training.in_blocks and step.num_micro_batches == 1:
        step.record(training.batches.block_shape(), training.stage.config.training.label_smoothing)


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
    longest = batches.longest()
    batch_tokens = batches.batch_tokens // group.world_size
    total = available_bytes()
    held = max(0, own_bytes() - training.bytes_before)  # by this training, such as in an earlier stage
    available = None if total is None else total // local_world_size() + held
    number = minimum
    if batches.is_auto:  # the fastest size, or a smaller one if that does not fit
        number = max(minimum, -(-batch_tokens // FASTEST_ON_CPU))
        while (
            available is not None
            and bytes_needed(training, longest, batch_tokens // number) > available
            and number < batch_tokens // max(longest)
        ):
            number *= 2
    number = max(group.gather(number))
    required = bytes_needed(training, longest, batch_tokens // number)
    if available is not None and required > available:
        name = "this training"
        key = "training.batch_tokens"
        if training.settings.stages:
            name = f"stage {stage.number + 1} of this training"
            key = "the batch_tokens of this stage"
        hint = (
            "lower model.max_src_len and model.max_tgt_len, or choose a smaller model, and start a new run; "
            "or free memory, and continue this one with --resume"
        )
        if not batches.is_auto:
            hint = f"lower {key} or set it to auto (training.tokens_per_update keeps the size of an update), {hint}"
        have = f"{available / 2**30:.1f} GiB are available"
        raise RunError(f"{name} needs about {required / 2**30:.1f} GiB of memory; {have}", hint=hint)
    return number
