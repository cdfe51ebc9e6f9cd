"""Estimate memory before training starts, because the kernel kills a CPU process that allocates too much."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from nmt.base.errors import RunError
from nmt.base.machine import CGROUPS, OWN_CGROUP, free_in_cgroups
from nmt.config.model import ModelConfig
from nmt.model.kernels.chunked_loss import CHUNK_ROWS

FASTEST_ON_CPU = 4096  # tokens per micro-batch; docs/log/training-speed.md has the speed of other sizes
_PROCESS = 300 << 20  # bytes of Python, torch and the tokenizer


class MemoryNeeds(NamedTuple):
    """Everything that the memory usage of a training process depends on, except its batches."""

    model: ModelConfig
    num_parameters: int
    vocab_size: int  # of the target
    longest: tuple[int, int]  # source and target, in tokens
    bytes_per_number: int = 4  # of activations; 2 for bf16
    num_passes: int = 1  # passes over each micro-batch
    has_ema: bool = False

    def num_bytes(self, tokens: int) -> int:
        """Estimate the bytes that training needs with micro-batches of `tokens`, padding included."""
        tokens *= self.num_passes
        logits = 3 * CHUNK_ROWS * self.vocab_size * 4
        # Weights, gradients and both Adam moments in fp32; the bf16 copy of weights and gradients.
        weights = self.num_parameters * (16 + 4 * self.has_ema + (4 if self.bytes_per_number == 2 else 0))
        return _PROCESS + weights + self.activation_bytes(tokens) + logits

    def activation_bytes(self, tokens: int) -> int:
        """Estimate the bytes that the layers keep for the backward pass of a micro-batch of `tokens`."""
        src, tgt = self.longest
        model = self.model
        encoder = 20 * model.d_model + 3 * model.d_ff + self._kept_by_attention(src)  # numbers per source token
        decoder = 32 * model.d_model + 3 * model.d_ff + self._kept_by_attention(src) + self._kept_by_attention(tgt)
        kept = max(tokens, src) * model.encoder_layers * encoder + max(tokens, tgt) * model.decoder_layers * decoder
        return (kept + self._working_set(tokens)) * self.bytes_per_number

    def _kept_by_attention(self, num_keys: int) -> int:
        """Return how many numbers an attention layer keeps per query."""
        scores = 3 * self.model.num_heads * num_keys
        # Additive scores are computed from d_model / num_heads features per head, query and key: [B, H, T, S, K].
        return scores + (self.model.d_model * num_keys if self.model.attention == "additive" else 0)

    def _working_set(self, tokens: int) -> int:
        """Return the size of the largest temporaries, in numbers: features before tanh, and their gradients."""
        longest = max(self.longest)
        return 3 * max(tokens, longest) * longest * self.model.d_model if self.model.attention == "additive" else 0


def num_micro_batches_on_cpu(needs: MemoryNeeds, tokens: int, minimum: int, available: int | None) -> int:
    """Return the number of micro-batches, at least `minimum`, for batches of `tokens`.

    Micro-batches have the fastest size, or a smaller one if that does not fit into the `available` bytes.
    """
    num_micro_batches = max(minimum, -(-tokens * needs.num_passes // FASTEST_ON_CPU))
    while (
        available is not None
        and needs.num_bytes(tokens // num_micro_batches) > available
        and num_micro_batches < tokens // max(needs.longest)
    ):
        num_micro_batches *= 2
    return num_micro_batches


def available_bytes(cgroups: Path = CGROUPS, own: Path = OWN_CGROUP) -> int | None:
    """Return the free memory of this machine or container in bytes; None if it is unknown."""
    free = [known for known in (_free_on_machine(), free_in_cgroups(cgroups, own)) if known is not None]
    return min(free, default=None)


def _free_on_machine() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        left = next(line for line in lines if line.startswith("MemAvailable:"))
        return int(left.split()[1]) << 10
    except (OSError, StopIteration, ValueError):
        names = getattr(os, "sysconf_names", {})
        if "SC_PHYS_PAGES" not in names:
            return None
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def own_bytes() -> int:
    """Return the memory that this process occupies, in bytes, without mapped files; 0 if it is unknown."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
        return int(next(line for line in lines if line.startswith("RssAnon:")).split()[1]) << 10
    except (OSError, StopIteration, ValueError):
        return 0


def refuse_beyond_memory(required: int, available: int | None, stage: int | None, *, is_auto: bool) -> None:
    """Raise RunError if training, or its stage with this number (from 1), requires more bytes than are available.

    `is_auto`: batches already have the size that fits best.
    """
    what = "this training" if stage is None else f"stage {stage} of this training"
    batch_tokens = "training.batch_tokens" if stage is None else "the batch_tokens of this stage"
    smaller = f"lower {batch_tokens} or set it to auto (training.tokens_per_update keeps the size of an update), "
    if available is not None and required > available:
        raise RunError(
            f"{what} needs about {required / 2**30:.1f} GiB of memory; {available / 2**30:.1f} GiB are available",
            hint=f"{'' if is_auto else smaller}lower model.max_src_len and model.max_tgt_len, or choose a smaller "
            "model, and start a new run; or free memory, and continue this one with --resume",
        )
