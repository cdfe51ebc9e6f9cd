"""Decoding steps whose operations are recorded once and replayed, as CUDA graphs.

A step of a translation model is some hundreds of small operations; on a GPU to launch them one by one takes longer than
to compute them. A recording launches all at once. It holds the addresses and sizes that it was made with, so it serves
as long as the batch has the same rows and the caches (`FixedCache`) the same room.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from nmt.model.cache import FixedCache

Step = Callable[[Tensor], Tensor]
# Makes of a step and its input a function that does the same operations on the same tensors, and its output.
Recorder = Callable[[Step, Tensor], tuple[Callable[[], object], Tensor]]

STEPS_BEFORE = 3  # that are made as they are in each shape: the first allocate, and short outputs need no recording


def record_graph(step: Step, last: Tensor) -> tuple[Callable[[], object], Tensor]:
    """`step(last)` as a CUDA graph: it computes nothing yet, then whenever it is replayed."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        output = step(last)
    return graph.replay, output


class RecordedSteps:
    """`step`, which works on `caches`, recorded where the same one is made several times.

    What it returns is written over by the next call. Where a device cannot record it, it is made as it is.
    """

    def __init__(self, step: Step, caches: Sequence[FixedCache], record: Recorder = record_graph):
        self.step = step
        self.caches = caches
        self.record: Recorder | None = record
        self._num_rows = 0
        self._num_steps = 0  # in this shape
        self._recorded: tuple[Tensor, Callable[[], object], Tensor] | None = None

    def __call__(self, last: Tensor) -> Tensor:
        """As `step`: last [R], the piece of each row -> log-probabilities of the next [R, V]."""
        grown = [cache.make_room() for cache in self.caches]
        if any(grown) or len(last) != self._num_rows:
            self._num_rows, self._num_steps, self._recorded = len(last), 0, None
        self._num_steps += 1
        if self._recorded is None and self._num_steps > STEPS_BEFORE:
            self._recorded = self._try_to_record(last)
        if self._recorded is None:
            log_probs = self.step(last)
        else:
            own, replay, log_probs = self._recorded
            own.copy_(last)
            replay()
        for cache in self.caches:
            cache.length += 1
        return log_probs

    def _try_to_record(self, last: Tensor) -> tuple[Tensor, Callable[[], object], Tensor] | None:
        """The input that a recording reads, what replays it, and the output that it writes."""
        if self.record is None:
            return None
        own = last.clone()
        try:
            return own, *self.record(self.step, own)
        except RuntimeError:
            self.record = None
            return None
