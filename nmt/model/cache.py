"""The key-value caches of the decoder: for teacher forcing, and for step-by-step decoding."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import torch
from torch import Tensor

from nmt.base.errors import NmtError
from nmt.model.kernels.packing import Segments
from nmt.model.masks import AttentionMask, causal_mask, mask_bias

KeyValue = tuple[Tensor, Tensor]

_FIRST_POSITIONS = 32  # allocated at first; storage doubles as outputs grow, so that a high limit costs nothing


class KVCache:
    """The keys and values of each layer: of the source for cross-attention, of the target so far for self-attention.

    This base class is for teacher forcing and stores no target positions: one call receives the whole target, and
    writing into a buffer would break autograd. `PreallocatedKVCache` stores them, for step-by-step decoding.
    """

    def __init__(self, cross: Sequence[KeyValue], cross_mask: AttentionMask, *, keep_attention: bool = False):
        """Set the source part: one (key, value) [B, H, S, K] per layer, from `Transformer.project_memory`.

        If sources and targets are packed, `cross_mask` has the packing of both.
        """
        self.cross = list(cross)
        self.cross_mask = cross_mask
        self.length = 0  # target positions so far
        self.is_complete = False  # it takes no more
        self.attention: list[Tensor | None] | None = [None] * len(self.cross) if keep_attention else None

    @property
    def offset(self) -> int | Tensor:
        """The position of the next token; if targets are packed, the position [N] of each token."""
        return self.length if self.cross_mask.queries is None else self.cross_mask.queries.positions

    def self_mask(self, num_new: int, like: Tensor) -> AttentionMask:
        """Return the causal mask for self-attention of the next `num_new` positions.

        Its bias is [num_new, length + num_new], with the dtype and device of `like`. A single position needs no mask.
        """
        queries = self.cross_mask.queries
        if self.is_complete:
            raise NmtError(
                "this cache keeps no targets, so a second call would not see the first",
                hint="to decode step by step, give it room for the targets: start_cache(memory, max_len)",
            )
        if num_new == 1 and queries is None:
            return AttentionMask()
        if isinstance(queries, Segments):
            return AttentionMask(None, True, queries, queries)
        bias = mask_bias(causal_mask(num_new, self.length + num_new, like.device), like.dtype)
        return AttentionMask(bias, self.length == 0, queries, queries)

    def append(self, layer: int, key: Tensor, value: Tensor) -> KeyValue:
        """Append key and value [B, H, T, K] to `layer` and return those of all positions (here: the given ones)."""
        return key, value

    def advance(self, num_positions: int) -> None:
        """Count `num_positions` as decoded, after every layer has appended them (here: the whole target)."""
        self.is_complete = True

    def by_sentence(self, states: Tensor) -> Tensor:
        """Merge the rows [R, T, D] that attend to the same source (here: each row has its own source)."""
        return states

    def keep_attention(self, layer: int, weights: Tensor | None) -> None:
        """Save the cross-attention weights [B, H, T, S] of this call, if the cache has `keep_attention`."""
        if self.attention is not None:
            self.attention[layer] = weights


class PreallocatedKVCache(KVCache):
    """A `KVCache` that stores up to `max_len` target positions, for inference; slower if gradients are recorded.

    Each sentence has W = `beam_size` consecutive rows in the batch (R = B x W rows). Each row has its own target keys
    and values; the rows of a sentence share the keys and values of its source.
    """

    def __init__(self, cross: Sequence[KeyValue], cross_mask: AttentionMask, max_len: int, *, beam_size: int = 1):
        """Set the source part as `KVCache` does, and allow `max_len` target positions."""
        # The projection's output is strided. Every matrix product would make its own contiguous copy: make one here.
        super().__init__([(key.contiguous(), value.contiguous()) for key, value in cross], cross_mask)
        self.max_len = max_len
        self.beam_size = beam_size
        self._stored: list[KeyValue | None] = [None] * len(self.cross)

    def append(self, layer: int, key: Tensor, value: Tensor) -> KeyValue:
        """Append key and value [R, H, T, K] to `layer`; return those of all positions, [R, H, length + T, K]."""
        end = self.length + key.size(2)
        if end > self.max_len:
            raise NmtError(
                f"this cache has room for {self.max_len} targets, and was given {end}",
                hint="give it room for all of them: start_cache(memory, max_len)",
            )
        stored = self._stored[layer]
        if key.requires_grad:  # writing into a buffer would break autograd
            past = stored or (key[:, :, :0], value[:, :, :0])
            keys, values = (old[:, :, : self.length] for old in past)
            joined = torch.cat([keys, key], 2), torch.cat([values, value], 2)
            self._stored[layer] = joined
            return joined
        if stored is None or stored[0].size(2) < end:
            capacity = min(self.max_len, max(_FIRST_POSITIONS, 2 * (end - 1), end))
            stored = self._stored[layer] = self._grown(stored, key, capacity)
        stored[0][:, :, self.length : end] = key
        stored[1][:, :, self.length : end] = value
        return stored[0][:, :, :end], stored[1][:, :, :end]

    def _grown(self, stored: KeyValue | None, like: Tensor, capacity: int) -> KeyValue:
        """Allocate `capacity` positions with the other sizes of `like` [R, H, T, K], and copy the stored positions."""
        key, value = like.new_empty(2, *like.shape[:2], capacity, like.size(3)).unbind()
        if stored is not None:
            key[:, :, : self.length] = stored[0][:, :, : self.length]
            value[:, :, : self.length] = stored[1][:, :, : self.length]
        return key, value

    def advance(self, num_positions: int) -> None:
        """Count `num_positions` as decoded, after every layer has appended them."""
        self.length += num_positions

    def by_sentence(self, states: Tensor) -> Tensor:
        """Merge the rows of each sentence, which attend to the same source: [R, T, D] -> [B, W x T, D]."""
        return states if self.beam_size == 1 else states.reshape(-1, self.beam_size * states.size(1), states.size(2))

    def select_sentences(self, sentences: Tensor) -> None:
        """Keep sentence `sentences[i]` with its hypotheses in place i: the one that is there, or one beyond the last.

        Only those from beyond are copied.
        """
        assert self.cross_mask.bias is not None
        bias = self.cross_mask.bias
        num_kept = len(sentences)
        target = (sentences >= num_kept).nonzero()[:, 0]
        source = sentences[target]
        for part in (bias, *chain.from_iterable(self.cross)):
            part.index_copy_(0, target, part.index_select(0, source))
        self.copy_rows(rows_of(source, self.beam_size), rows_of(target, self.beam_size))
        self.cross = [(key[:num_kept], value[:num_kept]) for key, value in self.cross]
        self.cross_mask = AttentionMask(bias[:num_kept])
        num_rows = num_kept * self.beam_size
        self._stored = [stored and (stored[0][:num_rows], stored[1][:num_rows]) for stored in self._stored]

    def copy_rows(self, source: Tensor, target: Tensor) -> None:
        """Copy the target positions of row `source[i]` to row `target[i]`. No row may occur in both arguments."""
        for stored in self._stored:
            for buffer in stored or ():
                past = buffer[:, :, : self.length]
                past.index_copy_(0, target, past.index_select(0, source))


def rows_of(sentences: Tensor, beam_size: int) -> Tensor:
    """Return the rows [B x beam_size] of `sentences` [B], each of which has `beam_size` consecutive rows."""
    if beam_size == 1:
        return sentences
    return (sentences[:, None] * beam_size + torch.arange(beam_size, device=sentences.device)).flatten()
