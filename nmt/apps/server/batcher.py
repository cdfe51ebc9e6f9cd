"""Batch the requests of many clients, with one queue per model.

An idle engine starts at once with the waiting segments. Segments that arrive while all cores are busy form a batch as
soon as one is free: the busier the server, the larger the batches, without a timer. Clients take turns segment by
segment, so a short text does not wait for the end of a long one.

Threads translate, so that the event loop can serve others.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import NamedTuple

from nmt.apps.server.metrics import Metrics
from nmt.apps.server.requests import RequestError
from nmt.apps.server.threads import lower_priority
from nmt.base.errors import NmtError
from nmt.base.machine import num_cores
from nmt.translation import Translation
from nmt.translation.texts import SegmentedText
from nmt.translation.word_links import Details

log = logging.getLogger(__name__)

MAX_THREADS = 8  # maximum number of batches that are translated concurrently

QUEUE_TOKENS = 100_000  # maximum number of source tokens that wait for a model; beyond it, requests get 429

_FORGETTING = 0.9  # of the measured tokens and seconds, per batch
_FIRST_GUESS = 1000.0  # source tokens per second, as if measured for a second when the server starts
_SHARE = 0.5  # of the timeout that the queue may take: requests are also divided into sentences, and speed varies
_LONGEST_WAIT = 60.0  # maximum Retry-After, in seconds
_LARGE = 4  # a request of more than this part of the queue is large; large ones are counted apart from others


@dataclass(eq=False, slots=True)
class QueuedSegment:
    """A segment of a request, and the future of its translation, or of the RequestError that ends the request."""

    text: SegmentedText  # of one segment
    num_tokens: int
    num_alternatives: int
    finish: Callable[[Translation], Translation]  # as a part of its text
    with_details: bool = False
    with_flags: bool = False
    result: asyncio.Future[SegmentResult] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class SegmentResult(NamedTuple):
    """The translation of a segment with its alternatives, and details, if asked for."""

    translation: Translation
    details: Details | None = None


TranslateSegments = Callable[[Sequence[QueuedSegment]], list[SegmentResult]]


@dataclass(eq=False, slots=True)
class Job:
    """The segments of one request for one model."""

    segments: Sequence[QueuedSegment]
    is_large: bool
    num_taken: int = 0  # segments that have left the queue


class Batcher:
    """The queue of one model, and the threads that translate. Use it only from the event loop."""

    def __init__(self, name: str, translate: TranslateSegments, batch_tokens: int, timeout: float, metrics: Metrics):
        self.translate = translate
        self._batch_tokens = batch_tokens
        self._timeout = timeout
        self._refused = metrics.refused.labels("queue")
        self._src_tokens = metrics.src_tokens.labels(name)
        self._batch_segments = metrics.batch_segments.labels(name)
        self._waiting_tokens = metrics.queue_tokens.labels(name)
        self._num_cores = min(num_cores(), MAX_THREADS)
        self._num_busy = 0  # cores: a batch takes one per segment
        self._threads = ThreadPoolExecutor(self._num_cores, "nmt-serve", initializer=lower_priority)
        self._jobs: deque[Job] = deque()
        self._tokens = {False: 0, True: 0}  # that wait, of small and of large jobs
        self._num_measured, self._seconds = _FIRST_GUESS, 1.0  # source tokens of recent batches, and their time

    def submit(self, segments: Sequence[QueuedSegment]) -> Job:
        """Queue segments. RequestError (429) if the queue is full; an empty queue accepts any request.

        It is full, too, if what waits takes too much of the timeout: since clients take turns, all would get 503.
        Large jobs fill the queue only for each other: they take turns with small ones, which need not wait for them.
        """
        cost = sum(segment.num_tokens for segment in segments)
        limit = min(QUEUE_TOKENS, self._speed * _SHARE * self._timeout)
        is_large = cost > limit / _LARGE
        waiting = self._tokens[is_large]
        if waiting and waiting + cost > limit:
            self._refused.inc()
            wait = min(_LONGEST_WAIT, sum(self._tokens.values()) / self._speed)
            raise RequestError(429, "the server is busy: its queue is full", retry_after=wait)
        job = Job(segments, is_large)
        if segments:
            self._jobs.append(job)
            self._count(job, cost)
            self._dispatch()
        return job

    def cancel(self, job: Job) -> None:
        """Cancel a job: remove its waiting segments from the queue, and drop its running ones when they finish."""
        if job in self._jobs:
            self._jobs.remove(job)
            self._count(job, -sum(segment.num_tokens for segment in job.segments[job.num_taken :]))
        for segment in job.segments:
            segment.result.cancel()

    def close(self) -> None:
        """Stop the threads once they have finished."""
        self._threads.shutdown(wait=False)

    @property
    def _speed(self) -> float:
        """Source tokens per second. Long batches count for more than the short ones of a quiet time."""
        return self._num_measured / self._seconds

    def _count(self, job: Job, tokens: int) -> None:
        self._tokens[job.is_large] += tokens
        self._waiting_tokens.inc(tokens)

    def _dispatch(self) -> None:
        """Start batches while a core is idle. A batch of one text leaves cores for others, a large one does not."""
        loop = asyncio.get_running_loop()
        while self._num_busy < self._num_cores and self._jobs:
            batch = self._take()
            self._num_busy += len(batch)
            self._threads.submit(self._work, loop, batch)

    def _take(self) -> list[QueuedSegment]:
        """Take segments up to the batch size, one from each job in turn."""
        batch: list[QueuedSegment] = []
        tokens = 0
        while self._jobs:
            job = self._jobs[0]
            segment = job.segments[job.num_taken]
            if batch and tokens + segment.num_tokens > self._batch_tokens:
                break
            tokens += segment.num_tokens
            self._count(job, -segment.num_tokens)
            batch.append(segment)
            job.num_taken += 1
            self._jobs.popleft()
            if job.num_taken < len(job.segments):
                self._jobs.append(job)
        return batch

    def _work(self, loop: asyncio.AbstractEventLoop, batch: list[QueuedSegment]) -> None:
        """Translate a batch in a thread."""
        started = time.perf_counter()
        results = self._translate_all(batch)
        loop.call_soon_threadsafe(self._finish, batch, results, time.perf_counter() - started)

    def _finish(
        self, batch: list[QueuedSegment], results: Sequence[SegmentResult | RequestError], seconds: float
    ) -> None:
        self._num_busy -= len(batch)
        tokens = sum(segment.num_tokens for segment in batch)
        self._num_measured = _FORGETTING * self._num_measured + tokens
        self._seconds = _FORGETTING * self._seconds + seconds
        self._src_tokens.inc(tokens)
        self._batch_segments.observe(len(batch))
        for segment, result in zip(batch, results, strict=True):
            if segment.result.cancelled():
                continue
            if isinstance(result, RequestError):
                segment.result.set_exception(result)
                segment.result.exception()  # avoid a warning if the request is gone or waits for an earlier segment
            else:
                segment.result.set_result(result)
        self._dispatch()

    def _translate_all(self, segments: list[QueuedSegment]) -> Sequence[SegmentResult | RequestError]:
        """Translate. If it fails, translate segment by segment, so that one request does not fail others."""
        try:
            return self.translate(segments)
        except Exception as error:
            if len(segments) > 1:
                return [result for segment in segments for result in self._translate_all([segment])]
            if isinstance(error, NmtError):
                return [RequestError(503, error.message, retry_after=1)]
            log.exception("cannot translate a text")
            return [RequestError(500, "cannot translate this text")]
