"""Translate texts segment by segment; all APIs of the server call this."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from functools import partial
from itertools import groupby
from operator import mul
from typing import NamedTuple, TypeVar

from nmt.apps.server.access import Key
from nmt.apps.server.batcher import QueuedSegment
from nmt.apps.server.bodies import Detection
from nmt.apps.server.corrections import Corrections, pairs_in
from nmt.apps.server.detect import has_letters, may_be_known, without_markup
from nmt.apps.server.metrics import Metrics
from nmt.apps.server.models import Models, ServedModel, Step
from nmt.apps.server.requests import RequestError
from nmt.apps.server.routes import Routed, Routes
from nmt.apps.server.settings import Settings
from nmt.apps.server.threads import QUICK_CHARACTERS, Threads, Turns
from nmt.base.languages import Direction
from nmt.base.rounds import await_together
from nmt.data.check.scripts import form_of_chinese
from nmt.data.text.glossary import Term, missed_terms
from nmt.translation import Translation, Translator
from nmt.translation.chain import look_up
from nmt.translation.memory import TranslationMemory
from nmt.translation.request import Request
from nmt.translation.segments import MemoryMatch
from nmt.translation.texts import SegmentedText
from nmt.translation.through_models import TextToTranslate
from nmt.translation.translation import Flags, merge, union
from nmt.translation.word_links import Details

_NUM_PAGE_THREADS = 4  # that read and write long HTML, XML and blocks of documents

MAX_WAITING_CHARACTERS = 1_000_000  # of long texts that wait to be segmented; beyond it, requests get 429
_RETRY_SECONDS = 5.0

Result = TypeVar("Result")


_AS_IT_IS = Routed("", ())  # a text that is not translated


class TranslatedSegment(NamedTuple):
    """The translation of one segment of a text; `before` and `after` are the white space around it."""

    text_number: int  # from 0
    before: str
    translation: Translation
    after: str
    flags: Flags
    details: Details | None
    expected_chrf: float | None = None
    memory: MemoryMatch | None = None  # of the whole text, in its first segment

    def written(self, rank: int) -> str:
        """Return alternative number `rank`, or the last one, with the white space around it; 0: the translation."""
        alternatives = self.translation.alternatives[:rank]
        return self.before + (alternatives[-1] if alternatives else self.translation).text + self.after


class TextTranslation(NamedTuple):
    """The translation of one text, joined from its segments."""

    text: str
    alternatives: list[str]
    segments: list[TranslatedSegment]
    terms_missed: list[Term]
    flags: Flags
    expected_chrf: float | None = None
    memory: MemoryMatch | None = None  # the most similar pair of the translation memory


class _Task(NamedTuple):
    """A text to translate next with one model, for a text of a request."""

    number: int  # of that text
    ask: TextToTranslate[Step]
    request: Routed
    is_whole: bool = False  # not divided into segments, because all of it is needed


Part = tuple[SegmentedText, str]
"""A segment, and the white space after it."""


class Service:
    """Translates for all clients of one server."""

    def __init__(self, models: Models, settings: Settings, metrics: Metrics, keys: Mapping[bytes, Key]):
        """Read the translation memories of the settings and of `keys`. DataError if one cannot be used."""
        self.settings = settings
        self.metrics = metrics
        path = settings.corrections
        self._corrections = None if path is None else Corrections(path)
        self.routes = Routes(models, keys, settings)
        self.turns = Turns()
        self.pages = Threads(_NUM_PAGE_THREADS)
        self._thread, self._waiting_characters = Threads(1), 0  # one, so that the event loop gets half of Python's time

    async def correct(self, client: bytes, languages: Direction, text: str, correct: str) -> None:
        """Keep the correct translation of a text on the disk, then use it. RequestError if it cannot be kept.

        A client with a memory of its own shares its corrections with nobody: they have a file of their own, too.
        """
        if self._corrections is None:
            raise RequestError(403, "this server does not collect corrections")
        routes = self.routes
        path = routes.path(languages.src, languages.tgt, None)
        if not (path and text.strip() and correct.strip()):
            raise RequestError(400, "Invalid request: q or s is blank, or source and target are one language")
        pairs = pairs_in(languages, text, correct)
        owner = client if client in routes.memories else b""
        await (self._corrections.own if owner else self._corrections).add(languages, pairs)
        if (memories := routes.memories.get(owner)) is None:
            return
        memory = memories.setdefault(Direction(path[0][0].src, path[-1][0].tgt), TranslationMemory(()))
        for source, target in pairs:
            memory.add(source, target)

    def check_size(self, texts: Sequence[str], *others: str) -> None:
        """Raise RequestError (400) for too many texts, or too many characters in them and in what `others` are sent."""
        limits = self.settings
        if len(texts) > limits.batch_limit:
            raise RequestError(400, f"{len(texts):,} texts in one request; the limit is {limits.batch_limit:,}")
        size = sum(map(len, [*texts, *others]))
        if size > limits.char_limit:
            raise RequestError(400, f"{size:,} characters in one request; the limit is {limits.char_limit:,}")

    async def route_all(
        self,
        texts: Sequence[str],
        source: str,
        target: str,
        client: bytes,
        model: ServedModel | None = None,
        *,
        are_pages: bool = False,
    ) -> tuple[list[Routed], list[Detection] | None]:
        """Return `texts` as `route` does, and if the `source` is auto, their languages: of pages, those of their words.

        Those in the language of the target, or in none that can be translated into it, stay as they are.
        """
        routes = self.routes
        if source != "auto":
            routed = routes.route(source, target, client, model)
            return [routed._replace(text=text) for text in texts], None
        routes.check_target(target, model)

        def detect(text: str) -> tuple[Routed, Detection]:
            words = without_markup(text) if are_pages else text
            detections = routes.detector.detect(words)
            found = detections[0]
            routed = _AS_IT_IS
            if may_be_known(detections) or not has_letters(words):
                with suppress(RequestError):  # nothing leads from this language into the target
                    routed = routes.route(found["language"], target, client, model)
            return routed._replace(text=text), found

        detected = await self._run(sum(map(len, texts)), lambda: [*map(detect, texts)])
        return [routed for routed, _ in detected], [found for _, found in detected]

    async def segments(
        self, texts: Sequence[Routed], num_alternatives: int = 0, *, details: bool = False
    ) -> AsyncGenerator[TranslatedSegment]:
        """Yield the translations of all segments of `texts`, in order within each model.

        RequestError if the queue is full or a segment fails. Closing the iterator cancels the rest. Texts that the
        memory has come first, untranslated. Texts that lead through a third language are translated into it first, all
        together.
        """
        num_characters = sum(len(text.text) for text in texts)
        found = await await_together(
            [text.through_models() for text in texts], self._between, partial(self._run, num_characters)
        )
        tasks: list[_Task] = []
        for number, (text, way) in enumerate(zip(texts, found, strict=True)):
            if isinstance(way, TextToTranslate):
                tasks.append(_Task(number, way, text))
                continue
            before, after = _white_space_around(text.text)
            flags = way.flags if text.flags else {}
            yield TranslatedSegment(number, before, way, after, flags, None, memory=way.memory)
        async with aclosing(self._search(tasks, num_alternatives, details=details)) as segments:
            async for segment in segments:
                yield segment

    async def _between(self, asks: list[TextToTranslate[Step]]) -> list[Translation]:
        """Return the translations of `asks`, which are not the last, each of the whole text."""
        found = [Translation("")] * len(asks)
        tasks = [_Task(number, ask, _AS_IT_IS, is_whole=True) for number, ask in enumerate(asks)]
        async with self.in_time(), aclosing(self._search(tasks)) as texts:
            async for text in texts:
                found[text.text_number] = text.translation
        return found

    async def _search(
        self, tasks: Sequence[_Task], num_alternatives: int = 0, *, details: bool = False
    ) -> AsyncGenerator[TranslatedSegment]:
        """Yield the translations of the segments of `tasks`, model by model."""
        for served in dict.fromkeys(task.ask.model[1] for task in tasks):
            of_model = [task for task in tasks if task.ask.model[1] is served]
            divided = [*zip(of_model, await self._divide(served.translator, of_model), strict=True)]
            queued = [
                QueuedSegment(
                    part,
                    max(1, part.num_tokens),
                    num_alternatives,
                    task.ask.finish,
                    with_details=details and task.ask.through is None,  # words would be linked to another text
                    with_flags=task.request.flags,
                )
                async for task, (_, parts) in self.turns.each(divided)
                for part, _ in parts
                if part.known is None
            ]
            job = served.batcher.submit(queued)
            try:
                rest = iter(queued)
                async for task, (before, parts) in self.turns.each(divided):
                    match = task.ask.match
                    for part, after in parts:
                        if part.known is not None:
                            translation = Translation(part.known.target, memory=part.known)
                            explained = None
                            match = part.known if match is None or len(parts) == 1 else match
                        else:
                            translation, explained = await next(rest).result
                        flags = flags_of(translation, task.request)
                        expected = translation.expected_chrf if task.request.flags else None
                        yield TranslatedSegment(
                            task.number, before, translation, after, flags, explained, expected, match
                        )
                        before = ""
                        match = None
            finally:
                served.batcher.cancel(job)

    async def _divide(self, translator: Translator, tasks: Sequence[_Task]) -> list[tuple[str, list[Part]]]:
        """Return the white space before the text of each task, and its parts."""

        def divide() -> list[tuple[str, list[Part]]]:
            segmented: list[SegmentedText] = []
            for ((src, tgt), glossary), same in groupby(tasks, key=lambda task: (task.ask.model[0], task.ask.glossary)):
                request = Request(translator.options, to=tgt, from_=src, glossary=glossary)
                segmented += translator.segment([task.request.symbol + task.ask.text for task in same], request)
            divided: list[tuple[str, list[Part]]] = []
            for (_, ask, routed, is_whole), text in zip(tasks, segmented, strict=True):
                if ask.match is not None:
                    translator.segmenter.add_draft(text, ask.match.target)
                if routed.memory is not None and ask.through is None:
                    text = look_up(text, routed.memory)
                if text.known is None and (len(text.segments) == 1 or (is_whole and text.segments)):
                    divided.append(("", [(text, "")]))  # its translation includes the white space around it
                else:
                    divided.append((text.lead, text.separate()))
            return divided

        return await self._run(sum(len(task.ask.text) for task in tasks), divide)

    async def _run(self, size: int, work: Callable[[], Result]) -> Result:
        """Return `work()`, which reads `size` characters: in the event loop if they are few, else in a thread, in turn.

        RequestError (429) if too much waits for that thread.
        """
        if size <= QUICK_CHARACTERS:
            return work()
        if self._waiting_characters and self._waiting_characters + size > MAX_WAITING_CHARACTERS:
            self.metrics.refused.labels("queue").inc()
            raise RequestError(429, "the server is busy: its queue is full", retry_after=_RETRY_SECONDS)
        self._waiting_characters += size
        try:
            return await self._thread.run(work)
        finally:
            self._waiting_characters -= size

    async def translate(
        self, texts: Sequence[Routed], num_alternatives: int = 0, *, details: bool = False
    ) -> list[TextTranslation]:
        """Return the translations of `texts`. RequestError as `segments`, and (503) if they take too long.

        Alternative n of a text consists of alternative n of each segment, or of its last.
        """
        of_text: list[list[TranslatedSegment]] = [[] for _ in texts]
        async with self.in_time(), aclosing(self.segments(texts, num_alternatives, details=details)) as segments:
            async for segment in segments:
                of_text[segment.text_number].append(segment)
        return [_join(segments) async for segments in self.turns.each(of_text)]

    @asynccontextmanager
    async def in_time(self) -> AsyncIterator[None]:
        """Raise RequestError (503) if the block takes too long."""
        try:
            async with asyncio.timeout(self.settings.timeout):
                yield
        except TimeoutError:
            self.metrics.refused.labels("time").inc()
            raise RequestError(
                503,
                f"this took longer than {self.settings.timeout:g} seconds; send shorter texts, or ask for a stream",
                retry_after=10,
            ) from None


def _white_space_around(text: str) -> tuple[str, str]:
    return text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :] if text.strip() else ""


def _join(segments: list[TranslatedSegment]) -> TextTranslation:
    num_ranks = max((len(segment.translation.alternatives) for segment in segments), default=0) + 1
    text, *alternatives = ["".join(segment.written(rank) for segment in segments) for rank in range(num_ranks)]
    missed = [term for segment in segments for term in segment.translation.terms_missed]
    if missed and segments[0].translation.through is not None:  # each segment names those of the whole text
        missed = missed_terms(union(missed), text)
    flags = merge([segment.flags for segment in segments])
    memory = segments[0].memory if segments else None
    return TextTranslation(text, alternatives, segments, missed, flags, _expected_chrf(segments), memory)


def _expected_chrf(segments: list[TranslatedSegment]) -> float | None:
    """Return the mean over the target tokens; None if it is unknown for a segment."""
    searched = [segment for segment in segments if segment.translation.src_ids]
    known = [segment.expected_chrf for segment in searched if segment.expected_chrf is not None]
    if not known or len(known) < len(searched):
        return None
    sizes = [len(segment.translation.tgt_ids) + 1 for segment in searched]
    return sum(map(mul, known, sizes)) / sum(sizes)


def with_signs(flags: Flags | None, expected_chrf: float | None = None) -> dict[str, Flags | float]:
    """Return the fields of an answer that hold the flags, if one is set, and the expected chrF, if it is known."""
    expected = {} if expected_chrf is None else {"expected_chrf": round(expected_chrf, 2)}
    return {**({"flags": flags} if flags else {}), **expected}


def flags_of(translation: Translation, text: Routed) -> Flags:
    """Return the flags that the request of `text` asks for; a third language is always named.

    A translation in another form of Chinese than the request names is in the wrong language.
    """
    if not text.flags:
        return {"pivot": translation.pivot} if translation.pivot else {}
    if text.form is None or form_of_chinese(translation.text) in (None, text.form):
        return translation.flags
    return {**translation.flags, "wrong_language": True}
