"""The Transformer encoder-decoder: embeddings, encoder and decoder stacks, output projection."""

from __future__ import annotations

from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from nmt.base.errors import NmtError
from nmt.base.special_tokens import PAD_ID
from nmt.config.model import ModelConfig
from nmt.model.cache import KeyValue, KVCache, PreallocatedKVCache
from nmt.model.kernels.dropout import Dropout
from nmt.model.kernels.packing import Layout, Segments
from nmt.model.layers import DecoderLayer, EncoderLayer, FeedForward, Residual, make_norm, make_rotary
from nmt.model.masks import AttentionMask, mask_bias, padding_mask, sequence_mask
from nmt.model.positions import sinusoidal_positions


class Memory(NamedTuple):
    """The encoder's output, to which the decoder attends."""

    states: Tensor  # [B, S, D], or packed [1, N, D]
    mask: AttentionMask  # bias [B, 1, 1, S]: 0 at a real source token


class Embedding(nn.Module):
    """Token embedding times sqrt(D), plus position encoding (Vaswani et al. 2017, sections 3.4 and 3.5)."""

    def __init__(self, config: ModelConfig, vocab_size: int, max_len: int):
        super().__init__()
        self.scale = config.d_model**0.5
        self.max_len = max_len
        self.tokens = nn.Embedding(vocab_size, config.d_model)
        self.learned = nn.Embedding(max_len, config.d_model) if config.positions == "learned" else None
        table = sinusoidal_positions(max_len, config.d_model) if config.positions == "sinusoidal" else None
        self.sinusoidal: Tensor | None
        self.register_buffer("sinusoidal", table, persistent=False)
        self.dropout = Dropout(config.embedding_dropout)

    def forward(self, ids: Tensor, offset: int | Tensor = 0) -> Tensor:
        """Embed ids [B, T] as [B, T, D]; `offset` is the first position, or a tensor [T] or [B, T] with each position.

        NmtError if they are longer than any position of the model.
        """
        if not isinstance(offset, Tensor) and offset + ids.size(1) > self.max_len:
            raise NmtError(
                f"{offset + ids.size(1)} tokens, but the model has {self.max_len} positions",
                hint="shorten the text, or train a model with a higher model.max_src_len or model.max_tgt_len",
            )
        states = self.tokens(ids) * self.scale
        table = self.sinusoidal if self.learned is None else self.learned.weight
        if table is not None:  # rotary positions are applied inside attention
            positions = offset if isinstance(offset, Tensor) else slice(offset, offset + ids.size(1))
            states = states + table[positions].to(states.dtype)
        return self.dropout(states)


