"""The decoding steps of a search: one model or an ensemble, on a batch that shrinks as sentences end."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from nmt.base.special_tokens import PAD_ID
from nmt.decoding.cuda_graphs import CudaGraphStep, Step, StepRecordings, rounded_up
from nmt.decoding.static_cache import Sources
from nmt.model.cache import KVCache, PreallocatedKVCache, rows_of
from nmt.model.kernels.packing import Packing
from nmt.model.masks import AttentionMask
from nmt.model.transformer import Memory, Transformer

# A translation must not depend on the rest of its batch, not even in the last bit. But kernels may
# sum in a different order for odd lengths, so sources are padded to a multiple of the first number,
# and for few rows, so batches are padded to the second. Both were enough on every machine tried.
SRC_MULTIPLE = 16
DEFAULT_MIN_ROWS = 16
# Steps between two looks of the host at a GPU, for which it has to wait. A look every 4 steps frees
# places earlier, but waits twice as often (docs/log/gpu.md, "Rows are filled again").
CHECK_EVERY = 8
# Free places are dropped if at most this share of the places is in use. On a CPU, where dropping
# copies the caches of the sentences that move, that pays for a tenth (docs/log/gpu.md). A recording
# works for one number of rows only, so with recordings, batches shrink by halves: few are needed.
_SHARE_IN_USE = 0.9
_SHARE_IN_USE_OF_RECORDINGS = 0.5


@torch.inference_mode()
def min_rows(model: Transformer) -> int:
    """Return 1 if every linear layer computes a single row bit-identically to the same row in a batch, else 16.

    For fp32 models on a CPU, a short trial decides: one layer of each shape, with numbers of rows below 16.
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
    """Return the logits [R, V] of the tokens after `last` [R]; of several models, their log-probabilities, fp32."""
    logits = [model.decode(last[:, None], cache)[:, 0] for model, cache in zip(models, caches, strict=True)]
    if len(models) == 1:
        return logits[0]
    return ensemble_log_probs([each.log_softmax(-1, dtype=torch.float32) for each in logits])


