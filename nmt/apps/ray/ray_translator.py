"""Translate blocks of texts in the worker processes of a Ray cluster, in order, even if workers die."""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from nmt.apps.ray.ray_cluster import Shares, connected, share_out
from nmt.apps.ray.ray_worker import ModelPaths, Result, Worker, WorkerInfo
from nmt.artifacts.rundir import RunDir
from nmt.base.errors import NmtError, in_words
from nmt.translation.blocks import Request, TranslatedBlock
from nmt.translation.languages import LanguagePair
from nmt.translation.translator import Translator, shared_tokenizers

log = logging.getLogger(__name__)

MAX_RETRIES = 5
"""Retries of a block whose worker died, before the block is assumed to be the cause."""

_BLOCKS_PER_WORKER = 2  # the next block is already queued at the worker, so that it is never idle
_WINDOW_PER_WORKER = 4  # finished blocks that wait for an earlier one stay in memory
_PATIENCE_SECONDS = 60.0


@dataclass
class _WorkerState:
    """A worker, with statistics of its work."""

    actor: Any
    info: WorkerInfo
    num_lines: int = 0
    seconds: float = 0.0


@dataclass
class _Job:
    """A block that is assigned to a worker, or was."""

    texts: list[str]
    first: int
    worker: _WorkerState
    reference: Any
    done: bool = False


@contextmanager
def ray_translator(
    models: Sequence[RunDir], paths: ModelPaths, address: str, num_workers: int | None
) -> Iterator[RayTranslator]:
    """Yield a translator whose workers, in the Ray cluster at `address`, have loaded `models` from `paths`.

    At the end, log the speed of each worker. NmtError if Ray is not installed, there is no cluster, or a worker cannot
    load the model.
    """
    with connected(address, num_workers) as ray:
        translator = RayTranslator(ray, models, paths, share_out(ray, num_workers, paths.device))
        try:
            yield translator
        finally:
            translator.log_rates()


class RayTranslator:
    """A translator of blocks in the workers of a Ray cluster."""

    local: Translator | None = None

    def __init__(self, ray: Any, models: Sequence[RunDir], paths: ModelPaths, shares: Shares):
        """Start the workers and wait until each has loaded the model."""
        config = models[0].config()
        self.tokenizers = shared_tokenizers(models)
        self.languages, self.options = LanguagePair.of(config), config.decoding
        self._ray = ray
        self._shares = shares
        self._workers = self._start(paths)
        self.precision = self._same("precision")
        self.max_src_len: int = self._workers[0].info.max_src_len

    def translate_blocks(
        self, blocks: Iterable[list[str]], request: Request, first: int = 1
    ) -> Iterator[TranslatedBlock]:
        """Yield each of `blocks` with its translations, in order, while the workers translate the next ones.

        NmtError if workers repeatedly die of the same block.
        """
        source = (block for block in blocks if block)
        window: deque[_Job] = deque()  # in order; finished blocks may be waiting for the first one
        while True:
            while (worker := self._idle_worker(window)) is not None and (texts := next(source, None)) is not None:
                window.append(_Job(texts, first, worker, worker.actor.translate.remote(texts, request, first)))
                first += len(texts)
            if not window:
                return
            if window[0].done:
                job = window.popleft()
                yield job.texts, self._translations(job)
            else:
                self._wait([job for job in window if not job.done])

    def log_rates(self) -> None:
        """Log how many lines each worker translated, and how fast."""
        for number, worker in enumerate(self._workers, 1):
            rate = worker.num_lines / worker.seconds if worker.seconds else 0.0
            threads = self._shares.num_cpus
            place = f"{worker.info.host}, {threads} {'thread' if threads == 1 else 'threads'}"
            log.info("Ray worker %d (%s): %s lines, %s lines/s", number, place, f"{worker.num_lines:,}", f"{rate:,.1f}")

    def _start(self, paths: ModelPaths) -> list[_WorkerState]:
        from nmt import __version__

        count, num_cpus, num_gpus = self._shares
        remote = self._ray.remote(num_cpus=num_cpus, num_gpus=num_gpus, max_restarts=-1, max_task_retries=MAX_RETRIES)(
            Worker
        )
        actors = [remote.remote(paths, num_cpus, __version__) for _ in range(count)]
        references = [actor.load.remote() for actor in actors]
        self._wait_for(references, len(references), "waiting for free CPUs or GPUs in the Ray cluster")
        infos = [self._get(reference, "while it loaded the model") for reference in references]
        return [_WorkerState(actor, info) for actor, info in zip(actors, infos, strict=True)]

    def _idle_worker(self, window: Sequence[_Job]) -> _WorkerState | None:
        """Return the worker with the fewest of the blocks in `window`; None if no more blocks may start."""
        if len(window) >= _WINDOW_PER_WORKER * len(self._workers):
            return None
        counts = Counter(id(job.worker) for job in window if not job.done)
        worker = min(self._workers, key=lambda each: counts[id(each)])
        return worker if counts[id(worker)] < _BLOCKS_PER_WORKER else None

    def _wait(self, jobs: Sequence[_Job]) -> None:
        """Wait until one of `jobs` is done."""
        ready = self._wait_for([job.reference for job in jobs], 1, "waiting for Ray workers")
        for job in jobs:
            job.done = job.done or job.reference in ready

    def _wait_for(self, references: list[Any], count: int, message: str) -> list[Any]:
        ready: list[Any] = []
        while len(ready) < count:
            ready, _ = self._ray.wait(references, num_returns=count, timeout=_PATIENCE_SECONDS)
            if len(ready) < count:
                log.warning(message)
        return ready

    def _translations(self, job: _Job) -> Any:
        last = job.first + len(job.texts) - 1
        result: Result = self._get(job.reference, f"while it translated the lines {job.first:,} to {last:,}")
        job.worker.num_lines += len(job.texts)
        job.worker.seconds += result.seconds
        return result.translations

    def _get(self, reference: Any, when: str) -> Any:
        """Return the result of a call; raise the NmtError that it returned."""
        try:
            result = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            fault = str(error).strip().splitlines() or [type(error).__name__]
            hint = "it may have run out of memory, or nmt is not installed there; see Ray's logs (ray logs)"
            raise NmtError(f"a Ray worker failed {when}: {fault[-1].strip()}", hint=hint) from None
        if isinstance(result, NmtError):
            raise result
        return result

    def _same(self, name: str) -> str:
        """Return the value that all workers share. NmtError if they differ, because translations might then differ."""
        values = sorted({str(getattr(worker.info, name)) for worker in self._workers})
        if len(values) > 1:
            hint = "set --engine, --device and --precision, so that all compute alike"
            raise NmtError(f"the Ray workers differ in {name}: {in_words(values)}", hint=hint)
        return values[0]
