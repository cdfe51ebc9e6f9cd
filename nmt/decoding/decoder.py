"""The models of a search, in step: one model or an ensemble, and the batch that shrinks as sentences end."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from nmt.decoding.bit_exact import DEFAULT_MIN_ROWS
from nmt.decoding.cuda_graphs import CudaGraphStep, Sources, StepRecordings, rounded_up
from nmt.model.cache import KVCache, rows_of
from nmt.model.kernels.packing import Packing
from nmt.model.masks import AttentionMask
from nmt.model.transformer import Memory, Transformer
from nmt.special_tokens import PAD_ID

# A translation must not depend on what is translated beside it, to the last bit. Kernels for odd lengths add in another
# order than the rest, as those for few rows may do (`nmt.decoding.bit_exact`): sources are padded to a multiple.
SRC_MULTIPLE = 16


def ensemble_log_probs(log_probs: Sequence[Tensor]) -> Tensor:
    """Return the log of the mean of the models' probabilities: the linear opinion pool (Stone 1961), equal weights."""
    if len(log_probs) == 1:
        return log_probs[0]
    # At most 0, whatever rounding says: a hypothesis never gains by growing.
    return (torch.stack([*log_probs]).logsumexp(0) - math.log(len(log_probs))).clamp_max(0.0)


def _compute_step(models: Sequence[Transformer], caches: Sequence[KVCache], last: Tensor) -> Tensor:
    """last [R] -> log-probabilities of the next token [R, V], fp32."""
    return ensemble_log_probs([
        model.decode(last[:, None], cache)[:, 0].log_softmax(-1, dtype=torch.float32)
        for model, cache in zip(models, caches, strict=True)
    ])  # fmt: skip


class Decoder:
    """Encodes sources once and gives the probabilities of the next token, step by step.

    Each of the B sentences has W = `beam_size` hypotheses: R = B x W rows, those of a sentence together. B may be more
    than was given: empty sentences are added until there are `min_rows` rows, or those of a recording.
    """

    def __init__(
        self,
        models: Sequence[Transformer],
        src: Tensor,
        max_len: int,
        beam_size: int = 1,
        min_rows: int = DEFAULT_MIN_ROWS,
        recordings: StepRecordings | None = None,
    ):
        """src [B, S], right-padded, ending in eos; up to `max_len` tokens can be decoded.

        `recordings` are those of `models`; without them each step is computed as it is.
        """
        self.models = models
        self.device = src.device
        self.beam_size = beam_size
        self.min_sentences = -(-min_rows // beam_size)
        self.num_sentences = max(len(src), self.min_sentences)
        width = -(-src.size(1) // SRC_MULTIPLE)
        if recordings is not None:
            assert [*recordings.models] == [*models], "the recordings are of other models"
            self.num_sentences, width = rounded_up(self.num_sentences), rounded_up(width)
        longest = min(max(m.config.max_src_len, m.config.max_tgt_len) for m in models)
        src = _widened(src, min(width * SRC_MULTIPLE, longest))
        packing = _packing(src, min_rows)
        memories = [_with_rows(model.encode(src, packing).padded(), self.num_sentences) for model in models]
        crosses = [model.project_memory(memory) for model, memory in zip(models, memories, strict=True)]
        self.caches: list[KVCache] = []
        self.graph_step: CudaGraphStep | None = None
        if recordings is None:
            self.caches = [
                KVCache(cross, memory.mask, max_len, beam_size=beam_size)
                for cross, memory in zip(crosses, memories, strict=True)
            ]
        else:
            sources = [Sources(cross, _bias(memory)) for cross, memory in zip(crosses, memories, strict=True)]
            compute = functools.partial(_compute_step, models)
            self.graph_step = CudaGraphStep(recordings, compute, sources, max_len, beam_size)

    def step(self, last: Tensor) -> Tensor:
        """last [R]: the token that each row chose last (bos at first) -> log-probabilities of the next [R, V], fp32."""
        return _compute_step(self.models, self.caches, last) if self.graph_step is None else self.graph_step(last)

    def drop_finished(self, running: Tensor, num_running: int) -> Tensor | None:
        """Drop sentences that are not `running` [B], once they are a quarter, or half of a recording's.

        Return the rows that stay, or None. Some that have ended may stay, to keep the batch at its least size.
        """
        num_kept = max(num_running, self.min_sentences)
        max_share = 0.75
        if self.graph_step is not None:  # a recording serves one number of rows: few numbers, so few recordings
            num_kept, max_share = rounded_up(num_kept), 0.5
        if num_kept > max_share * self.num_sentences:
            return None
        kept = (~running).to(torch.uint8).argsort(stable=True)[:num_kept]
        for cache in self.caches if self.graph_step is None else [self.graph_step]:
            cache.select_sentences(kept)
        self.num_sentences = num_kept
        return rows_of(kept, self.beam_size)

    def copy_rows(self, source: Tensor, target: Tensor) -> None:
        """Let row `target[i]` continue the past of row `source[i]`; no row may be in both."""
        for cache in self.caches if self.graph_step is None else [self.graph_step]:
            cache.copy_rows(source, target)


def _widened(src: Tensor, width: int) -> Tensor:
    """Pad src [B, S] to [B, `width`], if S is less."""
    return F.pad(src, (0, max(0, width - src.size(1))), value=PAD_ID)


def _packing(src: Tensor, min_rows: int) -> Packing | None:
    """Return how to encode src [B, S] without its padding, on a CPU, where a product costs what its rows are."""
    if src.device.type != "cpu":
        return None
    packing = Packing.from_ids(src)
    return packing if len(packing.real) >= min_rows else None


def _with_rows(memory: Memory, num_sentences: int) -> Memory:
    """Add empty sentences to `memory`, up to `num_sentences`."""
    added = num_sentences - len(memory.states)
    bias = F.pad(_bias(memory), (0, 0, 0, 0, 0, 0, 0, added))
    return Memory(F.pad(memory.states, (0, 0, 0, 0, 0, added)), AttentionMask(bias))


def _bias(memory: Memory) -> Tensor:
    assert memory.mask.bias is not None
    return memory.mask.bias
