"""Keys and values per decoder layer: preallocated for inference, without storage in training."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from nmt.model.masks import AttentionMask, causal_mask, mask_bias

_FIRST_POSITIONS = 32  # stored at first; storage doubles as outputs grow, so that a high limit costs nothing

KeyValue = tuple[Tensor, Tensor]


class KVCache:
    """What a decoder remembers: cross keys and values of the source, self keys and values of the target so far.

    With `max_len` 0 nothing is stored: `append` hands keys and values straight back (training, where one call holds
    the whole target; writing into a buffer would break autograd). Otherwise up to `max_len` positions are stored.

    Each sentence has W = `beam_size` rows that follow each other in the batch (R = B x W rows): they have their own
    self keys and values, and share those of the source.
    """

    def __init__(
        self,
        cross: Sequence[KeyValue],
        cross_mask: AttentionMask,
        max_len: int = 0,
        *,
        beam_size: int = 1,
        keep_attention: bool = False,
    ):
        """cross: one (key, value) [B, H, S, K] per layer, as `Transformer.project_memory` makes them.

        If sources and targets are packed, `cross_mask` has the packing of both.
        """
        # As they come from the projection, every product would copy them into one block: copied once instead.
        self.cross = [(k.contiguous(), v.contiguous()) for k, v in cross] if max_len else list(cross)
        self.cross_mask = cross_mask
        self.max_len = max_len
        self.beam_size = beam_size
        self.length = 0  # target positions so far
        self.attention: list[Tensor | None] | None = [None] * len(self.cross) if keep_attention else None
        self._stored: list[KeyValue | None] = [None] * len(self.cross)

    @property
    def offset(self) -> int | Tensor:
        """The position of the next token, or [N] the position of each packed one."""
        return self.length if self.cross_mask.queries is None else self.cross_mask.queries.positions

    def self_mask(self, num_new: int, like: Tensor) -> AttentionMask:
        """Mask self-attention of the next `num_new` positions, so that none sees what comes after it.

        The bias is [num_new, length + num_new], of the dtype and device of `like`. A single position sees all there is.
        """
        queries = self.cross_mask.queries
        if num_new == 1 and queries is None:
            return AttentionMask()
        bias = mask_bias(causal_mask(num_new, self.length + num_new, like.device), like.dtype)
        return AttentionMask(bias, self.length == 0, queries, queries)

    def append(self, layer: int, key: Tensor, value: Tensor) -> KeyValue:
        """Add key and value [R, H, T, K] of `layer`; return those of all positions, [R, H, length + T, K]."""
        if self.max_len == 0:
            return key, value
        end = self.length + key.size(2)
        assert end <= self.max_len, f"cache for {self.max_len} positions was given {end}"
        stored = self._stored[layer]
        if stored is None or stored[0].size(2) < end:
            capacity = min(self.max_len, max(_FIRST_POSITIONS, 2 * (end - 1), end))
            stored = self._stored[layer] = self._grown(stored, key, capacity)
        stored[0][:, :, self.length : end] = key
        stored[1][:, :, self.length : end] = value
        return stored[0][:, :, :end], stored[1][:, :, :end]

    def _grown(self, stored: KeyValue | None, like: Tensor, capacity: int) -> KeyValue:
        """Allocate for `capacity` positions of heads like those of `like` [R, H, T, K], and copy what was stored."""
        key, value = like.new_empty(2, *like.shape[:2], capacity, like.size(3)).unbind()
        if stored is not None:
            key[:, :, : self.length] = stored[0][:, :, : self.length]
            value[:, :, : self.length] = stored[1][:, :, : self.length]
        return key, value

    def advance(self, num_positions: int) -> None:
        """Count `num_positions` as decoded, once every layer has appended them."""
        if self.max_len:
            self.length += num_positions

    def by_sentence(self, states: Tensor) -> Tensor:
        """Join the rows of each sentence, which attend to its source together: [R, T, D] -> [B, W x T, D]."""
        return states if self.beam_size == 1 else states.reshape(-1, self.beam_size * states.size(1), states.size(2))

    def keep_attention(self, layer: int, weights: Tensor | None) -> None:
        """Remember the cross-attention weights [B, H, T, S] of the last call, if the cache keeps them."""
        if self.attention is not None:
            self.attention[layer] = weights

    def select_sentences(self, sentences: Tensor) -> None:
        """Keep and reorder sentences with their hypotheses: `sentences` [B'] holds indices into the present ones."""
        assert self.cross_mask.bias is not None
        self.cross = [(key.index_select(0, sentences), value.index_select(0, sentences)) for key, value in self.cross]
        self.cross_mask = AttentionMask(self.cross_mask.bias.index_select(0, sentences))
        rows = rows_of(sentences, self.beam_size)
        self._stored = [
            stored and (self._select(stored[0], rows), self._select(stored[1], rows)) for stored in self._stored
        ]

    def _select(self, stored: Tensor, rows: Tensor) -> Tensor:
        selected = stored.new_empty(len(rows), *stored.shape[1:])
        selected[:, :, : self.length] = stored[:, :, : self.length].index_select(0, rows)
        return selected

    def copy_rows(self, source: Tensor, target: Tensor) -> None:
        """Copy the past of row `source[i]` to row `target[i]`; no row may be in both. The cross part is shared."""
        for stored in self._stored:
            for buffer in stored or ():
                past = buffer[:, :, : self.length]
                past.index_copy_(0, target, past.index_select(0, source))


def rows_of(sentences: Tensor, beam_size: int) -> Tensor:
    """Return the rows [B x beam_size] of `sentences` [B], which have `beam_size` rows each that follow each other."""
    if beam_size == 1:
        return sentences
    return (sentences[:, None] * beam_size + torch.arange(beam_size, device=sentences.device)).flatten()
