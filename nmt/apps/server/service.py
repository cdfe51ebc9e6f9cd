"""Translate texts unit by unit; all APIs of the server call this."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from functools import lru_cache
from typing import NamedTuple

from nmt.apps.documents.translation import Flags, merge
from nmt.apps.server.detect import Detector
from nmt.apps.server.metrics import Metrics
from nmt.apps.server.models import Models, ServedModel
from nmt.apps.server.request_error import RequestError
from nmt.apps.server.settings import Settings
from nmt.apps.server.threads import Threads
from nmt.apps.server.units import CutText, UnitTranslation, Wanted, cut
from nmt.base.errors import NmtError, in_words
from nmt.base.languages import Direction, base_code, chinese_form, english_name, script_of
from nmt.data.check.scripts import form_of_chinese
from nmt.data.text.glossary import Term
from nmt.translation import Translator

_QUICK_CHARACTERS = 2000  # up to this total length, texts are cut in the event loop; longer ones in a thread

_NUM_THREADS = 4  # for the HTML pages of all clients

_MAX_DIRECTIONS = 1000  # as clients spell them, of which the direction and model are remembered


class Routed(NamedTuple):
    """A text with its direction and model."""

    text: str
    direction: Direction
    model: ServedModel
    terms: tuple[Term, ...] = ()  # of the glossary of the request
    form: str | None = None  # of Chinese characters, if the request names one and the model does not


class Piece(NamedTuple):
    """The translation of one unit of a text; `before` and `after` are the white space around it."""

    text_number: int  # from 0
    before: str
    translation: UnitTranslation
    after: str


class TextTranslation(NamedTuple):
    """The translation of one text, joined from its pieces."""

    text: str
    alternatives: list[str]
    pieces: list[Piece]
    terms_missed: list[Term]
    flags: Flags


class Service:
    """Translates for all clients of one server."""

    def __init__(self, models: Models, settings: Settings, metrics: Metrics):
        self.models = models
        self.settings = settings
        self.metrics = metrics
        self.sources = list(dict.fromkeys(direction.src for direction in models.directions))
        self.targets = list(dict.fromkeys(direction.tgt for direction in models.directions))
        self.detector = Detector(self.sources)
        self.threads = Threads(_NUM_THREADS)
        self._find_direction = lru_cache(_MAX_DIRECTIONS)(self._direction)

    def check_size(self, texts: Sequence[str], terms: Mapping[str, str] | None = None) -> None:
        """Raise RequestError (400) if there are too many texts, or too many characters in them and in `terms`."""
        limits = self.settings
        if len(texts) > limits.batch_limit:
            raise RequestError(400, f"{len(texts):,} texts in one request; the limit is {limits.batch_limit:,}")
        size = sum(map(len, texts)) + sum(len(source) + len(target) for source, target in (terms or {}).items())
        if size > limits.char_limit:
            raise RequestError(400, f"{size:,} characters in one request; the limit is {limits.char_limit:,}")

    def route(self, text: str, source: str, target: str, model: ServedModel | None = None) -> Routed:
        """Return `text` with its direction and model. RequestError (400) if no model supports the languages.

        Regional codes match their language: pt-BR finds a model for pt. `model` restricts the choice to one model.
        """
        direction, served = self._find_direction(source, target, model)
        form = chinese_form(target) if chinese_form(direction.tgt) is None else None
        return Routed(text, direction, served, form=form)

    def _direction(self, source: str, target: str, model: ServedModel | None) -> tuple[Direction, ServedModel]:
        directions = self.models.directions if model is None else list(model.directions)
        if (tgt := _closest(target, [d.tgt for d in directions])) is None:
            raise RequestError(400, _unsupported(target, "into", self.targets))
        if (src := _closest(source, [d.src for d in directions])) is None:
            raise RequestError(400, _unsupported(source, "from", self.sources))
        found = [d for d in directions if _fits(d.src, src) and _fits(d.tgt, tgt)]
        direction = next((d for d in found if d == (src, tgt)), found[0] if found else None)
        served = model or (None if direction is None else self.models.by_direction(direction))
        if direction is None or served is None:
            raise RequestError(400, f"{_named(tgt)} is not available as a target language from {_named(src)}")
        return direction, served

    async def pieces(
        self, texts: Sequence[Routed], num_alternatives: int = 0, *, details: bool = False
    ) -> AsyncGenerator[Piece]:
        """Yield the translations of all units of `texts`, in order within each model.

        RequestError if the queue is full or a unit fails. Closing the iterator cancels the rest.
        """
        for served in dict.fromkeys(text.model for text in texts):
            numbers = [number for number, text in enumerate(texts) if text.model is served]
            wanted = [Wanted(texts[n].direction, num_alternatives, details, texts[n].terms) for n in numbers]
            try:
                async with self.models.use(served) as loaded:
                    cuts = await _cut_all(loaded.translator, [texts[n].text for n in numbers], wanted)
                    job = loaded.batcher.submit([unit for text in cuts for unit in text.units])
                    try:
                        results = iter(job.results)
                        for number, text in zip(numbers, cuts, strict=True):
                            for place, unit in enumerate(text.units):
                                found = _in_form(await next(results), texts[number].form)
                                yield Piece(number, "" if place else text.lead, found, unit.space)
                    finally:
                        loaded.batcher.cancel(job)
            except NmtError as error:
                raise RequestError(503, error.message, retry_after=1) from None

    async def translate(
        self, texts: Sequence[Routed], num_alternatives: int = 0, *, details: bool = False
    ) -> list[TextTranslation]:
        """Return the translations of `texts`. RequestError as `pieces`, and (503) if they take too long."""
        found: list[list[Piece]] = [[] for _ in texts]
        async with self.in_time(), aclosing(self.pieces(texts, num_alternatives, details=details)) as pieces:
            async for piece in pieces:
                found[piece.text_number].append(piece)
        return [_join(text, pieces) for text, pieces in zip(texts, found, strict=True)]

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


async def _cut_all(translator: Translator, texts: Sequence[str], wanted: Sequence[Wanted]) -> list[CutText]:
    def cut_all() -> list[CutText]:
        return [cut(translator, text, asked) for text, asked in zip(texts, wanted, strict=True)]

    return cut_all() if sum(map(len, texts)) <= _QUICK_CHARACTERS else await asyncio.to_thread(cut_all)


def _join(text: Routed, pieces: list[Piece]) -> TextTranslation:
    """Join the pieces of a text. Alternative n of a text consists of alternative n of each unit, or of its last."""

    def written(rank: int) -> str:
        ranked = [([p.translation.text, *p.translation.alternatives], p) for p in pieces]
        return "".join(p.before + outputs[min(rank, len(outputs) - 1)] + p.after for outputs, p in ranked)

    num_ranks = max((len(piece.translation.alternatives) for piece in pieces), default=0)
    missed = [term for piece in pieces for term in piece.translation.terms_missed]
    flags = merge([piece.translation.flags for piece in pieces])
    return TextTranslation(written(0), [written(rank) for rank in range(1, num_ranks + 1)], pieces, missed, flags)


def _closest(code: str, codes: Sequence[str]) -> str | None:
    """Return `code` as spelled in `codes`, or else the first of `codes` with the same language."""
    normal = code.replace("_", "-").lower()
    exact = next((each for each in codes if each.replace("_", "-").lower() == normal), None)
    return exact or next((each for each in codes if _fits(each, code)), None)


def _fits(code: str, wanted: str) -> bool:
    """Return whether two codes name one language, in scripts, or forms of Chinese, that do not differ."""
    if base_code(code) != base_code(wanted):
        return False
    forms = {chinese_form(code), chinese_form(wanted)} - {None}
    scripts = {script_of(code), script_of(wanted)} - {None}
    return len(forms) < 2 and len(scripts) < 2


def _in_form(found: UnitTranslation, form: str | None) -> UnitTranslation:
    """Return a translation, flagged as in the wrong language if it is in the other form of Chinese."""
    if form is None or form_of_chinese(found.text) in (None, form):
        return found
    return found._replace(flags={**found.flags, "wrong_language": True})


def _named(code: str) -> str:
    """Return the English name of a language with its code, or only the code if it has none."""
    name = english_name(code)
    return name if name == code or name.endswith(f"({code})") else f"{name} ({code})"


def _unsupported(code: str, preposition: str, codes: Sequence[str]) -> str:
    listed = in_words([_named(code) for code in codes])
    return f"{_named(code)} is not supported; this server translates {preposition} {listed}"
