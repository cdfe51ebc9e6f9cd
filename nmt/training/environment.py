"""The machine that a run is trained on: describe it, detect changes, and try what its device can do."""

from __future__ import annotations

import platform
import subprocess
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

import nmt
from nmt.artifacts.run_records import Environment
from nmt.base.device import Precision
from nmt.base.machine import processor
from nmt.model.attention import MultiHeadAttention, scaled_dot_product
from nmt.model.kernels.attention_kernels import MAX_HEAD_SIZE, segments_may_serve
from nmt.model.kernels.linear import has_triton
from nmt.model.kernels.packing import Segments
from nmt.model.masks import AttentionMask
from nmt.model.transformer import Transformer
from nmt.training.update.distributed import ProcessGroup

_PACKAGES = ("numpy", "safetensors", "sentencepiece", "sacrebleu")


class Setup(NamedTuple):
    """The device, precision and threads of one rank."""

    device: torch.device
    precision: Precision
    group: ProcessGroup


# The facts that the last bits of a sum may depend on, and so eventually all weights.
_DECIDES_BITS = {
    "nmt": "nmt {}",
    "torch": "torch {}",
    "device": "device {}",
    "gpu": "GPU {}",
    "threads": "training.threads {}",
    "instruction_set": "instruction set {}",
    "processor": "processor {}",
    "world_size": "number of processes {}",
}


def describe_environment(device: torch.device, world_size: int) -> Environment:
    """Describe the software and hardware that this process trains on."""
    return Environment(
        nmt=nmt.__version__,
        commit=_git_commit(),
        python=platform.python_version(),
        torch=torch.__version__,
        packages={name: version(name) for name in _PACKAGES},
        platform=platform.platform(),
        processor=processor(),
        instruction_set=torch.backends.cpu.get_cpu_capability(),
        device=device.type,
        gpu=torch.cuda.get_device_name(device) if device.type == "cuda" else None,
        threads=torch.get_num_threads(),
        world_size=world_size,
    )


def changes(before: Environment, now: Environment) -> list[str]:
    """Return the differences that can change the bits of the weights."""
    return [
        f"{text.format(getattr(before, key))} before, {text.format(getattr(now, key))} now"
        for key, text in _DECIDES_BITS.items()
        if getattr(before, key) != getattr(now, key)
    ]


@cache
def _git_commit() -> str | None:
    """Return the commit of this code if it runs from its own git checkout."""
    git = ["git", "-C", str(Path(__file__).parent)]
    try:
        subprocess.run([*git, "ls-files", "--error-unmatch", __file__], capture_output=True, check=True, timeout=5)
        done = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True, timeout=5)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def choose_blocks(model: Transformer) -> tuple[bool, str]:
    """Choose blocks if there is an attention kernel for segments that agrees with plain attention; give the reason.

    Only NVIDIA GPUs have such a kernel. A trial on the device, forward and backward, compiles it, in about a second.
    """
    attention = next(module for module in model.modules() if isinstance(module, MultiHeadAttention))
    weight = attention.query_proj.weight
    head_size = model.config.d_model // model.config.num_heads
    if not weight.is_cuda:
        return False, f"attention has no kernel for segments on {weight.device.type}"
    if not has_triton():
        return False, "the kernel for segments needs Triton"
    if attention.score is not scaled_dot_product or not segments_may_serve(head_size, attention.dropout):
        supported = f"scaled dot products without attention dropout, and heads of up to {MAX_HEAD_SIZE}"
        return False, f"the kernel for segments supports only {supported}"
    try:
        if not _trial_agrees(attention, weight, head_size):
            return False, "a trial of the kernel for segments did not agree with plain attention"
    except (ImportError, RuntimeError, TypeError) as error:  # an older GPU, torch or Triton
        return False, f"a trial of the kernel for segments failed: {error}"
    return True, "a trial of the kernel for segments agreed with plain attention"


def _trial_agrees(attention: MultiHeadAttention, weight: Tensor, head_size: int) -> bool:
    """Compare the kernel for segments with plain attention, forward and backward."""
    device = weight.device
    numbers = torch.Generator(weight.device).manual_seed(1)
    lengths = torch.tensor((7, 0, 2, 5))
    offsets = F.pad(lengths.cumsum(0), (1, 0)).to(device, torch.int32)
    positions = torch.cat([torch.arange(int(length)) for length in lengths]).to(device)
    segments = Segments(offsets, positions, 7)
    shape = (4, 1, 2, len(positions), head_size)
    inputs = torch.randn(shape, generator=numbers, device=device).to(weight.dtype)
    for causal in (False, True):
        ours = _pooled_and_gradients(attention, inputs, AttentionMask(None, causal, segments, segments))
        bias = segments.bias(segments, causal, torch.float32)
        theirs = _pooled_and_gradients(attention, inputs.float(), bias == 0)
        # Wide enough for bf16, whose numbers have 8 bits; chosen by hand.
        if not all(torch.allclose(a.float(), b, rtol=0.05, atol=0.05) for a, b in zip(ours, theirs, strict=True)):
            return False
    return True


def _pooled_and_gradients(
    attention: MultiHeadAttention, inputs: Tensor, mask: AttentionMask | Tensor
) -> tuple[Tensor, ...]:
    """Run attention forward and backward; inputs [4, 1, H, N, K]: query, key, value, and the output's gradient."""
    query, key, value, above = (tensor.detach().requires_grad_() for tensor in inputs)
    pooled, _ = attention.attend(query, key, value, mask)
    return pooled.detach(), *torch.autograd.grad(pooled, (query, key, value), above.detach())
