"""The Transformer encoder-decoder: embeddings, stacks, initialization."""

from __future__ import annotations

from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from nmt.config.sections import ModelConfig
from nmt.model.attention import Rotary, on_meta_device, sinusoidal_positions
from nmt.model.cache import KVCache
from nmt.model.dropout import Dropout
from nmt.model.layers import DecoderLayer, EncoderLayer, make_norm
from nmt.model.masks import mask_bias, padding_mask
from nmt.model.packing import PackedMask, Packing


class Memory(NamedTuple):
    """What the encoder hands to the decoder."""

    states: Tensor  # [B, S, D], or [1, N, D] with a packing
    mask: Tensor  # [B, 1, 1, S], `mask_bias`: 0 at a real source position
    packing: Packing | None = None  # of the sources

    def padded(self) -> Memory:
        """The same with states [B, S, D], which mean nothing at padding."""
        return self if self.packing is None else Memory(self.packing.unpack(self.states), self.mask)


class Embedding(nn.Module):
    """Token embedding times sqrt(D), plus position (Vaswani et al. 2017, sections 3.4 and 3.5)."""

    def __init__(self, config: ModelConfig, vocab_size: int, max_len: int):
        super().__init__()
        self.scale = config.d_model**0.5
        self.tokens = _table(vocab_size, config.d_model)
        self.learned = _table(max_len, config.d_model) if config.positions == "learned" else None
        table = sinusoidal_positions(max_len, config.d_model) if config.positions == "sinusoidal" else None
        self.sinusoidal: Tensor | None
        self.register_buffer("sinusoidal", table, persistent=False)
        self.dropout = Dropout(config.embedding_dropout)

    def forward(self, ids: Tensor, offset: int | Tensor = 0) -> Tensor:
        """ids [B, T], the first at position `offset`, or each at its own [T] -> [B, T, D]."""
        states = self.tokens(ids) * self.scale
        positions = self.sinusoidal if self.learned is None else self.learned.weight
        if positions is not None:  # rotary positions act inside attention
            here = offset if isinstance(offset, Tensor) else slice(offset, offset + ids.size(1))
            states = states + positions[here].to(states.dtype)
        return self.dropout(states)


def _table(num_rows: int, d_model: int) -> nn.Embedding:
    if on_meta_device():
        return nn.Embedding.from_pretrained(torch.empty(num_rows, d_model), freeze=False)
    return nn.Embedding(num_rows, d_model)


class Transformer(nn.Module):
    """Encoder-decoder (Vaswani et al. 2017) with the options of `ModelConfig`.

    `forward(src, tgt_in)` is `decode(tgt_in, start_cache(encode(src)))`: training and cached decoding are one path.
    """

    # With fewer rows kernels may add in another order, so that the last bits of a row would depend on their number.
    min_rows = 16

    def __init__(self, config: ModelConfig, src_vocab_size: int, tgt_vocab_size: int):
        super().__init__()
        self.config = config
        max_len = max(config.max_src_len, config.max_tgt_len)
        rotary = Rotary(config.d_model // config.num_heads, max_len) if config.positions == "rotary" else None
        self.src_embedding = Embedding(config, src_vocab_size, max_len)
        self.encoder_layers = nn.ModuleList(EncoderLayer(config, rotary) for _ in range(config.encoder_layers))
        self.tgt_embedding = Embedding(config, tgt_vocab_size, max_len)
        self.decoder_layers = nn.ModuleList(DecoderLayer(config, rotary) for _ in range(config.decoder_layers))
        # Post-norm layers end in a norm of their own.
        pre_norm = config.norm_position == "pre"
        self.encoder_norm = make_norm(config) if pre_norm else nn.Identity()
        self.decoder_norm = make_norm(config) if pre_norm else nn.Identity()
        self.output_proj = nn.Linear(config.d_model, tgt_vocab_size, bias=False)
        self._initialize()
        self._tie(config.tied_embeddings)

    def _initialize(self) -> None:
        """Glorot-uniform matrices, zero biases, embeddings of variance 1/D (1 once scaled)."""
        if on_meta_device():
            return
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=self.config.d_model**-0.5)

    def _tie(self, tied: str) -> None:
        """Share embedding and output matrices (Press and Wolf 2017)."""
        if tied in ("target", "all"):
            self.output_proj.weight = self.tgt_embedding.tokens.weight
        if tied == "all":
            self.src_embedding.tokens = self.tgt_embedding.tokens

    def encode(self, src: Tensor, packing: Packing | None = None) -> Memory:
        """src [B, S], right-padded -> memory states [B, S, D] and mask [B, 1, 1, S].

        With the `packing` of `src` layers work on real positions alone, and the states are packed: [1, N, D].
        """
        states = self.src_embedding(src)
        bias = mask_bias(padding_mask(src), states.dtype)
        mask: Tensor | PackedMask = bias
        if packing is not None:
            states, mask = packing.pack(states), PackedMask(packing, packing, bias, causal=False)
        for layer in self.encoder_layers:
            states = layer(states, mask)
        return Memory(self.encoder_norm(states), bias, packing)

    def start_cache(
        self,
        memory: Memory,
        max_len: int = 0,
        keep_attention: bool = False,
        beam_size: int = 1,
        targets: Packing | None = None,
        kind: type[KVCache] = KVCache,
    ) -> KVCache:
        """Project cross keys and values, once. `max_len` target positions are stored; 0 is for training.

        Each sentence of `memory` has `beam_size` rows in the batches that are decoded. Where `memory` is packed,
        `targets` says how those are that will be decoded, in one call. `kind` is the class of the cache.
        """
        layers = cast("list[DecoderLayer]", self.decoder_layers)
        cross = [layer.cross_attention.project_key_value(memory.states) for layer in layers]
        mask: Tensor | PackedMask = memory.mask
        if targets is not None:
            assert memory.packing is not None
            mask = PackedMask(targets, memory.packing, memory.mask, causal=False)
        return kind(cross, mask, max_len, keep_attention, beam_size)

    def decode_states(self, tgt_in: Tensor, cache: KVCache) -> Tensor:
        """tgt_in [B, T]: the targets after those in the cache -> the decoder's last states [B, T, D].

        Those of N packed targets are [1, N, D].
        """
        num_new = tgt_in.size(1)
        states = self.tgt_embedding(tgt_in, cache.offset)
        # Right padding needs no mask: it lies in the future of every real token.
        bias = cache.future_bias(num_new, states)
        mask: Tensor | PackedMask | None = bias
        if isinstance(cache.cross_mask, PackedMask):
            packing = cache.cross_mask.queries
            states, mask = packing.pack(states), PackedMask(packing, packing, bias, causal=True)
        for index, layer in enumerate(self.decoder_layers):
            states = layer(states, mask, cache, index)
        cache.advance(num_new)
        return self.decoder_norm(states)

    def decode(self, tgt_in: Tensor, cache: KVCache) -> Tensor:
        """tgt_in [B, T] -> logits [B, T, V] of the token after each."""
        return self.output_proj(self.decode_states(tgt_in, cache))

    def forward(self, src: Tensor, tgt_in: Tensor) -> Tensor:
        """src [B, S], tgt_in [B, T] (bos first) -> logits [B, T, V]."""
        return self.decode(tgt_in, self.start_cache(self.encode(src)))

    def num_parameters(self) -> int:
        """Trained numbers, shared ones counted once."""
        return sum(parameter.numel() for parameter in self.parameters())

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.output_proj.weight.device
