"""Decoding steps whose operations are recorded once and replayed, as CUDA graphs.

A step of a translation model is a hundred small operations and more; on a GPU to launch them one by one may take longer
than to compute them. A recording launches all at once. It holds the addresses and sizes that it was made with, so it
serves as long as the batch has the same rows and the caches (`StaticKVCache`) the same capacity.
"""

from __future__ import annotations

import functools
import threading
import warnings
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from nmt.model.kernels.static_cache import StaticKVCache

Step = Callable[[Tensor], Tensor]
# Makes of a step and its input a function that does the same operations on the same tensors, and its output.
Recorder = Callable[[Step, Tensor], tuple[Callable[[], object], Tensor]]

STEPS_BEFORE = 3  # that are made as they are in each shape: the first of them allocates
MIN_STEPS_LEFT = 8  # steps, for which recording is worth its cost

_one_at_a_time = threading.Lock()
_failed: set[Recorder] = set()


def record_graph(step: Step, last: Tensor) -> tuple[Callable[[], object], Tensor]:
    """`step(last)` as a CUDA graph: it computes nothing yet, then whenever it is replayed."""
    graph = torch.cuda.CUDAGraph()
    recording = torch.cuda.graph(graph, stream=_stream_of(last.device), capture_error_mode="thread_local")
    before = torch.cuda.current_stream(last.device)
    try:
        # On the device of the batch: what is launched on another one would not be recorded, but computed.
        with _one_at_a_time, torch.cuda.device(last.device), recording:
            output = step(last)
    finally:
        torch.cuda.set_stream(before)  # a recording that fails may leave its own
    return graph.replay, output


@functools.cache
def _stream_of(device: torch.device) -> torch.cuda.Stream:
    """One stream for all recordings on `device`: products keep a block of memory for each stream that they meet."""
    return torch.cuda.Stream(device)


class CudaGraphStep:
    """Steps that work on `caches`, recorded where the same one is made several times.

    Where recording fails, with a warning, all later steps of the process are made as they are.
    """

    def __init__(self, caches: Sequence[StaticKVCache], record: Recorder):
        self.caches = caches
        self.record = record
        self.recorded: tuple[Tensor, Callable[[], object], Tensor] | None = None  # input, what replays it, output
        self._num_rows = 0
        self._num_steps = 0  # in this shape

    def __call__(self, step: Step, last: Tensor) -> Tensor:
        """`step(last)`, last [R]: the token of each row -> log-probabilities of the next [R, V].

        `step` must be the same in each call. What is returned is written over by the next call.
        """
        grown = [cache.ensure_capacity() for cache in self.caches]
        if any(grown) or len(last) != self._num_rows:
            self._num_rows, self._num_steps, self.recorded = len(last), 0, None
        self._num_steps += 1
        if self.recorded is None and self._worthwhile():
            self.recorded = self._try_to_record(step, last)
        if self.recorded is None:
            log_probs = step(last)
        else:
            own, replay, log_probs = self.recorded
            own.copy_(last)
            replay()
        for cache in self.caches:
            cache.length += 1
        return log_probs

    def _worthwhile(self) -> bool:
        left = min(cache.capacity - cache.length for cache in self.caches)
        return self._num_steps > STEPS_BEFORE and left >= MIN_STEPS_LEFT and self.record not in _failed

    def _try_to_record(self, step: Step, last: Tensor) -> tuple[Tensor, Callable[[], object], Tensor] | None:
        own = last.clone()
        try:
            return own, *self.record(step, own)
        except RuntimeError as error:
            _failed.add(self.record)
            warnings.warn(f"decoding steps are not recorded, which would be faster: {error}", stacklevel=2)
            return None