class Transformer(nn.Module):
    """Encoder-decoder (Vaswani et al. 2017) with the options of `ModelConfig`.

    `forward(src, tgt_in)` is `decode(tgt_in, start_cache(encode(src)))`: training and cached decoding share one path.
    """

    def __init__(self, config: ModelConfig, src_vocab_size: int, tgt_vocab_size: int):
        super().__init__()
        if config.tied_embeddings == "all" and src_vocab_size != tgt_vocab_size:
            raise NmtError(
                f"one embedding for vocabularies of {src_vocab_size} and {tgt_vocab_size}",
                hint='tie only the target side: ModelConfig(tied_embeddings="target"), '
                "or give both sides one vocabulary",
            )
        self.config = config
        max_len = max(config.max_src_len, config.max_tgt_len)
        rotary = make_rotary(config)
        self.src_embedding = Embedding(config, src_vocab_size, max_len)
        self.encoder_layers = nn.ModuleList(EncoderLayer(config, rotary) for _ in range(config.encoder_layers))
        self.tgt_embedding = Embedding(config, tgt_vocab_size, max_len)
        self.decoder_layers = nn.ModuleList(DecoderLayer(config, rotary) for _ in range(config.decoder_layers))
        # Pre-norm stacks need a final norm; post-norm layers already end with one.
        pre_norm = config.norm_position == "pre"
        self.encoder_norm = make_norm(config) if pre_norm else nn.Identity()
        self.decoder_norm = make_norm(config) if pre_norm else nn.Identity()
        self.output_proj = nn.Linear(config.d_model, tgt_vocab_size, bias=config.output_bias)
        self._initialize()
        if config.tied_embeddings in ("target", "all"):  # Press and Wolf 2017
            self.output_proj.weight = self.tgt_embedding.tokens.weight
        if config.tied_embeddings == "all":
            self.src_embedding.tokens = self.tgt_embedding.tokens

    def _initialize(self) -> None:
        """Initialize linear weights as in Glorot and Bengio 2010, biases with 0, and embeddings with variance 1/D.

        `Embedding` multiplies by sqrt(D), so its outputs have variance 1.
        """
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=self.config.d_model**-0.5)

    def encode(self, src: Tensor, lengths: Tensor | None = None, *, packing: Layout | None = None) -> Memory:
        """Encode src [B, S], right-padded, into a memory with states [B, S, D]; what follows `lengths` [B] is padding.

        With a `packing` of `src`, the layers process the tokens as it lays them out, and the states are [1, N, D].
        """
        src = src if lengths is None else sequence_mask(src, lengths, PAD_ID)
        ids, offset = (src, 0) if packing is None else (packing.pack(src), packing.positions)
        states = self.src_embedding(ids, offset)
        bias = None if isinstance(packing, Segments) else mask_bias(padding_mask(src), states.dtype)
        mask = AttentionMask(bias, queries=packing, keys=packing)
        for layer in self.encoder_layers:
            states = layer(states, mask, offset)
        return Memory(self.encoder_norm(states), mask._replace(queries=None))

    def project_memory(self, memory: Memory) -> list[KeyValue]:
        """Project the memory to the cross keys and values of each decoder layer, [B, H, S, K] each."""
        layers = cast("list[DecoderLayer]", self.decoder_layers)
        return [layer.cross_attention.project_key_value(memory.states) for layer in layers]

    def start_cache(self, memory: Memory, max_len: int = 0) -> KVCache:
        """Return an empty cache to decode from `memory`, with room for `max_len` target positions (0: for training)."""
        cross = self.project_memory(memory)
        return PreallocatedKVCache(cross, memory.mask, max_len) if max_len else KVCache(cross, memory.mask)

    def decode_states(self, tgt_in: Tensor, cache: KVCache) -> Tensor:
        """Decode tgt_in [B, T], which continues the targets in the cache, into the decoder's final states [B, T, D].

        If `cache.cross_mask` has a packing of the targets, the states are laid out by it: [1, N, D].
        """
        num_new = tgt_in.size(1)
        packing = cache.cross_mask.queries
        states = self.tgt_embedding(tgt_in if packing is None else packing.pack(tgt_in), cache.offset)
        # Right padding needs no mask: it comes after every real token, so the causal mask hides it.
        mask = cache.self_mask(num_new, states)
        for index, layer in enumerate(self.decoder_layers):
            states = layer(states, mask, cache, index)
        cache.advance(num_new)
        return self.decoder_norm(states)

    def decode(self, tgt_in: Tensor, cache: KVCache) -> Tensor:
        """Return the logits [B, T, V] of the token that follows each token of tgt_in [B, T]."""
        return self.output_proj(self.decode_states(tgt_in, cache))

    def forward(self, src: Tensor, tgt_in: Tensor, src_lengths: Tensor | None = None) -> Tensor:
        """Return the logits [B, T, V] for src [B, S], right-padded, and tgt_in [B, T], which begins with bos.

        Without `src_lengths` [B], padding has the id `PAD_ID`.
        """
        return self.decode(tgt_in, self.start_cache(self.encode(src, src_lengths)))

    def set_dropout(self, config: ModelConfig) -> None:
        """Use the rates `dropout` and `embedding_dropout` of `config` in further training."""
        for module in self.modules():
            if isinstance(module, Embedding):
                module.dropout.set_rate(config.embedding_dropout)
            elif isinstance(module, FeedForward | Residual):
                module.dropout.set_rate(config.dropout)

    def num_parameters(self) -> int:
        """Return the number of parameters, counting shared ones once."""
        return sum(parameter.numel() for parameter in self.parameters())

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return self.output_proj.weight.device