class Decoder:
    """Encodes sources, then computes the probabilities of the next token of each row step by step.

    Each of B places in the batch has a sentence with W = `beam_size` hypotheses: R = B x W rows, grouped by sentence.
    Empty sentences pad the batch to `min_rows` rows, or to the rows of a recording. A recording works for one number of
    rows only, so those that wait take the places that become free. Free places are dropped if no sentence waits.
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
        self.max_len = max_len
        self.beam_size = beam_size
        self.min_rows = min_rows
        num_places = max(len(src), -(-min_rows // beam_size))
        width = -(-src.size(1) // SRC_MULTIPLE)
        if recordings is not None:
            assert [*recordings.models] == [*models], "the recordings are of other models"
            num_places = rounded_up(num_places)
            width = rounded_up(width)
        max_width = min(max(model.config.max_src_len, model.config.max_tgt_len) for model in models)
        encode = partial(_encode, models, max(src.size(1), min(width * SRC_MULTIPLE, max_width)), num_places, min_rows)
        # In each place: the number of a sentence, how many tokens were chosen, and whether the search needs more.
        self.numbers = np.arange(num_places)
        self.lengths = np.zeros(num_places, np.int64)
        self.running = self.numbers < len(src)
        self.positions = torch.full((num_places * beam_size,), -1, device=src.device)  # of the latest token, [R]
        self.excluded: Tensor | None = None  # [sentences, V]: the tokens that are not in the shortlist of each
        compute = partial(_compute_step, models)
        self.graph_step: CudaGraphStep | None = None
        self._caches: Sequence[PreallocatedKVCache | CudaGraphStep]
        if recordings is None:
            self._caches = caches = [
                PreallocatedKVCache(each.pairs, AttentionMask(each.bias), max_len, beam_size=beam_size)
                for each in encode(src)
            ]
            self._compute: Step = partial(compute, caches)
        else:
            self.graph_step = CudaGraphStep(recordings, compute, encode, src, max_len, beam_size)
            self._caches = [self.graph_step]

    @property
    def num_places(self) -> int:
        """The number of places in the batch, B, free ones included."""
        return len(self.numbers)

    @property
    def length(self) -> int:
        """The most tokens that were chosen for a running sentence."""
        return min(self.max_len, int(self.lengths.max(initial=0, where=self.running)))

    @property
    def rows(self) -> Tensor:
        """The number of each row [R] among the rows of all sentences."""
        return self._rows_of(self.numbers)

    def _rows_of(self, sentences: NDArray[np.int64]) -> Tensor:
        return rows_of(torch.from_numpy(sentences).to(self.device), self.beam_size)

    def restrict(self, shortlists: Sequence[Sequence[int]]) -> None:
        """Restrict the sentences to the tokens of their shortlists, whose probabilities then sum to 1."""
        vocab_size = self.models[0].tgt_embedding.tokens.num_embeddings
        count = max(len(shortlists), self.num_places)  # with the empty sentences
        self.excluded = torch.zeros((count, vocab_size), dtype=torch.bool, device=self.device)
        for excluded, tokens in zip(self.excluded, shortlists, strict=False):
            excluded.fill_(True)
            excluded[torch.tensor(tokens, device=self.device)] = False

    def step(self, last: Tensor, *, normalized: bool = True) -> Tensor:
        """Return the log-probabilities [R, V], fp32, of the tokens after `last` [R], which is bos at first.

        They are at `positions` of the outputs. If they need not be `normalized`, they may be logits.
        """
        self.lengths += 1
        self.positions.add_(1).clamp_(max=self.max_len - 1)
        recorded = self.graph_step
        logits = self._compute(last) if recorded is None else recorded(last, self.positions, self.length)
        if self.excluded is not None:
            of_rows = torch.from_numpy(self.numbers.repeat(self.beam_size)).to(self.device)
            logits = logits.masked_fill(self.excluded[of_rows], float("-inf"))
        elif len(self.models) > 1:
            return logits
        return logits.log_softmax(-1, dtype=torch.float32) if normalized else logits

    def replace_finished(self) -> tuple[Tensor, Tensor] | None:
        """Give the places of sentences that are not `running` to those that wait, or drop them if none can wait.

        Return None if nothing changed, else the former row of each row, and the rows with new sentences.
        """
        free = np.flatnonzero(~self.running)
        numbers = free[:0] if self.graph_step is None else self.graph_step.admit(free)
        if not len(numbers):
            return self._drop(self.num_places - len(free))
        fresh = free[: len(numbers)]
        self.numbers[fresh], self.lengths[fresh], self.running[fresh] = numbers, 0, True
        rows = self._rows_of(fresh)
        self.positions.index_fill_(0, rows, -1)
        return torch.arange(len(self.positions), device=self.device), rows

    def _drop(self, num_running: int) -> tuple[Tensor, Tensor] | None:
        """Drop free places once they make up a share of the batch, but none of the minimum."""
        num_kept = max(num_running, -(-self.min_rows // self.beam_size))
        max_share = _SHARE_IN_USE
        if self.graph_step is not None:
            num_kept = rounded_up(num_kept)
            max_share = _SHARE_IN_USE_OF_RECORDINGS
        if num_kept > max_share * self.num_places:
            return None
        # Sentences beyond the new end move into places before it that are free.
        kept = np.arange(num_kept)
        moved = num_kept + np.flatnonzero(self.running[num_kept:])
        free = np.flatnonzero(~self.running[:num_kept])[: len(moved)]
        kept[free] = moved
        for cache in self._caches:
            cache.select_sentences(torch.from_numpy(kept).to(self.device))
        self.numbers = self.numbers[kept]
        self.lengths = self.lengths[kept]
        self.running = self.running[kept]
        rows = self._rows_of(kept)
        self.positions = self.positions[rows]
        return rows, rows[:0]

    def copy_rows(self, source: Tensor, target: Tensor) -> None:
        """Copy the target positions of row `source[i]` to row `target[i]`."""
        for cache in self._caches:
            cache.copy_rows(source, target)


def _encode(models: Sequence[Transformer], width: int, num_places: int, min_rows: int, src: Tensor) -> list[Sources]:
    """Encode src [B, S] for the decoder of each model.

    It is padded to `width` tokens and, with empty sentences, to `num_places`. On a CPU, where a matrix product costs as
    much as it has rows, the layers process only real tokens, unless these are fewer than `min_rows`.
    """
    src = F.pad(src, (0, width - src.size(1)), value=PAD_ID)
    packing = Packing.from_ids(src) if src.device.type == "cpu" else None
    if packing is not None and len(packing.real) < min_rows:
        packing = None
    encoded = []
    for model in models:
        states, mask = model.encode(src, packing=packing)
        assert mask.bias is not None
        if packing is not None:
            states = packing.unpack(states)  # [B, S, D], arbitrary at padding
        added = num_places - len(states)
        bias = F.pad(mask.bias, (0, 0, 0, 0, 0, 0, 0, added))
        memory = Memory(F.pad(states, (0, 0, 0, 0, 0, added)), AttentionMask(bias))
        encoded.append(Sources(torch.stack([torch.stack(pair) for pair in model.project_memory(memory)]), bias))
    return encoded
