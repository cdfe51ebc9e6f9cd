"""Choose how training lays out the rows of a batch, and do it."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from nmt.base.special_tokens import EOS_ID, PAD_ID
from nmt.data.store.batching import Batch
from nmt.model.attention import MultiHeadAttention, scaled_dot_product
from nmt.model.kernels.attention import varlen_may_serve
from nmt.model.kernels.packing import Flattening, Packing
from nmt.model.masks import AttentionMask, causal_mask, mask_bias, padding_mask
from nmt.model.transformer import Transformer


class Packings(NamedTuple):
    """The packings, or flattenings, of the sources and the targets of a batch."""

    sources: Packing | Flattening
    targets: Packing | Flattening

    @classmethod
    def from_batch(cls, batch: Batch) -> Packings:
        """Build the packings of `batch` on the host, because on a GPU this would launch about twenty small kernels."""
        return cls(Packing.from_ids(batch.src, batch.src_real), Packing.from_ids(batch.tgt_out, batch.tgt_real))

    @classmethod
    def flattening(cls, batch: Batch) -> Packings:
        """Build the flattenings of `batch`."""
        return cls(Flattening.from_ids(batch.src), Flattening.from_ids(batch.tgt_out))

    def to(self, device: torch.device) -> Packings:
        """Copy both to `device`; the copy to a GPU is asynchronous."""
        return Packings(self.sources.to(device), self.targets.to(device))


def choose_packing(model: Transformer) -> tuple[bool, str]:
    """Choose packing if there is an attention kernel for packed rows that agrees with plain attention; give the reason.

    Only GPUs have such a kernel. A trial on the device, forward and backward, takes a few hundredths of a second.
    """
    attention = next(module for module in model.modules() if isinstance(module, MultiHeadAttention))
    weight, head_size = attention.query_proj.weight, model.config.d_model // model.config.num_heads
    if not weight.is_cuda:
        return False, f"attention has no kernel for packed rows on {weight.device.type}"
    is_dot_product = attention.score is scaled_dot_product
    if not is_dot_product or not varlen_may_serve(weight.dtype, head_size, attention.dropout):
        supported = "bf16 and fp16, scaled dot products without attention dropout, and heads of 8, 16, ... 256"
        return False, f"the kernel for packed rows supports only {supported}"
    try:
        if not _trial_agrees(attention, weight, head_size):
            return False, "a trial of the kernel for packed rows did not agree with plain attention"
    except (ImportError, RuntimeError, TypeError) as error:  # an older GPU or torch
        return False, f"a trial of the kernel for packed rows failed: {error}"
    return True, "a trial of the kernel for packed rows agreed with plain attention"


def _trial_agrees(attention: MultiHeadAttention, weight: Tensor, head_size: int) -> bool:
    """Compare the kernel for packed rows with plain attention, forward and backward."""
    numbers = torch.Generator(weight.device).manual_seed(1)
    is_real = torch.arange(7) < torch.tensor((7, 2, 5))[:, None]
    ids = torch.where(is_real, EOS_ID, PAD_ID).to(weight.device)
    packing = Packing.from_ids(ids)
    shape = (4, 1, 2, len(packing.real), head_size)
    inputs = torch.randn(shape, generator=numbers, device=weight.device).to(weight.dtype)
    for causal in (False, True):
        bias = mask_bias(causal_mask(7, 7, weight.device) if causal else padding_mask(ids), torch.float32)
        mask = AttentionMask(bias, causal, packing, packing)
        ours = _pooled_and_gradients(attention, inputs, mask)
        theirs = _pooled_and_gradients(attention, inputs.float(), mask)  # in fp32, plain attention is used
        if not all(torch.allclose(a.float(), b, rtol=0.05, atol=0.05) for a, b in zip(ours, theirs, strict=True)):
            return False
    return True


def _pooled_and_gradients(attention: MultiHeadAttention, inputs: Tensor, mask: AttentionMask) -> tuple[Tensor, ...]:
    """Run attention forward and backward; inputs [4, 1, H, N, K]: query, key, value, and the output's gradient."""
    query, key, value, above = (tensor.detach().requires_grad_() for tensor in inputs)
    pooled, _ = attention.attend(query, key, value, mask)
    return pooled.detach(), *torch.autograd.grad(pooled, (query, key, value), above.detach())
