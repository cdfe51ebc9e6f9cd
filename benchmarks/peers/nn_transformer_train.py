"""Train `torch.nn.Transformer` in a plain loop; prints one JSON line."""

from __future__ import annotations

import math
from typing import Any

import torch
from common import PAD, read_job, report
from torch import Tensor, nn
from torch_loop import measure_training


class Translator(nn.Module):
    """Embeddings, sinusoidal positions, `nn.Transformer`, and the embedding again as output projection."""

    def __init__(self, job: dict[str, Any]):
        super().__init__()
        self.d_model = d_model = job["d_model"]
        self.embedding = nn.Embedding(job["vocab_size"], d_model, padding_idx=PAD)
        nn.init.normal_(self.embedding.weight, 0, d_model**-0.5)
        self.dropout = nn.Dropout(job["dropout"])
        depth = job["layers"], job["layers"], job["d_ff"], job["dropout"]
        self.transformer = nn.Transformer(d_model, job["num_heads"], *depth, batch_first=True, norm_first=True)
        for module in self.transformer.modules():
            if isinstance(module, nn.MultiheadAttention):
                module.dropout = 0.0  # as in nmt's model: no dropout of attention weights
        self.positions: Tensor
        angles = torch.arange(512)[:, None] * torch.exp(torch.arange(0, d_model, 2) * (-math.log(1e4) / d_model))
        self.register_buffer("positions", torch.stack([angles.sin(), angles.cos()], 2).reshape(512, d_model))

    def embed(self, ids: Tensor) -> Tensor:
        """Ids [B, T] -> [B, T, D]."""
        return self.dropout(self.embedding(ids) * math.sqrt(self.d_model) + self.positions[: ids.size(1)])

    def forward(self, src: Tensor, tgt_in: Tensor) -> Tensor:
        """Logits [B, T, V] of src [B, S] and tgt_in [B, T]."""
        padding = src == PAD
        causal = torch.ones(tgt_in.size(1), tgt_in.size(1), dtype=torch.bool, device=tgt_in.device).triu(1)
        states = self.transformer(
            self.embed(src),
            self.embed(tgt_in),
            tgt_mask=causal,
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
            tgt_is_causal=True,
        )
        return states @ self.embedding.weight.T


def main() -> None:
    """Run the job."""
    job = read_job()
    torch.set_num_threads(job["threads"])
    torch.manual_seed(1)
    model = Translator(job)
    report(["torch"], **measure_training(model, model, job))


if __name__ == "__main__":
    main()
