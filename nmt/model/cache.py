"""Keys and values per decoder layer: preallocated for inference, without storage in training."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from nmt.model.packing import PackedMask

_FIRST_POSITIONS = 32  # stored at first; storage doubles as outputs grow, so that a high limit costs nothing


class KVCache:
    """What a decoder needs to remember: cross keys and values of the source, self keys and values of the target so far.

    With `max_len` 0 nothing is stored: `append` hands keys and values straight back (training, where one call holds
    the whole target; writing into a buffer would break autograd). Otherwise up to `max_len` positions are stored.

    Each sentence has W `hypotheses`, rows that follow each other in the batch (R = B x W rows): they have their own
    self keys and values, and share those of the source.
    """

    def __init__(
        self,
        cross: Sequence[tuple[Tensor, Tensor]],
        cross_mask: Tensor | PackedMask,
        max_len: int = 0,
        keep_attention: bool = False,
        hypotheses: int = 1,
    ):
        """cross: one (key, value) [B, H, S, K] a layer; cross_mask [B, 1, 1, S]. All packed, where the mask is."""
        # As they come from the projection, every product would copy them into one block: copied once instead.
        self.cross = [(k.contiguous(), v.contiguous()) for k, v in cross] if max_len else list(cross)
        self.cross_mask = cross_mask
        self.max_len = max_len
        self.hypotheses = hypotheses
        self.length = 0  # target positions so far
        self.attention: list[Tensor | None] | None = [None] * len(self.cross) if keep_attention else None
        self._stored: list[tuple[Tensor, Tensor] | None] = [None] * len(self.cross)

    def append(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Add key and value [R, H, T, K] of `layer`; returns those of all positions, [R, H, length + T, K]."""
        if self.max_len == 0:
            return key, value
        end = self.length + key.size(2)
        assert end <= self.max_len, f"cache for {self.max_len} positions was given {end}"
        stored = self._stored[layer]
        if stored is None or stored[0].size(2) < end:
            stored = self._stored[layer] = self._larger(stored, key, end)
        stored[0][:, :, self.length : end] = key
        stored[1][:, :, self.length : end] = value
        return stored[0][:, :, :end], stored[1][:, :, :end]

    def _larger(self, stored: tuple[Tensor, Tensor] | None, like: Tensor, end: int) -> tuple[Tensor, Tensor]:
        """Storage for `end` positions and some more, with what was stored."""
        room = min(self.max_len, max(_FIRST_POSITIONS, 2 * (end - 1), end))
        larger = like.new_empty(2, *like.shape[:2], room, like.size(3)).unbind()
        if stored is not None:
            for new, old in zip(larger, stored, strict=True):
                new[:, :, : self.length] = old[:, :, : self.length]
        return larger[0], larger[1]

    def advance(self, num_positions: int) -> None:
        """Count `num_positions` as decoded, once every layer has appended them."""
        if self.max_len:
            self.length += num_positions

    def by_sentence(self, states: Tensor) -> Tensor:
        """states [R, T, D] -> [B, W x T, D]: the hypotheses of a sentence ask its source together."""
        return states if self.hypotheses == 1 else states.reshape(-1, self.hypotheses * states.size(1), states.size(2))

    def keep_attention(self, layer: int, weights: Tensor | None) -> None:
        """Remember the cross-attention weights [B, H, T, S] of the last call, if that was asked for."""
        if self.attention is not None:
            self.attention[layer] = weights

    def select_sentences(self, sentences: Tensor) -> None:
        """Keep and reorder sentences with their hypotheses: `sentences` [B'] holds indices into the present ones."""
        self.cross = [(key.index_select(0, sentences), value.index_select(0, sentences)) for key, value in self.cross]
        assert isinstance(self.cross_mask, Tensor)
        self.cross_mask = self.cross_mask.index_select(0, sentences)
        rows = rows_of(sentences, self.hypotheses)
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


def rows_of(sentences: Tensor, hypotheses: int) -> Tensor:
    """The rows of `sentences` [B] when each has `hypotheses` rows that follow each other: [B x hypotheses]."""
    if hypotheses == 1:
        return sentences
    return (sentences[:, None] * hypotheses + torch.arange(hypotheses, device=sentences.device)).flatten()
