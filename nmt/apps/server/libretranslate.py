"""LibreTranslate's API: /translate, /detect, /languages, /frontend/settings and /health."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from functools import partial

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from nmt.apps.documents.formats import available_suffixes
from nmt.apps.documents.translation import FLAGS, with_flags
from nmt.apps.server.blocks import translate_pages
from nmt.apps.server.bodies import DetectBody, TranslateBody, read_fields
from nmt.apps.server.detect import Detected
from nmt.apps.server.exchange import Exchange, as_json, dump, first_and_rest
from nmt.apps.server.request_error import RequestError
from nmt.apps.server.service import Piece, Routed, TextTranslation
from nmt.base.errors import DataError
from nmt.base.languages import english_name
from nmt.data.text.glossary import Glossary, Term

_MIN_CHARACTERS = 40  # shorter texts of a batch get the language of the whole batch
_NDJSON = "application/x-ndjson"


class LibreTranslate:
    """Handles requests from LibreTranslate clients."""

    def __init__(self, exchange: Exchange):
        self._exchange = exchange
        self._service = exchange.service

    @property
    def routes(self) -> list[Route]:
        """The paths, each with its handler."""
        return [
            Route("/translate", self.translate, methods=["POST"]),
            Route("/detect", self.detect, methods=["POST"]),
            Route("/languages", self.languages),
            Route("/frontend/settings", self.settings),
            Route("/health", self.health),
        ]

    async def translate(self, request: Request) -> Response:
        """Translate a text or a list of texts."""
        body = await read_fields(request, self._service.settings, TranslateBody)
        self._exchange.access.check(request, body.api_key)
        texts = [body.q] if isinstance(body.q, str) else body.q
        self._service.check_size(texts, body.glossary)
        terms = _terms(body)
        detected = await self._detect(texts) if body.source == "auto" else None
        routed = [text._replace(terms=terms) for text in self._route(body, texts, detected)]
        if body.stream:
            return await self._stream(request, body, routed, detected)
        translate = partial(translate_pages, self._service) if body.format == "html" else self._service.translate
        found = await self._exchange.unless_gone(request, translate(routed, body.alternatives))
        return as_json(_answer(body, found, detected))

    async def detect(self, request: Request) -> Response:
        """Detect the language of a text."""
        body = await read_fields(request, self._service.settings, DetectBody)
        self._exchange.access.check(request, body.api_key)
        self._service.check_size([body.q])
        return as_json([_detection(each) for each in self._service.detector.detect(body.q)])

    async def languages(self, request: Request) -> Response:
        """List the source languages, each with its target languages."""
        targets: dict[str, list[str]] = {}
        for direction in self._service.models.directions:
            targets.setdefault(direction.src, []).append(direction.tgt)
        listed = [{"code": src, "name": english_name(src), "targets": targets[src]} for src in targets]
        only_targets = [code for code in self._service.targets if code not in targets]
        return as_json(listed + [{"code": c, "name": english_name(c), "targets": []} for c in only_targets])

    async def settings(self, request: Request) -> Response:
        """Return the settings for the web page."""
        src, tgt = self._service.models.directions[0]
        has_keys, models = bool(self._exchange.access.keys), self._service.models
        obeying = [pair for pair in models.directions if (found := models.by_direction(pair)) and found.obeys_terms]
        return as_json({
            "charLimit": self._service.settings.char_limit,
            "frontendTimeout": 500,
            "apiKeys": has_keys,
            "keyRequired": has_keys,
            "suggestions": False,
            "filesTranslation": bool(self._service.settings.file_limit),
            "flags": FLAGS,
            "glossaryDirections": [[direction.src, direction.tgt] for direction in obeying],
            "supportedFilesFormat": available_suffixes() if self._service.settings.file_limit else [],
            "language": {
                "source": {"code": src, "name": english_name(src)},
                "target": {"code": tgt, "name": english_name(tgt)},
            },
        })  # fmt: skip

    async def health(self, request: Request) -> Response:
        """Report that the server is running."""
        return as_json({"status": "ok"})

    async def _detect(self, texts: Sequence[str]) -> list[Detected]:
        """Return the language of each text."""
        best = self._service.detector.detect

        def detect_all() -> list[Detected]:
            overall = best(" ".join(texts))[0]
            return [best(text)[0] if len(text) > _MIN_CHARACTERS else overall for text in texts]

        return await asyncio.to_thread(detect_all)

    def _route(self, body: TranslateBody, texts: Sequence[str], detected: list[Detected] | None) -> list[Routed]:
        model = None
        if body.model and (model := self._service.models.by_name(body.model)) is None:
            raise RequestError(400, f"there is no model {body.model}"[:200])
        codes = [body.source] * len(texts) if detected is None else [each.language for each in detected]
        pairs = zip(texts, codes, strict=True)
        return [self._service.route(text, code, body.target, model) for text, code in pairs]

    async def _stream(
        self, request: Request, body: TranslateBody, routed: Sequence[Routed], detected: list[Detected] | None
    ) -> Response:
        """Send one line of JSON per unit."""
        if body.format == "html":
            raise RequestError(400, "Invalid request: HTML is not streamed")
        pieces = self._service.pieces(routed, body.alternatives, details=body.details)
        first, rest = await self._exchange.unless_gone(request, first_and_rest(pieces))

        async def lines() -> AsyncIterator[bytes]:
            async with aclosing(pieces):
                if detected is not None:
                    yield dump({"detectedLanguage": _detection(detected[0])}) + b"\n"
                try:
                    for piece in first:
                        yield dump(_line(piece)) + b"\n"
                    async for piece in rest:
                        yield dump(_line(piece)) + b"\n"
                    yield b'{"done":true}\n'
                except RequestError as refusal:
                    yield dump({"error": refusal.message}) + b"\n"

        return StreamingResponse(lines(), media_type=_NDJSON, headers={"X-Accel-Buffering": "no"})


def _terms(body: TranslateBody) -> tuple[Term, ...]:
    """Return the terms of the glossary of a request. RequestError (400) if one cannot be used."""
    try:
        return tuple(Glossary(body.glossary).terms)
    except DataError as error:
        raise RequestError(400, f"Invalid request: glossary: {error.message}"[:500]) from None


def _detection(detected: Detected) -> dict[str, object]:
    return {"confidence": detected.confidence, "language": detected.language}


def _line(piece: Piece) -> dict[str, object]:
    translation = piece.translation
    line: dict[str, object] = {
        "index": piece.text_number,
        "before": piece.before,
        "text": translation.text,
        "after": piece.after,
        "alternatives": translation.alternatives,
    }
    if translation.terms_missed:
        line["terms_missed"] = translation.terms_missed
    line |= with_flags(translation.flags)
    return line if translation.details is None else {**line, "details": translation.details._asdict()}


def _answer(
    body: TranslateBody, found: Sequence[TextTranslation], detected: list[Detected] | None
) -> dict[str, object]:
    is_batch = not isinstance(body.q, str)
    answer: dict[str, object] = {"translatedText": [each.text for each in found] if is_batch else found[0].text}
    if body.alternatives:
        others = [each.alternatives for each in found]
        answer["alternatives"] = others if is_batch else others[0]
    if body.glossary:
        answer["terms_missed"] = [each.terms_missed for each in found] if is_batch else found[0].terms_missed
    if any(each.flags for each in found):
        answer["flags"] = [each.flags for each in found] if is_batch else found[0].flags
    if detected is not None:
        languages = [_detection(each) for each in detected]
        answer["detectedLanguage"] = languages if is_batch else languages[0]
    return answer
