"""Keys and values per decoder layer: preallocated for inference, without storage in training."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor


class KVCache:
    """What a decoder needs to remember: cross keys and values of the source, self keys and values of the target so far.

    With `max_len` 0 nothing is stored: `append` hands keys and values straight back (training, where one call holds
    the whole target; writing into a buffer would break autograd). Otherwise up to `max_len` positions are stored.
    """

    def __init__(
        self, cross: Sequence[tuple[Tensor, Tensor]], cross_mask: Tensor, max_len: int = 0, keep_attention: bool = False
    ):
        """cross: one (key, value) [B, H, S, K] a layer; cross_mask [B, 1, 1, S]."""
        self.cross = list(cross)
        self.cross_mask = cross_mask
        self.max_len = max_len
        self.length = 0  # target positions so far
        self.attention: list[Tensor | None] | None = [None] * len(self.cross) if keep_attention else None
        self._stored: list[tuple[Tensor, Tensor] | None] = [None] * len(self.cross)

    def append(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Add key and value [B, H, T, K] of `layer`; returns those of all positions, [B, H, length + T, K]."""
        if self.max_len == 0:
            return key, value
        stored = self._stored[layer]
        if stored is None:
            shape = (*key.shape[:2], self.max_len, key.shape[3])
            stored = self._stored[layer] = (key.new_empty(shape), value.new_empty(shape))
        end = self.length + key.size(2)
        assert end <= self.max_len, f"cache for {self.max_len} positions was given {end}"
        stored[0][:, :, self.length : end] = key
        stored[1][:, :, self.length : end] = value
        return stored[0][:, :, :end], stored[1][:, :, :end]

    def advance(self, num_positions: int) -> None:
        """Count `num_positions` as decoded, once every layer has appended them."""
        if self.max_len:
            self.length += num_positions

    def keep_attention(self, layer: int, weights: Tensor | None) -> None:
        """Remember the cross-attention weights [B, H, T, S] of the last call, if that was asked for."""
        if self.attention is not None:
            self.attention[layer] = weights

    def select_rows(self, rows: Tensor) -> None:
        """Keep and reorder sentences: `rows` [B'] holds indices into the present batch."""
        self.cross = [(key.index_select(0, rows), value.index_select(0, rows)) for key, value in self.cross]
        self.cross_mask = self.cross_mask.index_select(0, rows)
        self._stored = [
            stored and (self._move(stored[0], rows), self._move(stored[1], rows)) for stored in self._stored
        ]

    def _move(self, stored: Tensor, rows: Tensor) -> Tensor:
        moved = stored.new_empty(len(rows), *stored.shape[1:])
        moved[:, :, : self.length] = stored[:, :, : self.length].index_select(0, rows)
        return moved
