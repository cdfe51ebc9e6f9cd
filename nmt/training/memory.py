"""What training will need of memory, told before it begins: a process that asks a CPU for too much is simply killed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from nmt.config.sections import ModelConfig
from nmt.errors import RunError
from nmt.model.kernels.chunked_loss import CHUNK_ROWS

FASTEST_ON_CPU = 4096  # tokens of a batch; docs/log.md has the rates of others
_PROCESS = 300 << 20  # bytes of Python, torch and the tokenizer


def needed_bytes(
    model: ModelConfig,
    tokens: int,
    num_parameters: int,
    vocab_size: int,
    lengths: tuple[int, int],
    bytes_per_number: int = 4,
) -> int:
    """About how many bytes training takes with batches of `tokens`.

    `lengths`: the longest source and target, in tokens. Counted are weights, gradients and both moments of Adam in
    fp32, the copy in bf16 where `bytes_per_number` is 2, what each layer keeps for the backward pass, and the logits.
    """
    src, tgt = lengths
    width, inner, heads = model.d_model, model.d_ff, model.num_heads
    encoder = model.encoder_layers * (20 * width + 3 * inner + 3 * heads * src)  # numbers kept for a source token
    decoder = model.decoder_layers * (32 * width + 3 * inner + 3 * heads * (src + tgt))
    kept = (max(tokens, src) * encoder + max(tokens, tgt) * decoder) * bytes_per_number
    logits = 3 * CHUNK_ROWS * vocab_size * 4
    weights = num_parameters * (16 + (4 if bytes_per_number == 2 else 0))
    return _PROCESS + weights + kept + logits


def num_micro_batches_on_cpu(
    tokens: int, longest: int, least: int, needed: Callable[[int], int], have: int | None
) -> int:
    """Into how many micro-batches a process cuts batches of `tokens`, sentences of up to `longest`: `least` at least.

    They are of the size that is fastest, smaller where `needed(num_micro_batches)` bytes are more than it may `have`.
    """
    num_micro_batches = max(least, -(-tokens // FASTEST_ON_CPU))
    while have is not None and needed(num_micro_batches) > have and num_micro_batches < tokens // longest:
        num_micro_batches *= 2
    return num_micro_batches


def available_bytes() -> int | None:
    """Memory that this machine has left; None where it does not say."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        left = next(line for line in lines if line.startswith("MemAvailable:"))
        return int(left.split()[1]) << 10
    except (OSError, StopIteration, ValueError):
        names = os.sysconf_names
        if "SC_PHYS_PAGES" not in names:
            return None
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def refuse_beyond_memory(need: int, have: int | None) -> None:
    """RunError if training will need more bytes than there are."""
    if have is not None and need > have:
        raise RunError(
            f"this training needs about {need / 2**30:.1f} GiB of memory; {have / 2**30:.1f} GiB are free",
            hint="lower training.batch_tokens (training.tokens_per_update keeps the size of an update), "
            "model.max_src_len and model.max_tgt_len, or the size of the model",
        )
