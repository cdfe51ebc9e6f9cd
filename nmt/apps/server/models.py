"""The models of a server: loaded once, shared by all requests, unloaded to stay within the memory limit."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import lru_cache

from nmt.apps.documents.details import explain
from nmt.apps.documents.translation import flags_of
from nmt.apps.server.batcher import Batcher, Pace, QueuedSegment, SegmentResult
from nmt.apps.server.metrics import Metrics
from nmt.apps.server.settings import Settings
from nmt.artifacts.find_model import find_run
from nmt.artifacts.rundir import RunDir
from nmt.base.errors import NmtError, RunError
from nmt.base.languages import Direction
from nmt.config import SearchOptions
from nmt.data.text.glossary import TERM_SYMBOLS
from nmt.data.tokens.tokenizer import TokenizerPair
from nmt.translation import LanguagePair, Translator

log = logging.getLogger(__name__)


class Loaded:
    """A model in memory, with its queue."""

    def __init__(self, translator: Translator, name: str, settings: Settings, metrics: Metrics, pace: Pace):
        self.translator = translator
        self.batcher = Batcher(name, self.translate, settings.batch_tokens, metrics, pace)
        self._options = lru_cache(self._make_options)

    def translate(self, segments: Sequence[QueuedSegment]) -> list[SegmentResult]:
        """Translate `segments`, in order; those with the same number of alternatives in one call."""
        results: dict[int, SegmentResult] = {}
        for num_alternatives in {segment.num_alternatives for segment in segments}:
            numbers = [i for i, segment in enumerate(segments) if segment.num_alternatives == num_alternatives]
            texts = [segments[i].text for i in numbers]
            translations = self.translator.translate_segmented(texts, self._options(num_alternatives))
            for i, text, translation in zip(numbers, texts, translations, strict=True):
                is_explained = segments[i].with_details and translation.text.strip()
                details = explain(self.translator, text.text, text.direction, translation) if is_explained else None
                results[i] = SegmentResult(translation, flags_of(translation), details)
        return [results[i] for i in range(len(segments))]

    def _make_options(self, num_alternatives: int) -> SearchOptions:
        """Return the model's own search options, with a beam large enough for the alternatives."""
        options = self.translator.options
        if not num_alternatives:
            return options.changed(num_hypotheses=1)
        beam_size = max(options.beam_size, num_alternatives + 1)
        return options.greedy().changed(beam_size=beam_size, num_hypotheses=num_alternatives + 1, exact=options.exact)

    def close(self) -> None:
        """Stop the threads once they have finished."""
        self.batcher.close()
        self.translator.close()


class ServedModel:
    """A model of the server: its name and languages, and the loaded model while it is in memory."""

    def __init__(self, model: RunDir, name: str):
        self.model = model
        self.name = name
        languages, weights = LanguagePair.from_config(model.config()), model.usable_checkpoint()
        self.directions = languages.directions or (Direction(languages.src, languages.tgt),)
        self.obeys_terms = TokenizerPair.load(model.tokenizer).know(TERM_SYMBOLS)
        try:
            self.size = weights.stat().st_size
        except OSError as error:
            raise RunError(f"cannot be read ({error.strerror or error})", path=weights) from None
        self.loaded: Loaded | None = None
        self.num_users = 0
        self.last_use = 0.0
        self.leaving = False  # being unloaded: new requests wait until it is done
        self.idle = asyncio.Event()
        self.idle.set()


