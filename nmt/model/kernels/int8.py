"""Linear layers in 8-bit integers, for translating on a CPU."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from nmt.model.transformer import Transformer


class Int8Linear(nn.Module):
    """y = W x + b with W and x rounded to 8 bits: each output has a scale of its own, and so has each row of x.

    The products add up integers, so a row's result does not depend on the rows beside it, to the last bit.
    """

    weight: Tensor
    scale: Tensor
    bias: Tensor | None
    tiny: Tensor

    def __init__(self, linear: nn.Linear):
        super().__init__()
        weight = linear.weight.detach().float()
        scale = (weight.abs().amax(1, keepdim=True) / 127).clamp_min(1e-30)  # [out, 1]
        self.register_buffer("weight", (weight / scale).round().to(torch.int8).t())  # [in, out]
        self.register_buffer("scale", scale.squeeze(1))  # [out]
        self.register_buffer("bias", None if linear.bias is None else linear.bias.detach().float())
        self.register_buffer("tiny", torch.tensor(1e-30))

    def forward(self, states: Tensor) -> Tensor:
        """states [..., in], fp32 -> [..., out], fp32."""
        # Each operation costs as much as the product of a single row: few of them, without Python's numbers, in place.
        rows = states.reshape(-1, states.size(-1))
        scale = torch.add(self.tiny, rows.abs().amax(1, keepdim=True), alpha=1 / 127)  # [rows, 1]
        totals = torch._int_mm((rows / scale).round_().to(torch.int8), self.weight)  # [rows, out], int32
        outputs = totals.float().mul_(self.scale).mul_(scale)
        if self.bias is not None:
            outputs.add_(self.bias)
        return outputs.view(*states.shape[:-1], -1)


@torch.no_grad()
def quantize(model: Transformer) -> Transformer:
    """Replace every linear layer of `model` by its 8-bit form; embeddings, norms and attention stay in fp32."""
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Linear):
                setattr(module, name, Int8Linear(child))
    return model
