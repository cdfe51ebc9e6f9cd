"""The models of a search, in step: one model or an ensemble, and the batch that shrinks as sentences end."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from nmt.decoding.bit_exact import DEFAULT_MIN_ROWS
from nmt.decoding.cuda_graphs import CudaGraphStep, Recorder, record_graph
from nmt.model.cache import KVCache, rows_of
from nmt.model.kernels.packing import Packing
from nmt.model.kernels.static_cache import StaticKVCache
from nmt.model.masks import AttentionMask
from nmt.model.transformer import Memory, Transformer
from nmt.special_tokens import PAD_ID

# A translation must not depend on what is translated beside it, to the last bit. Kernels for odd lengths add in another
# order than the rest, as those for few rows may do (`nmt.decoding.bit_exact`): sources are padded to a multiple.
SRC_MULTIPLE = 16


def ensemble_log_probs(log_probs: Sequence[Tensor]) -> Tensor:
    """The logarithm of the mean of the models' probabilities: the linear opinion pool (Stone 1961), equal weights."""
    if len(log_probs) == 1:
        return log_probs[0]
    # At most 0, whatever rounding says: a hypothesis never gains by growing.
    return (torch.stack([*log_probs]).logsumexp(0) - math.log(len(log_probs))).clamp_max(0.0)


class Decoder:
    """Encodes sources once and gives the probabilities of the next token, step by step.

    Each of the B sentences has W = `beam_size` hypotheses: R = B x W rows, those of a sentence together. B may be more
    than was given: rows are added until there are `min_rows`.
    """

    def __init__(
        self,
        models: Sequence[Transformer],
        src: Tensor,
        max_len: int,
        beam_size: int = 1,
        min_rows: int = DEFAULT_MIN_ROWS,
        record: Recorder | None = None,
    ):
        """src [B, S], right-padded, ending in eos; up to `max_len` tokens can be decoded.

        `record` makes recordings of steps; on a CUDA device that is `record_graph`.
        """
        self.models = models
        self.device = src.device
        self.beam_size = beam_size
        self.min_sentences = -(-min_rows // beam_size)
        self.num_sentences = max(len(src), self.min_sentences)
        src = _widened(src, min(max(m.config.max_src_len, m.config.max_tgt_len) for m in models))
        packing = _packing(src, min_rows)
        memories = [_with_rows(model.encode(src, packing).padded(), self.num_sentences) for model in models]
        if record is None and self.device.type == "cuda":
            record = record_graph
        kind = KVCache if record is None else StaticKVCache
        self.caches = [
            kind(model.project_memory(memory), memory.mask, max_len, beam_size=beam_size)
            for model, memory in zip(models, memories, strict=True)
        ]
        fixed = [cache for cache in self.caches if isinstance(cache, StaticKVCache)]
        self.graph_step = CudaGraphStep(fixed, record) if record else None

    def step(self, last: Tensor) -> Tensor:
        """last [R]: the token that each row chose last (bos at first) -> log-probabilities of the next [R, V], fp32."""
        return self.graph_step(self._step, last) if self.graph_step else self._step(last)

    def _step(self, last: Tensor) -> Tensor:
        last = last[:, None]
        return ensemble_log_probs([
            model.decode(last, cache)[:, 0].log_softmax(-1, dtype=torch.float32)
            for model, cache in zip(self.models, self.caches, strict=True)
        ])  # fmt: skip

    def drop_finished(self, running: Tensor, num_running: int) -> Tensor | None:
        """Drop sentences that are not `running` [B], once they are a quarter (where steps are recorded, half);
        returns the rows that stay, or None.

        BatchIndices are numbered as before. Some that have ended may stay, to keep the batch at its least size.
        """
        num_kept = max(num_running, self.min_sentences)
        # A recording serves one number of rows: few numbers, so few recordings.
        if num_kept > (0.5 if self.graph_step else 0.75) * self.num_sentences:
            return None
        kept = (~running).to(torch.uint8).argsort(stable=True)[:num_kept]
        for cache in self.caches:
            cache.select_sentences(kept)
        self.num_sentences = num_kept
        return rows_of(kept, self.beam_size)

    def copy_rows(self, source: Tensor, target: Tensor) -> None:
        """Row `target[i]` goes on from the past of row `source[i]`; no row may be in both."""
        for cache in self.caches:
            cache.copy_rows(source, target)


def _widened(src: Tensor, longest: int) -> Tensor:
    """src [B, S] with S rounded up, to `longest` at most, which has positions."""
    width = max(src.size(1), min(-(-src.size(1) // SRC_MULTIPLE) * SRC_MULTIPLE, longest))
    return F.pad(src, (0, width - src.size(1)), value=PAD_ID)


def _packing(src: Tensor, min_rows: int) -> Packing | None:
    """How to encode src [B, S] without its padding, where a product costs what its rows are: on a CPU."""
    if src.device.type != "cpu":
        return None
    packing = Packing.from_ids(src)
    return packing if len(packing.real) >= min_rows else None


def _with_rows(memory: Memory, num_sentences: int) -> Memory:
    """`memory` with sentences added that say nothing, up to `num_sentences`."""
    added = num_sentences - len(memory.states)
    assert memory.mask.bias is not None
    bias = F.pad(memory.mask.bias, (0, 0, 0, 0, 0, 0, 0, added))
    return Memory(F.pad(memory.states, (0, 0, 0, 0, 0, added)), AttentionMask(bias))
