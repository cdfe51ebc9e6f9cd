"""Decoding steps recorded as CUDA graphs and replayed.

A decoding step consists of a hundred or more small kernels. On a GPU, launching them one by one may take longer than
running them; a replay launches all of them at once. A recording is bound to addresses and sizes, so it has its own
caches (`StaticKVCache`) and works for batches of one shape. Recordings are kept across batches, and sizes are rounded
up, so that a few shapes serve all batches.
"""

from __future__ import annotations

import functools
import logging
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nmt.decoding.static_cache import Sources, StaticKVCache
from nmt.model.transformer import Transformer

log = logging.getLogger(__name__)

Step = Callable[[Tensor], Tensor]
# Turns a step and its input into a function that replays the same operations on the same tensors.
Recorder = Callable[[Step, Tensor], Callable[[], object]]

# All three were chosen by hand.
STEPS_BEFORE = 3  # steps of each shape before it is recorded; the first one allocates memory
MIN_STEPS_LEFT = 8  # steps that must remain for a recording to pay off
FIRST_CAPACITY = 32  # positions; doubled as outputs grow

_one_at_a_time = threading.Lock()


def record_step(step: Step, last: Tensor) -> Callable[[], object]:
    """Record `step(last)` as a CUDA graph without running it; return a function that replays it."""
    return record_graph(lambda: step(last), last.device, "decoding")


def record_graph(work: Callable[[], object], device: torch.device, purpose: str) -> Callable[[], object]:
    """Record `work` as a CUDA graph without doing it; return a function that replays it.

    Recordings for one `purpose` share their memory for intermediate results.
    """
    graph = torch.cuda.CUDAGraph()
    stream, pool, _ = _stream_and_pool(device, purpose)
    recording = torch.cuda.graph(graph, pool=pool, stream=stream, capture_error_mode="thread_local")
    before = torch.cuda.current_stream(device)
    try:
        # Select the batch's device: kernels launched on another device would run instead of being recorded.
        with _one_at_a_time, torch.cuda.device(device), recording:
            work()
    except BaseException:
        # A failed recording leaves the random numbers in a state of recording, in which dropout fails.
        generator = torch.cuda.default_generators[before.device_index]
        generator.graphsafe_set_state(generator.clone_state())
        raise
    finally:
        torch.cuda.set_stream(before)  # a failed recording may leave its own stream active
    return graph.replay


def recording_stream(device: torch.device, purpose: str) -> torch.cuda.Stream:
    """Return the stream on which `record_graph` records."""
    return _stream_and_pool(device, purpose)[0]


@functools.cache
def _stream_and_pool(device: torch.device, purpose: str) -> tuple[torch.cuda.Stream, Any, torch.cuda.CUDAGraph]:
    """Return a stream and a memory pool for all recordings for `purpose` on `device`, and a graph that keeps the pool.

    Matrix products keep one workspace per stream. Recordings can share memory for intermediate results, because replays
    run one after the other on a single stream, and nothing reads these results after a replay. PyTorch gives up a pool
    with the last graph in it, and then fails to record another one there.
    """
    stream = torch.cuda.Stream(device)
    pool = torch.cuda.graph_pool_handle()
    keeper = torch.cuda.CUDAGraph()
    recording = torch.cuda.graph(keeper, pool=pool, stream=stream, capture_error_mode="thread_local")
    with _one_at_a_time, torch.cuda.device(device), recording:
        torch.zeros(1, device=device)
    return stream, pool, keeper


