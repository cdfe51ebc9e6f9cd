"""A cache whose steps can be recorded as CUDA graphs."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from nmt.model.cache import KeyValue, KVCache
from nmt.model.masks import AttentionMask, mask_bias

FIRST_POSITIONS = 32


class StaticKVCache(KVCache):
    """A `KVCache` whose steps, of one position each, do the same operations on the same tensors.

    So they can be recorded. The position is a tensor, and attention reads the whole capacity, masked. Recorded steps
    run no Python, so the caller calls `ensure_capacity` before each and adds to `length` after it.
    """

    def __init__(self, *arguments: Any, **options: Any):
        """As `KVCache`, with a `max_len` of at least 1."""
        super().__init__(*arguments, **options)
        device = self.cross[0][0].device
        self.capacity = min(self.max_len, FIRST_POSITIONS)
        self._position = torch.zeros(1, dtype=torch.int64, device=device)
        self._places = torch.arange(self.max_len, device=device)

    @property
    def offset(self) -> Tensor:
        """The position that is next, [1]."""
        return self._position

    def ensure_capacity(self) -> bool:
        """Make room for one more position; return whether storage grows, which voids recorded steps."""
        assert self.length < self.max_len, f"no capacity for more than {self.max_len} positions"
        if self.length < self.capacity:
            return False
        self.capacity = min(self.max_len, 2 * self.capacity)
        return True

    def self_mask(self, num_new: int, like: Tensor) -> AttentionMask:
        """Mask what is not decoded yet: the bias is [1, capacity]."""
        assert num_new == 1, f"a step of {num_new} positions"
        return AttentionMask(mask_bias((self._places[: self.capacity] <= self._position)[None], like.dtype))

    def append(self, layer: int, key: Tensor, value: Tensor) -> KeyValue:
        """Add key and value [R, H, 1, K] of `layer`; returns all that is stored, [R, H, capacity, K]."""
        stored = self._stored[layer]
        if stored is None or stored[0].size(2) < self.capacity:  # zeros: what is masked must be finite
            larger = key.new_zeros(2, *key.shape[:2], self.capacity, key.size(3))
            stored = self._stored[layer] = self._filled(larger, stored)
        stored[0].index_copy_(2, self._position, key)
        stored[1].index_copy_(2, self._position, value)
        return stored

    def _filled(self, larger: Tensor, stored: KeyValue | None) -> KeyValue:
        key, value = larger.unbind()
        if stored is not None:
            key[:, :, : self.length] = stored[0][:, :, : self.length]
            value[:, :, : self.length] = stored[1][:, :, : self.length]
        return key, value

    def advance(self, num_positions: int) -> None:
        """Go to the next position."""
        self._position.add_(num_positions)

    def _select(self, stored: Tensor, rows: Tensor) -> Tensor:
        return stored.index_select(0, rows)
