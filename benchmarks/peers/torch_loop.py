"""A training loop as in tutorials, for peers that are models without a trainer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from common import BOS, EOS, PAD, batches, read_pairs, steady_rate
from torch import Tensor, nn
from torch.nn import functional as F

PEAK_LR, WARMUP_STEPS = 1e-3, 400


def pad_rows(rows: list[list[int]]) -> Tensor:
    """Stack rows of ids into one right-padded matrix [B, longest]."""
    longest = max(map(len, rows))
    return torch.tensor([row + [PAD] * (longest - len(row)) for row in rows])


class MasterAdam:
    """Adam on fp32 weights; the weights of a bf16 model are copies, updated after each step."""

    def __init__(self, model: nn.Module, precision: str):
        self.model_weights = [weight for weight in model.parameters() if weight.requires_grad]
        self.master = self.model_weights
        if precision == "bf16":
            self.master = [nn.Parameter(weight.detach().clone()) for weight in self.model_weights]
            model.bfloat16()
        self.adam = torch.optim.Adam(self.master, lr=PEAK_LR, betas=(0.9, 0.98), eps=1e-9)
        self.steps = 0

    def step(self) -> None:
        """Update by the model's gradients, clipped at norm 1, with warmup and inverse-square-root decay."""
        self.steps += 1
        copied = self.master is not self.model_weights
        if copied:
            for master, weight in zip(self.master, self.model_weights, strict=True):
                assert weight.grad is not None
                master.grad = weight.grad.float()
                weight.grad = None
        nn.utils.clip_grad_norm_(self.master, 1.0)
        scale = min(self.steps / WARMUP_STEPS, (WARMUP_STEPS / self.steps) ** 0.5)
        for group in self.adam.param_groups:
            group["lr"] = PEAK_LR * scale
        self.adam.step()
        self.adam.zero_grad()
        if copied:
            with torch.no_grad():
                torch._foreach_copy_(list[Tensor](self.model_weights), list[Tensor](self.master))


def measure_training(
    model: nn.Module, logits_of: Callable[[Tensor, Tensor], Tensor], job: dict[str, Any]
) -> dict[str, Any]:
    """Train `model` for the time of `job`; `logits_of(src [B, S], tgt_in [B, T])` is its forward pass, [B, T, V]."""
    optimizer = MasterAdam(model.train(), job["precision"])
    data = batches(read_pairs(job), job["batch_tokens"])
    loss = torch.zeros(())

    def step() -> int:
        nonlocal loss
        batch = next(data)
        src = pad_rows([[*src, EOS] for src, _ in batch])
        tgt_in = pad_rows([[BOS, *tgt] for _, tgt in batch])
        tgt_out = pad_rows([[*tgt, EOS] for _, tgt in batch])
        logits = logits_of(src, tgt_in).float()
        loss = F.cross_entropy(
            logits.flatten(0, 1), tgt_out.flatten(), ignore_index=PAD, label_smoothing=job["label_smoothing"]
        )
        loss.backward()
        optimizer.step()
        return sum(len(tgt) + 1 for _, tgt in batch)

    rate = steady_rate(step, job["skip_seconds"], job["seconds"])
    return {**rate, "loss": float(loss.detach())}
