"""The memory of a decoder: keys and values per layer."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from nmt.model.masks import AttentionMask, causal_mask, mask_bias

KeyValue = tuple[Tensor, Tensor]


class KVCache:
    """Cross keys and values of the source, and self keys and values of the target so far.

    This one stores no target positions, for teacher forcing: one call holds the whole target, and writing into a buffer
    would break autograd. `nmt.model.kernels.preallocated_cache` stores them, for decoding step by step.
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
        """The position of the next token, or [N] the position of each packed one."""
        return self.length if self.cross_mask.queries is None else self.cross_mask.queries.positions

    def self_mask(self, num_new: int, like: Tensor) -> AttentionMask:
        """Mask self-attention of the next `num_new` positions, so that none sees what comes after it.

        The bias is [num_new, length + num_new], of the dtype and device of `like`; a single position needs none.
        """
        queries = self.cross_mask.queries
        if num_new == 1 and queries is None:
            return AttentionMask()
        bias = mask_bias(causal_mask(num_new, self.length + num_new, like.device), like.dtype)
        return AttentionMask(bias, self.length == 0, queries, queries)

    def append(self, layer: int, key: Tensor, value: Tensor) -> KeyValue:
        """Add key and value [B, H, T, K] of `layer`; return those of all positions, here the given ones."""
        return key, value

    def advance(self, num_positions: int) -> None:
        """Count `num_positions` as decoded, once every layer has appended them; nothing to count here."""

    def by_sentence(self, states: Tensor) -> Tensor:
        """Join the rows [R, T, D] that attend to the same source; here each row has its own."""
        return states

    def keep_attention(self, layer: int, weights: Tensor | None) -> None:
        """Save the cross-attention weights [B, H, T, S] of the last call, if the cache keeps them."""
        if self.attention is not None:
            self.attention[layer] = weights
