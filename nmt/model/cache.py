"""The key-value cache of the decoder."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from nmt.model.masks import AttentionMask, causal_mask, mask_bias

KeyValue = tuple[Tensor, Tensor]


class KVCache:
    """The keys and values of each layer: of the source for cross-attention, of the target so far for self-attention.

    This base class is for teacher forcing and stores no target positions: one call receives the whole target, and
    writing into a buffer would break autograd. `nmt.model.preallocated_cache` stores them, for step-by-step
    decoding.
    """

    def __init__(self, cross: Sequence[KeyValue], cross_mask: AttentionMask, *, keep_attention: bool = False):
        """Set the source part: one (key, value) [B, H, S, K] per layer, from `Transformer.project_memory`.

        If sources and targets are packed, `cross_mask` has the packing of both.
        """
        self.cross = list(cross)
        self.cross_mask = cross_mask
        self.length = 0  # target positions so far
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
        if num_new == 1 and queries is None:
            return AttentionMask()
        bias = mask_bias(causal_mask(num_new, self.length + num_new, like.device), like.dtype)
        return AttentionMask(bias, self.length == 0, queries, queries)

    def append(self, layer: int, key: Tensor, value: Tensor) -> KeyValue:
        """Append key and value [B, H, T, K] to `layer` and return those of all positions (here: the given ones)."""
        return key, value

    def advance(self, num_positions: int) -> None:
        """Count `num_positions` as decoded, after every layer has appended them (here: do nothing)."""

    def by_sentence(self, states: Tensor) -> Tensor:
        """Merge the rows [R, T, D] that attend to the same source (here: each row has its own source)."""
        return states

    def keep_attention(self, layer: int, weights: Tensor | None) -> None:
        """Save the cross-attention weights [B, H, T, S] of this call, if the cache has `keep_attention`."""
        if self.attention is not None:
            self.attention[layer] = weights
