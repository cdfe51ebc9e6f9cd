"""Whether to train without padding."""

from __future__ import annotations

import torch
from torch import Tensor

from nmt.model.attention import MultiHeadAttention
from nmt.model.kernels.attention import fused_attend, varlen_may_serve
from nmt.model.kernels.packing import Packing
from nmt.model.masks import AttentionMask, causal_mask, mask_bias, padding_mask
from nmt.model.transformer import Transformer
from nmt.special_tokens import EOS_ID, PAD_ID


def packing_serves(model: Transformer) -> bool:
    """Whether rows can be packed: whether attention has a kernel made for that, which does what plain attention does.

    That is found out on the device, by trying it forward and backward, in some hundredths of a second.
    """
    attention = next(module for module in model.modules() if isinstance(module, MultiHeadAttention))
    weight, head_size = attention.query_proj.weight, model.config.d_model // model.config.num_heads
    if not weight.is_cuda or not varlen_may_serve(attention.score, weight.dtype, head_size, attention.dropout):
        return False
    numbers = torch.Generator(weight.device).manual_seed(1)
    ids = _ids_of_lengths(7, 2, 5).to(weight.device)
    packing = Packing.from_ids(ids)
    inputs = torch.randn(4, 1, 2, len(packing.real), head_size, generator=numbers, device=weight.device).to(
        weight.dtype
    )
    try:
        for causal in (False, True):
            bias = mask_bias(causal_mask(7, 7, weight.device) if causal else padding_mask(ids), torch.float32)
            mask = AttentionMask(bias, causal, packing, packing)
            ours = _pooled_and_gradients(attention, inputs, mask)
            theirs = _pooled_and_gradients(attention, inputs.float(), mask)  # for which that kernel is not made
            if not all(torch.allclose(a.float(), b, rtol=0.05, atol=0.05) for a, b in zip(ours, theirs, strict=True)):
                return False
    except (ImportError, RuntimeError, TypeError):  # an older GPU, or a torch without it
        return False
    return True


def _ids_of_lengths(*lengths: int) -> Tensor:
    """Ids [B, longest]: eos, then padding from each length on."""
    is_real = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    return torch.where(is_real, EOS_ID, PAD_ID)


def _pooled_and_gradients(attention: MultiHeadAttention, inputs: Tensor, mask: AttentionMask) -> tuple[Tensor, ...]:
    """Of inputs [4, 1, H, N, K]: query, key, value, and the gradient from above."""
    query, key, value, above = (each.detach().requires_grad_() for each in inputs)
    pooled = fused_attend(attention.score, query, (key, value), mask, attention.dropout)
    return pooled.detach(), *torch.autograd.grad(pooled, (query, key, value), above.detach())