class Models:
    """All models of a server, by direction and by name. Once the event loop runs, use it only from there."""

    def __init__(self, paths: Sequence[str | None], settings: Settings, metrics: Metrics):
        """Find the models of `paths` (None: the default model), and load them in order as far as the limit allows.

        NmtError if a model cannot be used, or is larger than the limit.
        """
        self._settings = settings
        self._metrics = metrics
        self._loading = asyncio.Lock()
        self._pace = Pace()
        self.served: list[ServedModel] = []
        for path in paths:
            model = find_run(path)
            name = model.path.resolve().name
            num_same = sum(served.name.partition("#")[0] == name for served in self.served)
            self.served.append(ServedModel(model, f"{name}#{num_same + 1}" if num_same else name))
        self._by_direction: dict[Direction, ServedModel] = {}
        total, limit = 0, settings.memory_limit
        for served in self.served:
            for direction in served.directions:
                self._by_direction.setdefault(direction, served)
            if limit and served.size > limit:
                message = f"larger than the memory limit: {served.size:,} bytes"
                raise NmtError(message, path=served.model.path, hint="raise --memory-limit")
            total += served.size
            if not limit or total <= limit:
                served.loaded = self._load(served)

    @property
    def directions(self) -> list[Direction]:
        """All directions, in the order of the models."""
        return list(self._by_direction)

    def by_direction(self, direction: Direction) -> ServedModel | None:
        """Return the first model for this direction."""
        return self._by_direction.get(direction)

    def by_name(self, name: str) -> ServedModel | None:
        """Return the model with this name."""
        return next((served for served in self.served if served.name == name), None)

    @asynccontextmanager
    async def use(self, served: ServedModel) -> AsyncIterator[Loaded]:
        """Yield a loaded model, which stays in memory until the block ends. NmtError if it cannot be loaded."""
        loaded = await self.acquire(served)
        try:
            yield loaded
        finally:
            self.release(served)

    async def acquire(self, served: ServedModel) -> Loaded:
        """Return a loaded model, which stays in memory until it is released. NmtError if it cannot be loaded."""
        loaded = served.loaded
        if loaded is None or served.leaving:
            await self._loading.acquire()
            task = asyncio.create_task(self._load_and_use(served))
            try:
                return await asyncio.shield(task)
            except asyncio.CancelledError:
                task.add_done_callback(
                    lambda task: None if task.cancelled() or task.exception() else self.release(served)
                )
                raise
        return self._count_user(served, loaded)

    def release(self, served: ServedModel) -> None:
        """Allow a model to be unloaded, unless others have acquired it."""
        served.num_users -= 1
        if not served.num_users:
            served.idle.set()

    async def _load_and_use(self, served: ServedModel) -> Loaded:
        """Load a model unless others have, and count a user; release the lock.

        A task of its own, because its thread goes on, and takes memory, even if the client is gone.
        """
        try:
            if (loaded := served.loaded) is None:
                await self._make_room(served.size)
                loaded = served.loaded = await asyncio.to_thread(self._load, served)
            return self._count_user(served, loaded)
        finally:
            self._loading.release()

    def _count_user(self, served: ServedModel, loaded: Loaded) -> Loaded:
        served.num_users += 1
        served.idle.clear()
        served.last_use = time.monotonic()
        return loaded

    def close(self) -> None:
        """Unload all models."""
        for served in self.served:
            self._unload(served)

    def _load(self, served: ServedModel) -> Loaded:
        engine, device, precision = self._settings.engine, self._settings.device, self._settings.precision
        translator = Translator.load(served.model, engine=engine, device=device, precision=precision, scores=False)
        self._metrics.model_loads.labels(served.name).inc()
        self._metrics.models_loaded.inc()
        return Loaded(translator, served.name, self._settings, self._metrics, self._pace)

    def _unload(self, served: ServedModel) -> None:
        if (loaded := served.loaded) is not None:
            served.loaded = None
            loaded.close()
            self._metrics.models_loaded.dec()

    async def _make_room(self, size: int) -> None:
        """Unload the least recently used models, once their requests are done, until `size` fits."""
        limit = self._settings.memory_limit
        while limit:
            others = [served for served in self.served if served.loaded is not None]
            if sum(served.size for served in others) + size <= limit:
                return
            oldest = min(others, key=lambda served: served.last_use)
            oldest.leaving = True
            try:
                await oldest.idle.wait()
                self._unload(oldest)
            finally:
                oldest.leaving = False
            log.info("unloaded %s: memory is limited to %s bytes", oldest.name, f"{limit:,}")
