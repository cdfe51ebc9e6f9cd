"""Small models with random weights, for the native engine and for torch."""

from __future__ import annotations

import copy
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import torch
from torch import nn

from nmt.config.model import ModelConfig
from nmt.data.tokens.tokenizer import TokenizerPair
from nmt.decoding.engines.native_engine import Array, NativeEngine, NativePrecision, arrays_in_order
from nmt.decoding.engines.torch_engine import TorchEngine
from nmt.model.transformer import Transformer

SRC_VOCAB, TGT_VOCAB = 43, 43
SIZES: dict[str, Any] = {
    "d_model": 24,
    "num_heads": 2,
    "d_ff": 40,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "max_src_len": 50,
    "max_tgt_len": 61,
}
MODELS: dict[str, dict[str, Any]] = {
    "as it comes": {},
    "learned positions": {"positions": "learned"},
    "rotary positions": {"positions": "rotary"},
    "norms after sublayers": {"norm_position": "post"},
    "RMS norm": {"norm": "rms"},
    "GELU": {"activation": "gelu"},
    "SiLU": {"activation": "silu"},
    "SwiGLU": {"activation": "swiglu"},
    "squared ReLU, norms of queries and keys": {"activation": "relu2", "qk_norm": True},
    "norms of queries and keys, rotary positions": {"qk_norm": True, "positions": "rotary", "norm": "rms"},
    "norms of queries and keys in self-attention": {"qk_norm": "self", "positions": "rotary"},
    "nothing tied": {"tied_embeddings": "none"},
    "target tied": {"tied_embeddings": "target"},
    "output bias": {"output_bias": True},
    "one head": {"d_model": 32, "num_heads": 1},
    "large heads": {"d_model": 80, "num_heads": 1},
    "rotary heads of six": {"d_model": 48, "num_heads": 8, "positions": "rotary"},
    "one layer": {"encoder_layers": 1, "decoder_layers": 1},
    "all at once": {"norm_position": "post", "norm": "rms", "activation": "swiglu", "positions": "rotary"},
}
TOKENIZERS = cast(
    "TokenizerPair",
    SimpleNamespace(
        src=SimpleNamespace(vocab_size=SRC_VOCAB),
        tgt=SimpleNamespace(vocab_size=TGT_VOCAB, never_generated=[0, 1, 2]),
    ),
)


class Random(NamedTuple):
    """A model with random weights."""

    config: ModelConfig
    model: Transformer

    def arrays(self) -> dict[str, Array]:
        """The parameters as a file of weights holds them."""
        named = self.model.named_parameters()
        return {name: Array(tuple(p.shape), "F32", p.detach().numpy()) for name, p in named}

    @property
    def tokenizers(self) -> TokenizerPair:
        """What the engines read of two tokenizers."""
        tgt = SimpleNamespace(vocab_size=self.model.tgt_embedding.tokens.num_embeddings, never_generated=[0, 1, 2])
        return cast("TokenizerPair", SimpleNamespace(src=TOKENIZERS.src, tgt=tgt))

    def native(self, precision: NativePrecision = "fp32", **options: Any) -> NativeEngine:
        """The native engine of this model."""
        tokenizers = self.tokenizers
        arrays = arrays_in_order(self.config, tokenizers, self.arrays(), Path())
        return NativeEngine(self.config, arrays, tokenizers, precision, **options)

    def torch(self) -> TorchEngine:
        """The torch engine of this model."""
        return TorchEngine([self.model], self.tokenizers, 1)


def random_model(seed: int = 3, tgt_vocab: int = TGT_VOCAB, **options: Any) -> Random:
    """A model of `SIZES`, changed by `options`, whose norms and biases are random too."""
    torch.manual_seed(seed)
    config = ModelConfig(**{**SIZES, **options})
    model = Transformer(config, SRC_VOCAB, tgt_vocab).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
        model.tgt_embedding.tokens.weight[3] *= 1.5  # so that some outputs end
    return Random(config, model)


class RoundedLinear(nn.Module):
    """A linear layer in 8-bit integers as the C rounds them: inputs up to 63, weights up to 64."""

    def __init__(self, linear: nn.Linear):
        super().__init__()
        self.scale = (linear.weight.abs().amax(1) / 64).clamp_min(1e-30)  # [outputs]
        self.weight, self.bias = (linear.weight / self.scale[:, None]).round(), linear.bias

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """Round each row by its own scale. Sums of these integers are exact in fp32."""
        scale = states.abs().amax(-1, keepdim=True) / 63 + 1e-30
        outputs = (states / scale).round() @ self.weight.t() * self.scale * scale
        return outputs if self.bias is None else outputs + self.bias


@torch.no_grad()
def rounded(model: Transformer) -> Transformer:
    """Return a copy of `model` with every linear layer and the embeddings of tokens rounded to 8 bits."""
    model = copy.deepcopy(model)
    for embedding in (model.src_embedding, model.tgt_embedding):
        rows = embedding.tokens.weight
        size = rows.abs().amax(1, keepdim=True).clamp_min(1e-30) / 64
        rows.copy_((rows / size).round() * size)
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Linear):
                setattr(module, name, RoundedLinear(child))
    return model


def random_ids(count: int, shortest: int = 1, longest: int = 40, seed: int = 1) -> list[list[int]]:
    """Lists of token ids without specials."""
    draw = random.Random(seed)
    return [[draw.randrange(4, TGT_VOCAB) for _ in range(draw.randint(shortest, longest))] for _ in range(count)]
