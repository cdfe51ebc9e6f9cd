"""LibreTranslate's API: /translate, /detect, /languages, /frontend/settings and /health."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from starlette.requests import Request
from starlette.responses import Response

from nmt.apps.documents.formats import available_suffixes
from nmt.apps.server.access import Access
from nmt.apps.server.blocks import translate_pages
from nmt.apps.server.bodies import DetectBody, Detection, Fields, Language, SuggestBody, TranslateBody, Translated
from nmt.apps.server.operations import LINES, Operation
from nmt.apps.server.requests import JSON, RequestError, as_list, dump, refusal, stream, unless_gone
from nmt.apps.server.routes import Routed
from nmt.apps.server.service import Service, TextTranslation, TranslatedSegment, with_signs
from nmt.base.languages import Direction, english_name
from nmt.data.text.glossary import Glossary
from nmt.translation.translation import FLAGS


class LibreTranslate:
    """Handles requests from LibreTranslate clients."""

    def __init__(self, service: Service, access: Access):
        self._service = service
        self._access = access

    @Operation("/translate", TranslateBody, Translated, writes=[JSON, LINES])
    async def translate(self, request: Request, body: TranslateBody, client: bytes) -> Translated | Response:
        """Translate a text or a list of texts."""
        texts = as_list(body.q)
        self._service.check_size(texts, *body.glossary, *body.glossary.values())
        with refusal("Invalid request: glossary: "):
            glossary = Glossary(body.glossary) if body.glossary else None
        model = next((served for served in self._service.routes.models.served if served.name == body.model), None)
        if body.model and model is None:
            raise RequestError(400, f"there is no model {body.model}"[:200])
        is_html = body.format == "html"
        routed, detected = await self._service.route_all(
            texts, body.source, body.target, client, model, are_pages=is_html
        )
        routed = [text._replace(glossary=glossary, flags=body.flags) for text in routed]
        if body.stream:
            return await self._stream(request, body, routed, detected)
        if is_html:
            work = translate_pages(self._service, routed, body.alternatives)
        else:
            work = self._service.translate(routed, body.alternatives)
        return _answer(body, await unless_gone(request, work), detected)

    @Operation("/suggest", SuggestBody, dict[str, bool])
    async def suggest(self, request: Request, body: SuggestBody, client: bytes) -> dict[str, bool]:
        """Keep a correction."""
        self._service.check_size([body.q, body.s])
        await self._service.correct(client, Direction(body.source, body.target), body.q, body.s)
        return {"success": True}

    @Operation("/detect", DetectBody, list[Detection])
    async def detect(self, request: Request, body: DetectBody, client: bytes) -> list[Detection]:
        """Detect the language of a text."""
        self._service.check_size([body.q])
        return self._service.routes.detector.detect(body.q)

    @Operation("/languages", answer=list[Language], is_public=True)
    async def languages(self, request: Request, body: Fields, client: bytes) -> list[Language]:
        """List the source languages, each with its target languages."""
        targets: dict[str, list[str]] = {}
        for direction in self._service.routes.ways:
            targets.setdefault(direction.src, []).append(direction.tgt)
        codes = dict.fromkeys([*targets, *self._service.routes.targets])
        return [Language(code=c, name=english_name(c), targets=targets.get(c, [])) for c in codes]

    @Operation("/frontend/settings", is_public=True)
    async def settings(self, request: Request, body: Fields, client: bytes) -> dict[str, object]:
        """Return the settings for the web page."""
        directions = self._service.routes.models.directions
        has_keys = self._access.needs_key
        src, tgt = next(iter(directions))
        obeying = [direction for direction, model in directions.items() if model.translator.engine.takes_terms]
        return {
            "charLimit": self._service.settings.char_limit,
            "frontendTimeout": 500,
            "apiKeys": has_keys,
            "keyRequired": has_keys,
            "suggestions": self._service.settings.corrections is not None,
            "filesTranslation": bool(self._service.settings.file_limit),
            "flags": FLAGS,
            "glossaryDirections": obeying,
            "supportedFilesFormat": available_suffixes() if self._service.settings.file_limit else [],
            "language": {
                "source": {"code": src, "name": english_name(src)},
                "target": {"code": tgt, "name": english_name(tgt)},
            },
        }

    @Operation("/health", answer=dict[str, str], is_public=True)
    async def health(self, request: Request, body: Fields, client: bytes) -> dict[str, str]:
        """Report that the server is running."""
        return {"status": "ok"}

    async def _stream(
        self, request: Request, body: TranslateBody, routed: Sequence[Routed], detected: list[Detection] | None
    ) -> Response:
        """Send one line of JSON per segment."""
        if body.format == "html":
            raise RequestError(400, "Invalid request: HTML is not streamed")

        start = b"" if detected is None else dump({"detectedLanguage": detected[0]}) + b"\n"

        def write(segment: TranslatedSegment) -> bytes:
            return dump(_line(segment)) + b"\n"

        def end(refusal: RequestError | None) -> bytes:
            return dump({"done": True} if refusal is None else {"error": refusal.detail}) + b"\n"

        segments = self._service.segments(routed, body.alternatives, details=body.details)
        return await stream(request, start, segments, write, end, LINES)


def _line(segment: TranslatedSegment) -> dict[str, object]:
    translation = segment.translation
    return {
        "index": segment.text_number,
        "before": segment.before,
        "text": translation.text,
        "after": segment.after,
        "alternatives": [alternative.text for alternative in translation.alternatives],
        **({"terms_missed": translation.terms_missed} if translation.terms_missed else {}),
        **with_signs(segment.flags, segment.expected_chrf),
        **({"memory": segment.memory._asdict()} if segment.memory else {}),
        **({"details": segment.details._asdict()} if segment.details is not None else {}),
    }


def _answer(body: TranslateBody, translated: Sequence[TextTranslation], detected: list[Detection] | None) -> Translated:
    """Return the fields of the answer: lists, if the request has a list of texts."""
    expected = [None if each.expected_chrf is None else round(each.expected_chrf, 2) for each in translated]
    memory = [each.memory and each.memory._asdict() for each in translated]
    flags = [each.flags for each in translated]
    fields: dict[str, Any] = {
        "translatedText": [each.text for each in translated],
        "alternatives": body.alternatives and [each.alternatives for each in translated],
        "terms_missed": body.glossary and [each.terms_missed for each in translated],
        "flags": any(flags) and flags,
        "expected_chrf": expected.count(None) < len(expected) and expected,
        "memory": any(memory) and memory,
        "detectedLanguage": detected,
    }
    given = {name: values for name, values in fields.items() if values}
    is_batch = not isinstance(body.q, str)
    return cast(Translated, given if is_batch else {name: values[0] for name, values in given.items()})
