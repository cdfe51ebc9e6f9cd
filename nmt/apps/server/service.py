"""Translate texts segment by segment; all APIs of the server call this."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple, TypeVar

from nmt.apps.documents.translation import Flags, flags_of, merge
from nmt.apps.documents.word_links import Details
from nmt.apps.server.batcher import QueuedSegment
from nmt.apps.server.detect import Detector
from nmt.apps.server.metrics import Metrics
from nmt.apps.server.models import Models, ServedModel
from nmt.apps.server.requests import RequestError
from nmt.apps.server.settings import Settings
from nmt.base.errors import in_words
from nmt.base.languages import Direction, base_code, chinese_form, english_name, script_of
from nmt.data.check.scripts import form_of_chinese
from nmt.data.text.glossary import Glossary, Term
from nmt.translation import Translation, Translator
from nmt.translation.memory import TranslationMemory
from nmt.translation.pivot import paths
from nmt.translation.request import Request
from nmt.translation.texts import SegmentedText
from nmt.translation.translation import Match

_QUICK_CHARACTERS = 2000  # up to this total length, the event loop looks up and segments texts; longer ones, a thread

_MAX_DIRECTIONS = 1000  # as clients spell them, of which the direction and model are remembered

Result = TypeVar("Result")


class Routed(NamedTuple):
    """A text with its direction and model."""

    text: str
    direction: Direction
    model: ServedModel
    glossary: Glossary | None = None
    form: str | None = None  # of Chinese characters, if the request names one and the model does not
    draft: str = ""  # a translation to expect
    flags: bool = False  # whether to check the translation, which takes a fifth as long as a sentence
    then: tuple[Direction, ServedModel] | None = None  # translates what `model` translated into a third language
    memory: TranslationMemory | None = None  # of the client
    symbol: str = ""  # a user symbol to read before the text, and a space

    @property
    def request(self) -> Request:
        """How the model is asked to translate the text."""
        options = self.model.translator.options
        return Request(options, to=self.direction.tgt, from_=self.direction.src, glossary=self.glossary)

    def match(self) -> Match | None:
        """Return the most similar pair of the memory, if there is one."""
        return None if self.memory is None else self.memory.find(self.text)


class TranslatedSegment(NamedTuple):
    """The translation of one segment of a text; `before` and `after` are the white space around it."""

    text_number: int  # from 0
    before: str
    translation: Translation
    after: str
    flags: Flags
    details: Details | None
    expected_chrf: float | None = None
    memory: Match | None = None  # of the whole text, in its first segment

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
    memory: Match | None = None  # the most similar pair of the translation memory


class Service:
    """Translates for all clients of one server."""

    def __init__(self, models: Models, settings: Settings, metrics: Metrics, keys: Mapping[bytes, str]):
        """Read the translation memories of the settings and of `keys`. DataError if one cannot be used."""
        self.models = models
        self.settings = settings
        self.metrics = metrics
        self.sources = list(dict.fromkeys(direction.src for direction in models.directions))
        self.targets = list(dict.fromkeys(direction.tgt for direction in models.directions))
        self.detector = Detector(self.sources)
        directions = {**models.directions, **paths(models.directions, models.directions)}
        names = {b"": settings.tm, **keys}
        memories = {name: TranslationMemory.read_all(name, directions) for name in {*names.values()} if name}
        self._memories = {client: memories[name] for client, name in names.items() if name}
        self._find_path = lru_cache(_MAX_DIRECTIONS)(self._path)

    def check_size(self, texts: Sequence[str], terms: Mapping[str, str] | None = None, draft: str = "") -> None:
        """Raise RequestError (400) for too many texts, or too many characters in them, in `terms` and in `draft`."""
        limits = self.settings
        if len(texts) > limits.batch_limit:
            raise RequestError(400, f"{len(texts):,} texts in one request; the limit is {limits.batch_limit:,}")
        size = sum(map(len, [*texts, draft, *(terms or {}), *(terms or {}).values()]))
        if size > limits.char_limit:
            raise RequestError(400, f"{size:,} characters in one request; the limit is {limits.char_limit:,}")

    def route(
        self, text: str, source: str, target: str, client: bytes = b"", model: ServedModel | None = None
    ) -> Routed:
        """Return `text` with its direction, its model and the memory of the `client`, as `Access.check` returns it.

        Regional codes match their language: pt-BR finds a model for pt. `model` restricts the choice to one model.
        RequestError (400) if no model supports the languages.
        """
        first, *then = path = self._find_path(source, target, model)
        form = chinese_form(target) if chinese_form(path[-1][0].tgt) is None else None
        memory = self.memory(client, Direction(first[0].src, path[-1][0].tgt))
        return Routed(text, *first, form=form, then=then[0] if then else None, memory=memory)

    def memory(self, client: bytes, direction: Direction) -> TranslationMemory | None:
        """Return the translation memory of a client, or else that of all clients."""
        return self._memories.get(client, self._memories.get(b"", {})).get(direction)

    def _path(self, source: str, target: str, model: ServedModel | None) -> list[tuple[Direction, ServedModel]]:
        """Return the direction and its model, or two that lead through a third language."""
        directions = self.models.directions if model is None else dict.fromkeys(model.directions, model)
        if (tgt := _closest(target, [d.tgt for d in directions])) is None:
            raise RequestError(400, _unsupported(target, "into", self.targets))
        if (src := _closest(source, [d.src for d in directions])) is None:
            raise RequestError(400, _unsupported(source, "from", self.sources))
        fitting = [d for d in directions if _fits(d.src, src) and _fits(d.tgt, tgt)]
        if not fitting:
            through = [
                path for d, path in paths(directions, directions).items() if _fits(d.src, src) and _fits(d.tgt, tgt)
            ]
            if not through:
                raise RequestError(400, f"{_named(tgt)} is not available as a target language from {_named(src)}")
            return [(direction, directions[direction]) for direction in through[0]]
        direction = next((d for d in fitting if d == (src, tgt)), fitting[0])
        return [(direction, directions[direction])]

    async def segments(
        self, texts: Sequence[Routed], num_alternatives: int = 0, *, details: bool = False
    ) -> AsyncGenerator[TranslatedSegment]:
        """Yield the translations of all segments of `texts`, in order within each model.

        RequestError if the queue is full or a segment fails. Closing the iterator cancels the rest. Texts that the
        memory has come first, untranslated. Texts that lead through a third language are translated into it first, all
        together.
        """
        matches: dict[int, Match] = {}  # by the number of the text
        if any(text.memory is not None for text in texts):
            found = await _run(texts, lambda: [text.match() for text in texts])
            matches = {number: match for number, match in enumerate(found) if match is not None}
        asked = {n: text for n, text in enumerate(texts) if n not in matches or matches[n].similarity < 1}
        for number in matches.keys() - asked.keys():
            text, match = texts[number], matches[number]
            known = Translation(match.target, memory=match)
            before, after = text.text.split(text.text.strip())
            flags = flags_of(known) if text.flags else {}
            yield TranslatedSegment(number, before, known, after, flags, None, memory=match)
        passed: dict[int, TextTranslation] = {}
        if through := [number for number, text in asked.items() if text.then is not None]:
            firsts = await self.translate([asked[n]._replace(then=None, form=None, memory=None) for n in through])
            passed = dict(zip(through, firsts, strict=True))
            asked |= {number: _second(asked[number], first) for number, first in passed.items()}
        for number in matches.keys() & asked.keys():
            asked[number] = asked[number]._replace(draft=asked[number].draft or matches[number].target)
        for served in dict.fromkeys(text.model for text in asked.values()):
            numbers = [number for number, text in asked.items() if text.model is served]
            segmented = await _segment_all(served.translator, [asked[n] for n in numbers])
            queued = [
                QueuedSegment(segment, max(1, segment.num_tokens), num_alternatives, details, asked[number].flags)
                for number, (_, segments) in zip(numbers, segmented, strict=True)
                for segment, _ in segments
            ]
            job = served.batcher.submit(queued)
            try:
                rest = iter(queued)
                for number, (before, segments) in zip(numbers, segmented, strict=True):
                    text, similar = asked[number], matches.get(number)
                    for _, after in segments:
                        translation, flags, explained = await next(rest).result
                        flags = _with_form(flags, translation.text, text.form if text.flags else None)
                        if number in passed:  # what the words of the translation come from is not the source
                            flags = {**merge([passed[number].flags, flags]), "pivot": [text.direction.src]}
                            explained = None
                        expected = translation.expected_chrf if text.flags else None
                        yield TranslatedSegment(number, before, translation, after, flags, explained, expected, similar)
                        before, similar = "", None
            finally:
                served.batcher.cancel(job)

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
        return [_join(segments) for segments in of_text]

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


async def _segment_all(
    translator: Translator, texts: Sequence[Routed]
) -> list[tuple[str, list[tuple[SegmentedText, str]]]]:
    """Return the white space before each text, and its segments, each with the white space after it."""

    def segment_all() -> list[tuple[str, list[tuple[SegmentedText, str]]]]:
        segmented: list[SegmentedText] = []
        for _, same in groupby(texts, key=lambda text: (text.direction, text.glossary)):
            alike = list(same)
            segmented += translator.segment([text.symbol + text.text for text in alike], alike[0].request)
        for text, each in zip(texts, segmented, strict=True):
            if text.draft:
                translator.segmenter.add_draft(each, text.draft, translator.options)
        # The translation of a text with a single segment includes the white space around it.
        return [("", [(text, "")]) if len(text.segments) == 1 else (text.lead, text.separate()) for text in segmented]

    return await _run(texts, segment_all)


async def _run(texts: Sequence[Routed], work: Callable[[], Result]) -> Result:
    """Return `work()`, which is on `texts`: in the event loop if they are short, else in a thread."""
    is_quick = sum(len(text.text) + len(text.draft) for text in texts) <= _QUICK_CHARACTERS
    return work() if is_quick else await asyncio.to_thread(work)


def _second(text: Routed, first: TextTranslation) -> Routed:
    """Return what to translate second of a text that leads through a third language. RequestError for a glossary."""
    if text.glossary is not None:
        raise RequestError(400, "Invalid request: glossary: no model translates directly between these languages")
    assert text.then is not None
    return Routed(first.text, *text.then, form=text.form, flags=text.flags)


def _join(segments: list[TranslatedSegment]) -> TextTranslation:
    num_ranks = max((len(segment.translation.alternatives) for segment in segments), default=0) + 1
    text, *alternatives = ["".join(segment.written(rank) for segment in segments) for rank in range(num_ranks)]
    missed = [term for segment in segments for term in segment.translation.terms_missed]
    flags = merge([segment.flags for segment in segments])
    memory = segments[0].memory if segments else None
    return TextTranslation(text, alternatives, segments, missed, flags, _expected_chrf(segments), memory)


def _expected_chrf(segments: list[TranslatedSegment]) -> float | None:
    """Return the mean over the target tokens; None if it is unknown for a segment."""
    if all(each.expected_chrf is None for each in segments):
        return None  # at once: most requests do not ask for it
    known = [(each.expected_chrf, len(each.translation.tgt_ids) + 1) for each in segments if each.translation.src_ids]
    weighted = [value * size for value, size in known if value is not None]
    return sum(weighted) / sum(size for _, size in known) if len(weighted) == len(known) > 0 else None


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


def _with_form(flags: Flags, text: str, form: str | None) -> Flags:
    """Return the flags of a translation; one in the other form of Chinese than `form` is in the wrong language."""
    return flags if form is None or form_of_chinese(text) in (None, form) else {**flags, "wrong_language": True}


def _named(code: str) -> str:
    """Return the English name of a language with its code, or only the code if it has none."""
    name = english_name(code)
    return name if name == code or name.endswith(f"({code})") else f"{name} ({code})"


def _unsupported(code: str, preposition: str, codes: Sequence[str]) -> str:
    listed = in_words([_named(code) for code in codes])
    return f"{_named(code)} is not supported; this server translates {preposition} {listed}"
