"""Translate texts segment by segment; all APIs of the server call this."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from functools import cache, lru_cache, partial
from importlib.util import find_spec
from itertools import groupby
from operator import mul
from typing import NamedTuple, TypeVar

from nmt.apps.server.access import Key
from nmt.apps.server.batcher import QueuedSegment
from nmt.apps.server.bodies import Detection
from nmt.apps.server.corrections import Corrections, pairs_in
from nmt.apps.server.detect import Detector, has_letters, without_markup
from nmt.apps.server.metrics import Metrics
from nmt.apps.server.models import Models, ServedModel, Step
from nmt.apps.server.requests import RequestError
from nmt.apps.server.settings import Settings
from nmt.apps.server.threads import QUICK_CHARACTERS, Threads, Turns
from nmt.base.errors import how_to_install, in_words
from nmt.base.languages import Direction, base_code, chinese_form, english_name, script_of
from nmt.base.rounds import await_together
from nmt.data.check.scripts import form_of_chinese
from nmt.data.text.glossary import Glossary, Term, missed_terms
from nmt.translation import Translation, Translator
from nmt.translation.chain import paths
from nmt.translation.memory import TranslationMemory
from nmt.translation.request import Request
from nmt.translation.texts import SegmentedText
from nmt.translation.through_models import TextToTranslate, ThroughModels, through_models
from nmt.translation.translation import Flags, MemoryMatch, merge, union
from nmt.translation.word_links import Details

log = logging.getLogger(__name__)

_NUM_PAGE_THREADS = 4  # that read and write long HTML, XML and blocks of documents

MAX_WAITING_CHARACTERS = 1_000_000  # of long texts that wait to be segmented; beyond it, requests get 429
_RETRY_SECONDS = 5.0

_MIN_CONFIDENCE = 1.0  # of 100, below which a text is in none of the languages of the server

_MAX_DIRECTIONS = 1000  # as clients spell them, of which the direction and model are remembered

Result = TypeVar("Result")


Memories = dict[bytes, dict[Direction, TranslationMemory]]  # by the hashes of the keys of clients


class Routed(NamedTuple):
    """A text with the directions and models that translate it, one or two in a row."""

    text: str
    path: Sequence[Step]
    glossary: Glossary | None = None
    form: str | None = None  # of Chinese characters, if the request names one and the model does not
    draft: str = ""  # a translation to expect
    flags: bool = False  # whether to check the translation, which takes a fifth as long as a sentence
    memory: TranslationMemory | None = None  # of the client
    symbol: str = ""  # a user symbol to read before the text, and a space

    @property
    def translators(self) -> list[Translator]:
        """The models."""
        return [model.translator for _, model in self.path]

    def through_models(self) -> ThroughModels[Step]:
        """Return the way of the text, which its memory may end; without a path, it stays as it is."""
        if not self.path:
            return Translation(self.text.strip())
        match = None if self.memory is None else self.memory.find(self.text)
        return (yield from through_models(self.text, self.path, match=match, glossary=self.glossary, draft=self.draft))


def ways(directions: Collection[Direction]) -> dict[Direction, Sequence[Direction]]:
    """Return `directions`, and those through a third language, each with the one or two that lead there."""
    direct: dict[Direction, Sequence[Direction]] = {direction: [direction] for direction in directions}
    return direct | paths(directions, directions) | direct


_AS_IT_IS = Routed("", ())  # a text that is not translated
_WHOLE = Routed("", ())  # of a text that is not divided into segments, because all of it is needed


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


class Service:
    """Translates for all clients of one server."""

    def __init__(self, models: Models, settings: Settings, metrics: Metrics, keys: Mapping[bytes, Key]):
        """Read the translation memories of the settings and of `keys`. DataError if one cannot be used."""
        self.settings = settings
        self.metrics = metrics
        path = settings.corrections
        self._corrections = None if path is None else Corrections(path)
        self.use(models, self.read_memories(models, keys))
        self.turns = Turns()
        self.pages = Threads(_NUM_PAGE_THREADS)
        self._thread, self._waiting_characters = Threads(1), 0  # one, so that the event loop gets half of Python's time

    def use(self, models: Models, memories: Memories) -> None:
        """Translate with these models and memories from the next request on; running ones keep those that they have."""
        self.models = models
        self.ways = ways(models.directions)
        self.sources = list(dict.fromkeys(direction.src for direction in models.directions))
        self.targets = list(dict.fromkeys(direction.tgt for direction in models.directions))
        self.detector = Detector([*self.sources, *self.targets])
        self._memories = memories
        self._find_path = lru_cache(_MAX_DIRECTIONS)(self._path)

    def read_memories(self, models: Models, keys: Mapping[bytes, Key]) -> Memories:
        """Return the memories of all clients, by the hashes of their keys; b"": of those that have none of their own.

        That of all has the corrections, too, in place of what they correct.
        """
        directions = [*ways(models.directions)]
        names = {key.memory for key in keys.values()} - {""}
        memories = {name: TranslationMemory.read_all([name], directions) for name in names}
        found = {client: memories[key.memory] for client, key in keys.items() if key.memory}
        tm, corrections = self.settings.tm, self.settings.corrections
        if corrections is not None and not find_spec("rapidfuzz"):
            log.info(f"corrections are only collected, not used at once; to use them: {how_to_install('tm')}")
            corrections = None
        if corrections is not None and tm and os.path.realpath(tm) == os.path.realpath(corrections):
            tm = ""
        growing = [] if corrections is None else [str(corrections)]
        if tm or growing:
            found[b""] = TranslationMemory.read_all([tm] if tm else [], directions, growing)
        return found

    async def correct(self, client: bytes, languages: Direction, text: str, correct: str) -> None:
        """Keep the correct translation of a text on the disk, then use it. RequestError if it cannot be kept.

        A client with a memory of its own shares its corrections with nobody: they have a file of their own, too.
        """
        if self._corrections is None:
            raise RequestError(403, "this server does not collect corrections")
        path = self._find_path(languages.src, languages.tgt, None)
        if not (text.strip() and correct.strip()):
            raise RequestError(400, "Invalid request: q or s is blank")
        pairs = pairs_in(languages, text, correct)
        has_own = bool(client) and client in self._memories
        await (self._corrections.own if has_own else self._corrections).add(languages, pairs)
        if (memories := self._memories.get(client if has_own else b"")) is None:
            return
        memory = memories.setdefault(Direction(path[0][0].src, path[-1][0].tgt), TranslationMemory(()))
        for source, target in pairs:
            memory.add(source, target)

    def check_size(self, texts: Sequence[str], terms: Mapping[str, str] | None = None, draft: str = "") -> None:
        """Raise RequestError (400) for too many texts, or too many characters in them, in `terms` and in `draft`."""
        limits = self.settings
        if len(texts) > limits.batch_limit:
            raise RequestError(400, f"{len(texts):,} texts in one request; the limit is {limits.batch_limit:,}")
        size = sum(map(len, [*texts, draft, *(terms or {}), *(terms or {}).values()]))
        if size > limits.char_limit:
            raise RequestError(400, f"{size:,} characters in one request; the limit is {limits.char_limit:,}")

    def route(self, source: str, target: str, client: bytes = b"", model: ServedModel | None = None) -> Routed:
        """Return the direction, the models and the memory of the `client`, as `Access.check` returns it, for any text.

        Regional codes match their language: pt-BR finds a model for pt. `model` restricts the choice to one model.
        A text in the language of the target gets no models. RequestError (400) if no model supports the languages.
        """
        try:
            path = self._find_path(source, target, model)
        except RequestError:
            if not _fits(source, target) or _closest(source, [*self.sources, *self.targets]) is None:
                raise
            return _AS_IT_IS
        form = chinese_form(target) if chinese_form(path[-1][0].tgt) is None else None
        memory = self.memory(client, Direction(path[0][0].src, path[-1][0].tgt))
        return Routed("", path, form=form, memory=memory)

    async def route_all(
        self,
        texts: Sequence[str],
        source: str,
        target: str,
        client: bytes = b"",
        model: ServedModel | None = None,
        *,
        are_pages: bool = False,
    ) -> tuple[list[Routed], list[Detection] | None]:
        """Return `texts` as `route` does, and without a `source`, their languages: of pages, those of their words.

        Those in the language of the target, or in none that can be translated into it, stay as they are.
        """
        if source:
            routed = self.route(source, target, client, model)
            return [routed._replace(text=text) for text in texts], None
        _supported(target, "into", self.targets if model is None else [tgt for _, tgt in model.directions])

        def detect(text: str) -> tuple[Detection, bool]:
            words = without_markup(text) if are_pages else text
            found = self.detector.detect(words)[0]
            return found, found["confidence"] >= _MIN_CONFIDENCE or not has_letters(words)

        detected = await self._run(sum(map(len, texts)), lambda: [*map(detect, texts)])

        @cache
        def routed_from(language: str) -> Routed:
            try:
                return self.route(language, target, client, model)
            except RequestError:
                return _AS_IT_IS

        routed_texts = [
            (routed_from(found["language"]) if is_known else _AS_IT_IS)._replace(text=text)
            for text, (found, is_known) in zip(texts, detected, strict=True)
        ]
        return routed_texts, [found for found, _ in detected]

    def memory(self, client: bytes, direction: Direction) -> TranslationMemory | None:
        """Return the translation memory of a client, or else that of all clients."""
        return self._memories.get(client, self._memories.get(b"", {})).get(direction)

    def _path(self, source: str, target: str, model: ServedModel | None) -> list[Step]:
        """Return the direction and its model, or two that lead through a third language."""
        directions = self.models.directions if model is None else dict.fromkeys(model.directions, model)
        known = self.ways if model is None else ways(model.directions)
        tgt = _supported(target, "into", [direction.tgt for direction in directions])
        src = _supported(source, "from", [direction.src for direction in directions])
        fitting = [d for d in known if _fits(d.src, src) and _fits(d.tgt, tgt)]
        if not fitting:
            raise RequestError(400, f"{_named(tgt)} is not available as a target language from {_named(src)}")
        closest = min(fitting, key=lambda d: (len(known[d]), d != (src, tgt)))
        return [(direction, directions[direction]) for direction in known[closest]]

    async def segments(
        self, texts: Sequence[Routed], num_alternatives: int = 0, *, details: bool = False
    ) -> AsyncGenerator[TranslatedSegment]:
        """Yield the translations of all segments of `texts`, in order within each model.

        RequestError if the queue is full or a segment fails. Closing the iterator cancels the rest. Texts that the
        memory has come first, untranslated. Texts that lead through a third language are translated into it first, all
        together.
        """
        found = await await_together(
            [text.through_models() for text in texts],
            self._between,
            partial(self._run, sum(len(text.text) + len(text.draft) for text in texts)),
        )
        asks: dict[int, TextToTranslate[Step]] = {}
        for number, each in enumerate(found):
            if isinstance(each, TextToTranslate):
                asks[number] = each
                continue
            before, after = _white_space_around(texts[number].text)
            flags = each.flags if texts[number].flags else {}
            yield TranslatedSegment(number, before, each, after, flags, None, memory=each.memory)
        async with aclosing(self._search(asks, texts, num_alternatives, details=details)) as segments:
            async for segment in segments:
                yield segment

    async def _between(self, asks: list[TextToTranslate[Step]]) -> list[Translation]:
        """Return the translations of `asks`, which are not the last, each of the whole text."""
        found = [Translation("")] * len(asks)
        async with self.in_time(), aclosing(self._search(dict(enumerate(asks)), [_WHOLE] * len(asks))) as texts:
            async for text in texts:
                found[text.text_number] = text.translation
        return found

    async def _search(
        self,
        asks: Mapping[int, TextToTranslate[Step]],
        texts: Sequence[Routed],
        num_alternatives: int = 0,
        *,
        details: bool = False,
    ) -> AsyncGenerator[TranslatedSegment]:
        """Yield the translations of the segments of `asks`, each of one of `texts`; of `_WHOLE`, undivided."""
        for served in dict.fromkeys(ask.model[1] for ask in asks.values()):
            numbers = [number for number, ask in asks.items() if ask.model[1] is served]
            segmented = await self._segment_all(served.translator, [(asks[n], texts[n]) for n in numbers])
            parts = [*zip(numbers, segmented, strict=True)]
            queued = [
                QueuedSegment(
                    segment,
                    max(1, segment.num_tokens),
                    num_alternatives,
                    asks[number].finish,
                    with_details=details and asks[number].through is None,  # words would be linked to another text
                    with_flags=texts[number].flags,
                )
                async for number, (_, segments) in self.turns.each(parts)
                for segment, _ in segments
                if isinstance(segment, SegmentedText)
            ]
            job = served.batcher.submit(queued)
            try:
                rest = iter(queued)
                async for number, (before, segments) in self.turns.each(parts):
                    text, match = texts[number], asks[number].match
                    for segment, after in segments:
                        if isinstance(segment, MemoryMatch):
                            translation, explained = Translation(segment.target, memory=segment), None
                            match = match or segment
                        else:
                            translation, explained = await next(rest).result
                        flags = flags_of(translation, text)
                        expected = translation.expected_chrf if text.flags else None
                        yield TranslatedSegment(number, before, translation, after, flags, explained, expected, match)
                        before, match = "", None
            finally:
                served.batcher.cancel(job)

    async def _segment_all(
        self, translator: Translator, asks: Sequence[tuple[TextToTranslate[Step], Routed]]
    ) -> list[tuple[str, list[Part]]]:
        """Return the white space before each text, and its parts. What is asked for `_WHOLE` is one segment."""

        def segment_all() -> list[tuple[str, list[Part]]]:
            segmented: list[SegmentedText] = []
            for ((src, tgt), glossary), same in groupby(asks, key=lambda each: (each[0].model[0], each[0].glossary)):
                request = Request(translator.options, to=tgt, from_=src, glossary=glossary)
                segmented += translator.segment([text.symbol + ask.text for ask, text in same], request)
            for (ask, _), each in zip(asks, segmented, strict=True):
                if ask.draft:
                    translator.segmenter.add_draft(each, ask.draft)
            # The translation of a text with a single segment includes the white space around it.
            return [
                ("", [(each, "")])
                if len(each.segments) == 1 or (text is _WHOLE and each.segments)
                else (each.lead, _look_up(each, text.memory if ask.through is None else None))
                for (ask, text), each in zip(asks, segmented, strict=True)
            ]

        return await self._run(sum(len(ask.text) + len(ask.draft) for ask, _ in asks), segment_all)

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
            message = (
                f"this took longer than {self.settings.timeout:g} seconds; send shorter texts, or ask for a stream"
            )
            raise RequestError(503, message, retry_after=10) from None


Part = tuple[SegmentedText | MemoryMatch, str]
"""A segment, or what the memory has for it, and the white space after it."""


def _look_up(text: SegmentedText, memory: TranslationMemory | None) -> list[Part]:
    """Return the segments of `text`, with what `memory` has for whole lines, or else for single segments, instead."""
    separate = text.separate()
    if memory is None:
        return [*separate]
    parts: list[Part] = []
    spans = [segment.span for segment in text.segments]
    for _, line in groupby(zip(spans, separate, strict=True), lambda each: text.text.count("\n", 0, each[0].start)):
        of_line = [*line]
        (first, _), (last, (_, space)) = of_line[0], of_line[-1]
        whole_line = memory.find_same(text.text[first.start : last.end])
        if whole_line is not None:
            parts.append((whole_line, space))
            continue
        parts += [(memory.find_same(segment.text) or segment, space) for _, (segment, space) in of_line]
    return parts


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


def _closest(code: str, codes: Sequence[str]) -> str | None:
    """Return `code` as spelled in `codes`, or else the first of `codes` with the same language."""
    normal = code.replace("_", "-").lower()
    exact = next((each for each in codes if each.replace("_", "-").lower() == normal), None)
    return exact or next((each for each in codes if _fits(each, code)), None)


def _fits(code: str, other: str) -> bool:
    """Return whether two codes name one language, in scripts, or forms of Chinese, that do not differ."""
    if base_code(code) != base_code(other):
        return False
    forms = {chinese_form(code), chinese_form(other)} - {None}
    scripts = {script_of(code), script_of(other)} - {None}
    return len(forms) < 2 and len(scripts) < 2


def flags_of(translation: Translation, text: Routed) -> Flags:
    """Return the flags that the request of `text` asks for; a third language is always named.

    A translation in another form of Chinese than the request names is in the wrong language.
    """
    if not text.flags:
        return {"pivot": translation.pivot} if translation.pivot else {}
    if text.form is None or form_of_chinese(translation.text) in (None, text.form):
        return translation.flags
    return {**translation.flags, "wrong_language": True}


def _named(code: str) -> str:
    """Return the English name of a language with its code, or only the code if it has none."""
    name = english_name(code)
    return name if name == code or name.endswith(f"({code})") else f"{name} ({code})"


def _supported(code: str, preposition: str, codes: Sequence[str]) -> str:
    """Return `code` as `_closest` finds it. RequestError (400) if it is none of `codes`."""
    if (closest := _closest(code, codes)) is not None:
        return closest
    listed = in_words([_named(code) for code in dict.fromkeys(codes)])
    field = "target or target_lang" if preposition == "into" else "source or source_lang"
    message = f"{field}: {_named(code)} is not supported; this server translates {preposition} {listed}"
    raise RequestError(400, message)
