"""Batch the requests of many clients, with one queue per model.

An idle engine starts at once with the waiting units. Units that arrive while all cores are busy form a batch as soon as
one is free: the busier the server, the larger the batches, without a timer. Clients take turns unit by unit, so a short
text does not wait for the end of a long one.

Threads translate, so that the event loop can serve others. But if requests have come one at a time for a while, the
event loop translates short texts itself, because waking a thread and waiting for it takes a tenth of their time.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from nmt.apps.server.metrics import Metrics
from nmt.apps.server.request_error import RequestError
from nmt.apps.server.settings import Settings
from nmt.apps.server.units import Unit, UnitTranslation
from nmt.base.errors import NmtError
from nmt.base.machine import num_cores

log = logging.getLogger(__name__)

MAX_THREADS = 8
"""Maximum number of batches that are translated concurrently."""

_SMOOTHING = 0.9  # of the measured speed
_FIRST_GUESS = 1000.0  # source tokens per second, until the first batch is measured
_LONGEST_WAIT = 60.0  # maximum Retry-After, in seconds
_LARGE = 4  # a request of more than this part of the queue is large; large ones are counted apart from others
_LONE_SECONDS = 0.005  # expected time up to which the event loop translates a lone text itself
_PROBE_EVERY = 16  # lone texts: one of them is translated in a thread, which shows if others come meanwhile

TranslateUnits = Callable[[Sequence[Unit]], list[UnitTranslation]]


class Job:
    """The units of one request for one model. `results` are their translations, or RequestError, as futures."""

    def __init__(self, units: Sequence[Unit], is_large: bool):
        loop = asyncio.get_running_loop()
        self.units = units
        self.is_large = is_large
        self.num_taken = 0
        self.results: list[asyncio.Future[UnitTranslation]] = [loop.create_future() for _ in units]

    @property
    def waiting_tokens(self) -> int:
        """The number of source tokens that no engine has taken yet."""
        return sum(unit.num_tokens for unit in self.units[self.num_taken :])

    def settle(self, number: int, result: UnitTranslation | RequestError) -> None:
        """Give unit `number` its translation, or the error that ends the request."""
        future = self.results[number]
        if future.done():
            return
        if isinstance(result, RequestError):
            future.set_exception(result)
            future.exception()  # avoid a warning if the request is gone or still waits for an earlier unit
        else:
            future.set_result(result)

    def cancel(self) -> None:
        """Cancel the unfinished units."""
        for future in self.results:
            future.cancel()


class _Place(NamedTuple):
    """A unit of a job."""

    job: Job
    number: int

    @property
    def unit(self) -> Unit:
        return self.job.units[self.number]


class Pace:
    """The number of unfinished units of a server, and how many units came one at a time. All its models share it."""

    def __init__(self) -> None:
        self.num_unfinished = 0
        self.num_alone = 0  # since the last unit that came together with others, or before these were finished

    def add(self, num_units: int) -> None:
        """Count the units of a new job."""
        self.num_alone = self.num_alone + 1 if num_units == 1 and not self.num_unfinished else 0
        self.num_unfinished += num_units

    def remove(self, num_units: int) -> None:
        """Count finished or canceled units."""
        self.num_unfinished -= num_units

    @property
    def is_calm(self) -> bool:
        """True if the only unfinished unit, like those before it, probably has the server to itself."""
        return self.num_unfinished == 1 and self.num_alone > _PROBE_EVERY and self.num_alone % _PROBE_EVERY != 0


class Batcher:
    """The queue of one model, and the threads that translate. Use it only from the event loop."""

    def __init__(
        self, name: str, translate: TranslateUnits, settings: Settings, metrics: Metrics, pace: Pace | None = None
    ):
        self._translate = translate
        self._settings = settings
        self._metrics = metrics.of_model(name)
        self._pace = pace or Pace()
        self._num_cores = min(num_cores(), MAX_THREADS)
        self._num_busy = 0  # cores: a batch takes one per unit
        self._threads = ThreadPoolExecutor(self._num_cores, "nmt-serve")
        self._jobs: deque[Job] = deque()
        self._queue_tokens = 0
        self._large_tokens = 0  # part of the above: those of large jobs
        self._speed = 0.0  # source tokens per second
        self._timer: asyncio.TimerHandle | None = None

    def submit(self, units: Sequence[Unit]) -> Job:
        """Queue units. RequestError (429) if the queue is full; an empty queue accepts any request.

        Large jobs fill the queue only for each other: they take turns with small ones, which need not wait for them.
        """
        cost, limit = sum(unit.num_tokens for unit in units), self._settings.queue_tokens
        is_large = cost > limit // _LARGE
        waiting = self._large_tokens if is_large else self._queue_tokens - self._large_tokens
        if waiting and waiting + cost > limit:
            self._metrics.full.inc()
            wait = min(_LONGEST_WAIT, self._queue_tokens / (self._speed or _FIRST_GUESS))
            raise RequestError(429, "the server is busy: its queue is full", retry_after=wait)
        job = Job(units, is_large)
        if units:
            self._jobs.append(job)
            self._count(cost, is_large * cost)
            self._pace.add(len(units))
            self._start()
        return job

    def cancel(self, job: Job) -> None:
        """Cancel a job: remove its waiting units from the queue, and drop its running ones when they finish."""
        if job in self._jobs:
            self._jobs.remove(job)
            self._count(-job.waiting_tokens, -job.is_large * job.waiting_tokens)
            self._pace.remove(len(job.units) - job.num_taken)
        job.cancel()

    def close(self) -> None:
        """Stop the threads once they have finished."""
        self._threads.shutdown(wait=False)

    def _count(self, tokens: int, large_tokens: int) -> None:
        self._queue_tokens += tokens
        self._large_tokens += large_tokens
        self._metrics.queue_tokens.set(self._queue_tokens)

    def _start(self) -> None:
        """Start to translate, or wait for more if the engine is idle and may wait."""
        wait = self._settings.batch_wait
        if wait and not self._num_busy and self._queue_tokens < self._settings.batch_tokens:
            if self._timer is None:
                self._timer = asyncio.get_running_loop().call_later(wait, self._dispatch)
        elif self._has_lone_text():
            asyncio.get_running_loop().call_soon(self._translate_lone_text)  # once other requests have been read
        else:
            self._dispatch()

    def _has_lone_text(self) -> bool:
        """Return whether the event loop itself should translate what is waiting."""
        if not (self._jobs and self._pace.is_calm):
            return False
        unit = self._jobs[0].units[0]
        return unit.wanted.is_plain and unit.num_tokens <= self._speed * _LONE_SECONDS

    def _translate_lone_text(self) -> None:
        if self._has_lone_text():
            batch = self._take()
            self._num_busy += 1
            self._finish(batch, *self._translate_batch(batch))
        else:
            self._dispatch()

    def _dispatch(self) -> None:
        """Start batches while a core is idle. A batch of one text leaves cores for others, a large one does not."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        loop = asyncio.get_running_loop()
        while self._num_busy < self._num_cores and self._jobs:
            batch = self._take()
            self._num_busy += len(batch)
            self._threads.submit(self._work, loop, batch)

    def _take(self) -> list[_Place]:
        """Take units up to the batch size, one from each job in turn."""
        batch: list[_Place] = []
        tokens = large_tokens = 0
        while self._jobs:
            job = self._jobs[0]
            place = _Place(job, job.num_taken)
            if batch and tokens + place.unit.num_tokens > self._settings.batch_tokens:
                break
            tokens += place.unit.num_tokens
            large_tokens += job.is_large * place.unit.num_tokens
            batch.append(place)
            job.num_taken += 1
            self._jobs.popleft()
            if job.num_taken < len(job.units):
                self._jobs.append(job)
        self._count(-tokens, -large_tokens)
        return batch

    def _work(self, loop: asyncio.AbstractEventLoop, batch: list[_Place]) -> None:
        """Translate a batch in a thread."""
        loop.call_soon_threadsafe(self._finish, batch, *self._translate_batch(batch))

    def _translate_batch(self, batch: list[_Place]) -> tuple[Sequence[UnitTranslation | RequestError], float]:
        """Return the translations of a batch, and the seconds that they took."""
        started = time.perf_counter()
        results = self._translate_all([place.unit for place in batch])
        return results, time.perf_counter() - started

    def _finish(self, batch: list[_Place], results: Sequence[UnitTranslation | RequestError], seconds: float) -> None:
        self._num_busy -= len(batch)
        self._pace.remove(len(batch))
        self._measure(batch, seconds)
        for place, result in zip(batch, results, strict=True):
            place.job.settle(place.number, result)
        self._dispatch()

    def _measure(self, batch: list[_Place], seconds: float) -> None:
        tokens = sum(place.unit.num_tokens for place in batch)
        speed = tokens / max(seconds, 1e-6)
        self._speed = _SMOOTHING * self._speed + (1 - _SMOOTHING) * speed if self._speed else speed
        self._metrics.src_tokens.inc(tokens)
        self._metrics.segments.observe(len(batch))
        self._metrics.seconds.observe(seconds)

    def _translate_all(self, units: list[Unit]) -> Sequence[UnitTranslation | RequestError]:
        """Translate. If it fails, translate unit by unit, so that one request does not fail others."""
        try:
            return self._translate(units)
        except Exception as error:
            if len(units) > 1:
                return [result for unit in units for result in self._translate_all([unit])]
            if isinstance(error, NmtError):
                return [RequestError(503, error.message, retry_after=1)]
            log.exception("cannot translate a text")
            return [RequestError(500, "cannot translate this text")]
