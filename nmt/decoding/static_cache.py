"""A cache of fixed size at fixed addresses, so that decoding steps on it can be recorded as CUDA graphs."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from nmt.model.cache import KeyValue, PreallocatedKVCache, rows_of
from nmt.model.masks import AttentionMask, mask_bias


class StaticKVCache(PreallocatedKVCache):
    """A cache for steps of one position each, which always run the same operations on the same tensors.

    The position is a tensor, and attention reads the whole capacity, masked. A replayed step runs no Python, so the
    caller must increment `length` after each step.
    """

    def __init__(self, cross: Sequence[KeyValue], cross_bias: Tensor, capacity: int, *, beam_size: int = 1):
        """Allocate `capacity` target positions, and sources with the shapes of `cross`, [B, H, S, K] each."""
        self.bias = cross_bias.clone()
        super().__init__(cross, AttentionMask(self.bias), capacity, beam_size=beam_size)
        key = self.cross[0][0]
        shape = (len(cross), 2, key.size(0) * beam_size, key.size(1), capacity, key.size(3))
        self._buffer = key.new_zeros(shape)  # masked values must be finite
        self._stored = [(layer[0], layer[1]) for layer in self._buffer]
        self._position = torch.zeros(1, dtype=torch.int64, device=key.device)
        self._positions = torch.arange(capacity, device=key.device)

    @property
    def num_bytes(self) -> int:
        """The memory of all keys and values, in bytes."""
        return self._buffer.nbytes + sum(key.nbytes + value.nbytes for key, value in self.cross)

    @property
    def offset(self) -> Tensor:
        """The position of the next token, [1]."""
        return self._position

    def restart(self, cross: Sequence[KeyValue], cross_bias: Tensor) -> None:
        """Replace the sources by others of the same shapes, and clear the targets."""
        for (key, value), (new_key, new_value) in zip(self.cross, cross, strict=True):
            key.copy_(new_key)
            value.copy_(new_value)
        self.bias.copy_(cross_bias)
        self._buffer.zero_()
        self._position.zero_()
        self.length = 0

    def continue_from(self, other: StaticKVCache, sentences: Tensor | None) -> None:
        """Replace the targets by those of `sentences` [B] of `other`; None: of all its sentences."""
        past = other._buffer[..., : other.length, :]  # [layers, 2, R, H, length, K]
        if sentences is not None:
            past = past.index_select(2, rows_of(sentences, self.beam_size))
        self._buffer[..., : other.length, :] = past
        self._position.fill_(other.length)
        self.length = other.length

    def self_mask(self, num_new: int, like: Tensor) -> AttentionMask:
        """Return the mask of the positions that are not decoded yet; its bias is [1, capacity]."""
        assert num_new == 1, f"a step of {num_new} positions"
        return AttentionMask(mask_bias((self._positions <= self._position)[None], like.dtype))

    def append(self, layer: int, key: Tensor, value: Tensor) -> KeyValue:
        """Append key and value [R, H, 1, K] to `layer`; return those of the whole capacity, [R, H, capacity, K]."""
        keys, values = self._buffer[layer]
        keys.index_copy_(2, self._position, key)
        values.index_copy_(2, self._position, value)
        return keys, values

    def advance(self, num_positions: int) -> None:
        """Advance the position."""
        self._position.add_(num_positions)

    def select_sentences(self, sentences: Tensor) -> None:
        """Raise TypeError, because the size is fixed; instead, let a smaller cache `continue_from` this one."""
        raise TypeError("a static cache keeps its sentences")
