"""Linear layers in 8-bit integers, for translating on a CPU."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from nmt.model.transformer import Transformer


class Int8Linear(nn.Module):
    """y = W x + b with W and x rounded to 8 bits: each output has a scale of its own, and so has each row of x.

    The products add up whole numbers, so a row's result does not depend on the rows beside it, to the last bit.
    """

    weight: Tensor
    scale: Tensor
    bias: Tensor

    def __init__(self, linear: nn.Linear):
        super().__init__()
        weight = linear.weight.detach().float()
        largest = weight.abs().amax(1, keepdim=True).clamp_min(1e-30)  # [out, 1]
        self.register_buffer("weight", (weight * (127 / largest)).round().to(torch.int8).t())  # [in, out]
        # The second 127 undoes the scale of the rows.
        self.register_buffer("scale", (largest / (127 * 127)).squeeze(1))  # [out]
        self.register_buffer("bias", torch.zeros(()) if linear.bias is None else linear.bias.detach().float())

    def forward(self, states: Tensor) -> Tensor:
        """states [..., in], fp32 -> [..., out], fp32."""
        rows = states.flatten(0, -2)
        largest = rows.abs().amax(1, keepdim=True).clamp_min_(1e-30)
        rounded = (rows * (127 / largest)).round_().to(torch.int8)
        totals = torch._int_mm(rounded, self.weight)  # [rows, out], int32
        return torch.addcmul(self.bias, totals * self.scale, largest).unflatten(0, states.shape[:-1])


@torch.no_grad()
def quantise(model: Transformer) -> Transformer:
    """Replace every linear layer of `model` by its 8-bit form; embeddings, norms and attention stay in fp32."""
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Linear):
                setattr(module, name, Int8Linear(child))
    model.least_rows = 1  # whole numbers add up to the same in any order
    return model
