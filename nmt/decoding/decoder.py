"""The decoding steps of a search: one model or an ensemble, on a batch that shrinks as sentences end."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmt.base.special_tokens import PAD_ID
from nmt.decoding.cuda_graphs import CudaGraphStep, Sources, Step, StepRecordings, rounded_up
from nmt.model.cache import KVCache, PreallocatedKVCache, rows_of
from nmt.model.kernels.packing import Packing
from nmt.model.masks import AttentionMask
from nmt.model.transformer import Memory, Transformer

# A translation must not depend on the rest of its batch, not even in the last bit. But kernels may sum in a different
# order for odd lengths, so sources are padded to a multiple of this, and for few rows, so batches are padded too.
SRC_MULTIPLE = 16
CHECK_EVERY = 8  # steps, on a GPU, where seeing what has finished needs a synchronization
DEFAULT_MIN_ROWS = 16  # bit-exact on every machine tried


@torch.inference_mode()
def min_rows(model: Transformer) -> int:
    """Return 1 if every linear layer computes a single row bit-identically to the same row in a batch, else 16.

    For fp32 models on a CPU, a short trial decides.
    """
    if model.output_proj.weight.dtype != torch.float32 or model.device.type != "cpu":
        return DEFAULT_MIN_ROWS
    layers = {module.weight.shape: module for module in model.modules() if isinstance(module, nn.Linear)}
    numbers = torch.Generator().manual_seed(1)
    for layer in layers.values():
        rows = torch.rand(64, layer.in_features, generator=numbers) - 0.5
        among_others = F.linear(rows, layer.weight, layer.bias)
        by_few = (F.linear(rows[:n], layer.weight, layer.bias) for n in (1, 2, 3, 5, 8, 11, 15))
        if any(not products.equal(among_others[: len(products)]) for products in by_few):
            return DEFAULT_MIN_ROWS
    return 1


def ensemble_log_probs(log_probs: Sequence[Tensor]) -> Tensor:
    """Return the log of the mean probability of the models: a linear opinion pool (Stone 1961) with equal weights."""
    if len(log_probs) == 1:
        return log_probs[0]
    # At most 0 despite rounding: the score of a hypothesis must not grow with its length.
    return (torch.stack([*log_probs]).logsumexp(0) - math.log(len(log_probs))).clamp_max(0.0)


def _compute_step(models: Sequence[Transformer], caches: Sequence[KVCache], last: Tensor) -> Tensor:
    """Return the log-probabilities [R, V], fp32, of the tokens after `last` [R]."""
    return ensemble_log_probs([
        model.decode(last[:, None], cache)[:, 0].log_softmax(-1, dtype=torch.float32)
        for model, cache in zip(models, caches, strict=True)
    ])  # fmt: skip


class Decoder:
    """Encodes sources once, then computes the probabilities of the next token step by step.

    Each of the B sentences has W = `beam_size` hypotheses: R = B x W rows, grouped by sentence. B may exceed the number
    of sources, because empty sentences pad the batch to `min_rows` rows, or to the rows of a recording.
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
        """Encode src [B, S], right-padded, ending in eos, and prepare to decode up to `max_len` tokens.

        `recordings` are the CUDA graphs of `models`; without them, each step launches its kernels one by one.
        """
        self.models = models
        self.device = src.device
        self.check_every = 1 if src.device.type == "cpu" else CHECK_EVERY
        self.beam_size = beam_size
        self.min_sentences = -(-min_rows // beam_size)
        self.num_sentences = max(len(src), self.min_sentences)
        width = -(-src.size(1) // SRC_MULTIPLE)
        if recordings is not None:
            assert [*recordings.models] == [*models], "the recordings are of other models"
            self.num_sentences, width = rounded_up(self.num_sentences), rounded_up(width)
        max_width = min(max(model.config.max_src_len, model.config.max_tgt_len) for model in models)
        src = F.pad(src, (0, max(0, min(width * SRC_MULTIPLE, max_width) - src.size(1))), value=PAD_ID)
        packing = Packing.from_ids(src) if src.device.type == "cpu" else None
        if packing is not None and len(packing.real) < min_rows:
            packing = None
        sources = [_encode(model, src, packing, self.num_sentences) for model in models]
        self.excluded: Tensor | None = None  # [B, V]: tokens that are not in a sentence's shortlist
        self.graph_step: CudaGraphStep | None = None
        self._caches: Sequence[PreallocatedKVCache | CudaGraphStep]
        self._compute: Step
        if recordings is None:
            caches = [
                PreallocatedKVCache(cross, AttentionMask(bias), max_len, beam_size=beam_size) for cross, bias in sources
            ]
            self._caches, self._compute = caches, functools.partial(_compute_step, models, caches)
        else:
            compute = functools.partial(_compute_step, models)
            self.graph_step = self._compute = CudaGraphStep(recordings, compute, sources, max_len, beam_size)
            self._caches = [self.graph_step]

    def restrict(self, shortlists: Sequence[Sequence[int]]) -> None:
        """Restrict the first sentences to the tokens of their shortlists, whose probabilities then sum to 1."""
        vocab_size = self.models[0].tgt_embedding.tokens.num_embeddings
        self.excluded = torch.zeros((self.num_sentences, vocab_size), dtype=torch.bool, device=self.device)
        for excluded, tokens in zip(self.excluded, shortlists, strict=False):  # the batch may end with empty sentences
            excluded.fill_(True)
            excluded[torch.tensor(tokens, device=self.device)] = False

    def step(self, last: Tensor) -> Tensor:
        """Return the log-probabilities [R, V], fp32, of the tokens after `last` [R], which is bos at first."""
        log_probs = self._compute(last)
        if self.excluded is None:
            return log_probs
        excluded = self.excluded.repeat_interleave(self.beam_size, 0)
        return log_probs.masked_fill(excluded, float("-inf")).log_softmax(-1)

    def drop_finished(self, running: Tensor, num_running: int) -> Tensor | None:
        """Drop sentences that are not `running` [B], once they make up a quarter of the batch (with recordings: half).

        Return the rows that stay, or None if all do. Some finished sentences may stay to keep the minimum batch size.
        """
        num_kept = max(num_running, self.min_sentences)
        max_share = 0.75
        if self.graph_step is not None:  # a recording works for one batch size only, so use few sizes
            num_kept, max_share = rounded_up(num_kept), 0.5
        if num_kept > max_share * self.num_sentences:
            return None
        kept = (~running).to(torch.uint8).argsort(stable=True)[:num_kept]
        for cache in self._caches:
            cache.select_sentences(kept)
        self.num_sentences = num_kept
        if self.excluded is not None:
            self.excluded = self.excluded[kept]
        return rows_of(kept, self.beam_size)

    def copy_rows(self, source: Tensor, target: Tensor) -> None:
        """Copy the target positions of row `source[i]` to row `target[i]`. No row may occur in both arguments."""
        for cache in self._caches:
            cache.copy_rows(source, target)


def _encode(model: Transformer, src: Tensor, packing: Packing | None, num_sentences: int) -> Sources:
    """Encode src [B, S] for the decoder of `model`, and append empty sentences up to `num_sentences`.

    With a `packing`, the layers process only real tokens: on a CPU, a matrix product costs as much as it has rows.
    """
    states, mask = model.encode(src, packing)
    assert mask.bias is not None
    if packing is not None:
        states = packing.unpack(states)  # [B, S, D], arbitrary at padding
    added = num_sentences - len(states)
    bias = F.pad(mask.bias, (0, 0, 0, 0, 0, 0, 0, added))
    memory = Memory(F.pad(states, (0, 0, 0, 0, 0, added)), AttentionMask(bias))
    return Sources(model.project_memory(memory), bias)
