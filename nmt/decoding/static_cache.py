"""A cache of fixed size at fixed addresses, so that decoding steps on it can be recorded as CUDA graphs."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from nmt.model.cache import KeyValue, PreallocatedKVCache, rows_of
from nmt.model.masks import AttentionMask, mask_bias


class Sources(NamedTuple):
    """The source part of a model's cache: cross keys and values, and the bias of their mask."""

    cross: Tensor  # [layers, 2, B, H, S, K]
    bias: Tensor  # [B, 1, 1, S]

    @property
    def pairs(self) -> list[KeyValue]:
        """The keys and values of each layer."""
        return [(layer[0], layer[1]) for layer in self.cross]

    def select(self, sentences: Tensor) -> Sources:
        """Return the sources of `sentences` [B']."""
        return Sources(self.cross.index_select(2, sentences), self.bias.index_select(0, sentences))


class StaticKVCache(PreallocatedKVCache):
    """A cache for steps of one position each, which always run the same operations on the same tensors.

    Each row has a position of its own, so that a sentence may begin while others go on. Attention reads the whole
    capacity, masked. A replayed step runs no Python, so the caller calls `move_to` before each step.
    """

    def __init__(self, sources: Sources, capacity: int, *, beam_size: int):
        """Allocate `capacity` target positions, and copy `sources`."""
        self.sources = Sources(sources.cross.clone(), sources.bias.clone())
        super().__init__(self.sources.pairs, AttentionMask(self.sources.bias), capacity, beam_size=beam_size)
        num_layers, _, num_sentences, num_heads, _, head_size = sources.cross.shape
        num_rows = num_sentences * beam_size
        # Masked values must be finite.
        self._buffer = sources.cross.new_zeros(num_layers, 2, num_rows, num_heads, capacity, head_size)
        self._stored = [(layer[0], layer[1]) for layer in self._buffer]
        self._rows = torch.arange(num_rows, device=sources.cross.device)
        self._positions = torch.zeros_like(self._rows)

    @property
    def num_bytes(self) -> int:
        """The memory of all keys and values, in bytes."""
        return self._buffer.nbytes + self.sources.cross.nbytes

    @property
    def offset(self) -> Tensor:
        """The position of the next token of each row, [R, 1]."""
        return self._positions[:, None]

    def move_to(self, positions: Tensor, length: int) -> None:
        """Let the next step compute `positions` [R], of which only those below `length` matter."""
        torch.clamp(positions, max=self.max_len - 1, out=self._positions)
        self.length = length

    def replace(self, places: Tensor, sources: Sources) -> None:
        """Put `sources` into `places` [B], and clear their targets."""
        self.sources.cross.index_copy_(2, places, sources.cross)
        self.sources.bias.index_copy_(0, places, sources.bias)
        self._buffer.index_fill_(2, rows_of(places, self.beam_size), 0.0)

    def continue_from(self, other: StaticKVCache, sentences: Tensor) -> None:
        """Copy the targets of `sentences` [B] of `other`, whose capacity is not larger."""
        rows = rows_of(sentences, self.beam_size)
        self._buffer[..., : other.max_len, :] = other._buffer.index_select(2, rows)

    def self_mask(self, num_new: int, like: Tensor) -> AttentionMask:
        """Return the mask of the positions that are not decoded yet; its bias is [R, 1, 1, capacity]."""
        assert num_new == 1, f"a step of {num_new} positions"
        capacity = torch.arange(self.max_len, device=like.device)
        return AttentionMask(mask_bias((capacity <= self.offset)[:, None, None], like.dtype))

    def append(self, layer: int, key: Tensor, value: Tensor) -> KeyValue:
        """Append key and value [R, H, 1, K] to `layer`; return those of the whole capacity, [R, H, capacity, K]."""
        keys, values = self._buffer[layer]
        keys[self._rows, :, self._positions] = key[:, :, 0]
        values[self._rows, :, self._positions] = value[:, :, 0]
        return keys, values

    def advance(self, num_positions: int) -> None:
        """Leave the positions as they are: `move_to` sets them."""

    def copy_rows(self, source: Tensor, target: Tensor) -> None:
        """Copy the target positions of row `source[i]` to row `target[i]`, of all layers at once."""
        past = self._buffer[..., : self.length, :]
        past.index_copy_(2, target, past.index_select(2, source))
