"""Keys and values per decoder layer: preallocated for inference, without storage in training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from nmt.model.masks import causal_mask, mask_bias
from nmt.model.packing import PackedMask

_FIRST_POSITIONS = 32  # stored at first; storage doubles as outputs grow, so that a high limit costs nothing


class KVCache:
    """What a decoder needs to remember: cross keys and values of the source, self keys and values of the target so far.

    With `max_len` 0 nothing is stored: `append` hands keys and values straight back (training, where one call holds
    the whole target; writing into a buffer would break autograd). Otherwise up to `max_len` positions are stored.

    Each sentence has W `beam_size`, rows that follow each other in the batch (R = B x W rows): they have their own
    self keys and values, and share those of the source.
    """

    def __init__(
        self,
        cross: Sequence[tuple[Tensor, Tensor]],
        cross_mask: Tensor | PackedMask,
        max_len: int = 0,
        keep_attention: bool = False,
        beam_size: int = 1,
    ):
        """cross: one (key, value) [B, H, S, K] a layer; cross_mask [B, 1, 1, S]. All packed, where the mask is."""
        # As they come from the projection, every product would copy them into one block: copied once instead.
        self.cross = [(k.contiguous(), v.contiguous()) for k, v in cross] if max_len else list(cross)
        self.cross_mask = cross_mask
        self.max_len = max_len
        self.beam_size = beam_size
        self.length = 0  # target positions so far
        self.attention: list[Tensor | None] | None = [None] * len(self.cross) if keep_attention else None
        self._stored: list[tuple[Tensor, Tensor] | None] = [None] * len(self.cross)

    @property
    def offset(self) -> int | Tensor:
        """The position that is next."""
        return self.length

    def future_bias(self, num_new: int, like: Tensor) -> Tensor | None:
        """What to add to the scores of `num_new` positions that are next, so that none sees what comes after it:
        [num_new, length + num_new], as `mask_bias`; None for a single one, which may see all there is.
        """
        if num_new == 1:
            return None
        return mask_bias(causal_mask(num_new, self.length + num_new, like.device), like.dtype)

    def append(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Add key and value [R, H, T, K] of `layer`; returns those of all positions, [R, H, length + T, K]."""
        if self.max_len == 0:
            return key, value
        end = self.length + key.size(2)
        assert end <= self.max_len, f"cache for {self.max_len} positions was given {end}"
        stored = self._stored[layer]
        if stored is None or stored[0].size(2) < end:
            capacity = min(self.max_len, max(_FIRST_POSITIONS, 2 * (end - 1), end))
            stored = self._stored[layer] = self._larger(stored, key.new_empty(2, *key.shape[:2], capacity, key.size(3)))
        stored[0][:, :, self.length : end] = key
        stored[1][:, :, self.length : end] = value
        return stored[0][:, :, :end], stored[1][:, :, :end]

    def _larger(self, stored: tuple[Tensor, Tensor] | None, larger: Tensor) -> tuple[Tensor, Tensor]:
        """`larger` [2, R, H, capacity, K] with what was stored in it."""
        key, value = larger.unbind()
        if stored is not None:
            for new, old in zip((key, value), stored, strict=True):
                new[:, :, : self.length] = old[:, :, : self.length]
        return key, value

    def advance(self, num_positions: int) -> None:
        """Count `num_positions` as decoded, once every layer has appended them."""
        if self.max_len:
            self.length += num_positions

    def by_sentence(self, states: Tensor) -> Tensor:
        """states [R, T, D] -> [B, W x T, D]: the hypotheses of a sentence ask its source together."""
        return states if self.beam_size == 1 else states.reshape(-1, self.beam_size * states.size(1), states.size(2))

    def keep_attention(self, layer: int, weights: Tensor | None) -> None:
        """Remember the cross-attention weights [B, H, T, S] of the last call, if that was asked for."""
        if self.attention is not None:
            self.attention[layer] = weights

    def select_sentences(self, sentences: Tensor) -> None:
        """Keep and reorder sentences with their hypotheses: `sentences` [B'] holds indices into the present ones."""
        self.cross = [(key.index_select(0, sentences), value.index_select(0, sentences)) for key, value in self.cross]
        assert isinstance(self.cross_mask, Tensor)
        self.cross_mask = self.cross_mask.index_select(0, sentences)
        rows = rows_of(sentences, self.beam_size)
        self._stored = [
            stored and (self._move(stored[0], rows), self._move(stored[1], rows)) for stored in self._stored
        ]

    def _move(self, stored: Tensor, rows: Tensor) -> Tensor:
        moved = stored.new_empty(len(rows), *stored.shape[1:])
        moved[:, :, : self.length] = stored[:, :, : self.length].index_select(0, rows)
        return moved

    def copy_rows(self, source: Tensor, target: Tensor) -> None:
        """Row `target[i]` gets the past of row `source[i]`; no row may be in both. Only the self part is touched."""
        for stored in self._stored:
            for buffer in stored or ():
                past = buffer[:, :, : self.length]
                past.index_copy_(0, target, past.index_select(0, source))


class StaticKVCache(KVCache):
    """A `KVCache` whose steps, of one position each, do the same operations on the same tensors.

    So they can be recorded. The position is a tensor, and attention reads the whole capacity, masked. Recorded steps
    run no Python, so the caller calls `ensure_capacity` before each and adds to `length` after it.
    """

    def __init__(self, *arguments: Any, **options: Any):
        """As `KVCache`, with a `max_len` of at least 1."""
        super().__init__(*arguments, **options)
        device = self.cross[0][0].device
        self.capacity = min(self.max_len, _FIRST_POSITIONS)
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

    def future_bias(self, num_new: int, like: Tensor) -> Tensor:
        """What to add to the scores of the position that is next, [1, capacity], as `mask_bias`."""
        assert num_new == 1, f"a step of {num_new} positions"
        return mask_bias((self._places[: self.capacity] <= self._position)[None], like.dtype)

    def append(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Add key and value [R, H, 1, K] of `layer`; returns all that is stored, [R, H, capacity, K]."""
        stored = self._stored[layer]
        if stored is None or stored[0].size(2) < self.capacity:  # zeros: what is masked must be finite
            larger = key.new_zeros(2, *key.shape[:2], self.capacity, key.size(3))
            stored = self._stored[layer] = self._larger(stored, larger)
        stored[0].index_copy_(2, self._position, key)
        stored[1].index_copy_(2, self._position, value)
        return stored

    def advance(self, num_positions: int) -> None:
        """Go to the next position."""
        self._position.add_(num_positions)

    def _move(self, stored: Tensor, rows: Tensor) -> Tensor:
        return stored.index_select(0, rows)


def rows_of(sentences: Tensor, beam_size: int) -> Tensor:
    """The rows of `sentences` [B] when each has `beam_size` rows that follow each other: [B x beam_size]."""
    if beam_size == 1:
        return sentences
    return (sentences[:, None] * beam_size + torch.arange(beam_size, device=sentences.device)).flatten()