def rounded_up(size: int) -> int:
    """Round up to one of four sizes between a power of two and the next, for few shapes with at most 25% padding."""
    multiple = 1 << max(0, size.bit_length() - 3)
    return -(-size // multiple) * multiple


class Shape(NamedTuple):
    """The shape of the batches that a recording works for."""

    num_sentences: int
    beam_size: int
    src_len: int
    capacity: int  # target positions


class StaticStep:
    """The caches of one shape, one per model, and the recorded step on them, if there is one yet."""

    def __init__(self, shape: Shape, sources: Sequence[Sources]):
        self.shape = shape
        self.caches = [StaticKVCache(each, shape.capacity, beam_size=shape.beam_size) for each in sources]
        self.num_steps = 0
        self._recording: tuple[Tensor, Tensor, Callable[[], object]] | None = None  # input, output, replay

    @property
    def is_recorded(self) -> bool:
        """True once `record` has succeeded."""
        return self._recording is not None

    @property
    def num_bytes(self) -> int:
        """The memory used by the step, in bytes."""
        log_probs = 0 if self._recording is None else self._recording[1].nbytes
        return log_probs + sum(cache.num_bytes for cache in self.caches)

    def record(self, step: Step, last: Tensor, log_probs: Tensor, record: Recorder) -> None:
        """Record `step`; `last` [R] and `log_probs` [R, V] are its latest input and output. RuntimeError on failure."""
        # Recordings share memory for intermediate results, so the final result needs separate memory.
        static = last.clone()
        output = torch.empty_like(log_probs)
        self._recording = static, output, record(lambda last: output.copy_(step(last)), static)

    def replay(self, last: Tensor) -> Tensor:
        """Replay the step for `last` [R]; the next replay overwrites the result [R, V]."""
        assert self._recording is not None
        static, output, replay = self._recording
        static.copy_(last)
        replay()
        return output


class StepRecordings:
    """The recorded steps of a list of models, kept across batches. Threads may share this object."""

    def __init__(self, models: Sequence[Transformer], record: Recorder = record_step, max_bytes: int | None = None):
        """Keep up to `max_bytes` of unused steps (default: a quarter of the GPU's memory)."""
        self.models = list(models)
        self.record = record
        self.may_record = True
        self.max_bytes = _quarter_of_memory(self.models[0].device) if max_bytes is None else max_bytes
        self._free: list[StaticStep] = []  # least recently used first
        self._lock = threading.Lock()

    def take(self, shape: Shape, sources: Sequence[Sources]) -> StaticStep:
        """Return a step of `shape` with `sources` in its caches, for exclusive use until `give_back`."""
        with self._lock:
            free = next((step for step in reversed(self._free) if step.shape == shape), None)
            if free is not None:
                self._free.remove(free)
        if free is None:
            return StaticStep(shape, sources)
        for cache, new in zip(free.caches, sources, strict=True):
            cache.replace(torch.arange(shape.num_sentences, device=new.bias.device), new)
        return free

    def give_back(self, step: StaticStep) -> None:
        """Keep a step for later batches; drop the least recently used steps until they fit into `max_bytes`."""
        with self._lock:
            self._free.append(step)
            while sum(free.num_bytes for free in self._free) > self.max_bytes:
                del self._free[0]

    def forget(self) -> None:
        """Drop all steps that are not in use, and free their memory."""
        with self._lock:
            self._free.clear()
        torch.cuda.empty_cache()

    def try_to_record(self, static: StaticStep, step: Step, last: Tensor, log_probs: Tensor) -> None:
        """Record `step` on the caches of `static`. If that fails, log a warning and never record again."""
        try:
            static.record(step, last, log_probs, self.record)
        except RuntimeError as error:
            self.may_record = False
            log.warning("decoding without CUDA graphs, which would be faster: recording failed: %s", error)


def _quarter_of_memory(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).total_memory // 4 if device.type == "cuda" else 1 << 30


class CudaGraphStep:
    """The steps of one batch, replayed from a recording once steps of the same shape have run several times."""

    def __init__(
        self,
        recordings: StepRecordings,
        compute: Callable[[Sequence[StaticKVCache], Tensor], Tensor],
        encode: Callable[[Tensor], Sequence[Sources]],
        src: Tensor,
        max_len: int,
        beam_size: int,
    ):
        """Prepare up to `max_len` steps by `compute(caches, last)`, on what `encode` returns for src [B, S].

        `encode` returns the sources of each model, always of the same number of sentences.
        """
        self.recordings = recordings
        self.compute = compute
        self.encode = encode
        self.max_len = max_len
        self.num_admitted = self._num_first = len(src)
        self.waiting = src[:0]  # further sources [N, S], for places that become free
        self._part = -1  # the number of the part of them that is encoded; -1: none
        sources = self._encoded = encode(src)
        num_sentences, _, _, src_len = sources[0].bias.shape
        first = recordings.take(Shape(num_sentences, beam_size, src_len, FIRST_CAPACITY), sources)
        steps = self._steps = [first]  # a list, because `finalize` must not refer to this object
        weakref.finalize(self, lambda: recordings.give_back(steps[0]))

    @property
    def step(self) -> StaticStep:
        """The current caches with their recording."""
        return self._steps[0]

    def __call__(self, last: Tensor, positions: Tensor, length: int) -> Tensor:
        """Return the scores [R, V] of the tokens after `last` [R], at `positions` [R]; the next call overwrites them.

        Rows at positions from `length` on compute something: nobody reads it.
        """
        if length > self.step.shape.capacity:
            shape = self.step.shape
            every = torch.arange(shape.num_sentences, device=last.device)
            self._move(shape._replace(capacity=2 * shape.capacity), every)
        step = self.step
        for cache in step.caches:
            cache.move_to(positions, length)
        if step.is_recorded:
            return step.replay(last)
        scores = self.compute(step.caches, last)
        step.num_steps += 1
        left = min(step.shape.capacity, self.max_len) - length
        if step.num_steps >= STEPS_BEFORE and left >= MIN_STEPS_LEFT and self.recordings.may_record:
            compute = functools.partial(self.compute, step.caches)
            self.recordings.try_to_record(step, compute, last, scores)
        return scores

    def admit(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Put sentences that wait into the first of `places`; return their numbers, counted from the first source.

        They are encoded in parts of as many sentences as the batch has places; a part is kept until all are admitted.
        """
        numbers = self.num_admitted - self._num_first + np.arange(len(places))
        numbers = numbers[numbers < len(self.waiting)]
        parts, in_part = np.divmod(numbers, self.step.shape.num_sentences)
        for part in np.unique(parts).tolist():
            if part != self._part:
                first = part * self.step.shape.num_sentences
                self._part = part
                self._encoded = self.encode(self.waiting[first : first + self.step.shape.num_sentences])
            chosen = parts == part
            to, from_ = (
                torch.from_numpy(each[chosen]).to(self.waiting.device) for each in (places[: len(numbers)], in_part)
            )
            for cache, sources in zip(self.step.caches, self._encoded, strict=True):
                cache.replace(to, sources.select(from_))
        self.num_admitted += len(numbers)
        return self._num_first + numbers

    def copy_rows(self, source: Tensor, target: Tensor) -> None:
        """Copy the target positions of row `source[i]` to row `target[i]`."""
        for cache in self.step.caches:
            cache.copy_rows(source, target)

    def select_sentences(self, sentences: Tensor) -> None:
        """Keep and reorder sentences with their hypotheses; `sentences` [B'] holds indices of current sentences."""
        self._move(self.step.shape._replace(num_sentences=len(sentences)), sentences)

    def _move(self, shape: Shape, sentences: Tensor) -> None:
        """Continue in caches of `shape`, with `sentences`."""
        before = self.step
        self._steps[0] = self.recordings.take(shape, [cache.sources.select(sentences) for cache in before.caches])
        for cache, old in zip(self.step.caches, before.caches, strict=True):
            cache.continue_from(old, sentences)
        self.recordings.give_back(before)
