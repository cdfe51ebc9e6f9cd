"""DeepL's API, version 2, for tools that translators have: texts, documents, glossaries, languages and usage.

Glossaries, translated documents and the count of characters are in memory, and end with the server.
"""

from __future__ import annotations

import asyncio
import csv
import logging
import re
from collections import Counter
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from functools import partial
from html import unescape
from io import StringIO
from typing import Any
from uuid import uuid4

from starlette.requests import Request
from starlette.responses import Response

from nmt.apps.documents.markup import HtmlText, XmlText
from nmt.apps.server.blocks import translate_pages
from nmt.apps.server.bodies import (
    DeepLBody,
    DeepLFile,
    DeepLGlossary,
    DeepLKey,
    DeepLLanguages,
    DeepLOptions,
    Fields,
    FileBody,
)
from nmt.apps.server.files import Files, Kept
from nmt.apps.server.operations import BYTES, FIELDS, Operation
from nmt.apps.server.requests import MULTIPART, RequestError, as_json, unless_gone
from nmt.apps.server.service import Routed, Service, with_signs
from nmt.base.errors import DataError
from nmt.base.languages import base_code, english_name
from nmt.data.text.glossary import Glossary

log = logging.getLogger(__name__)

MAX_GLOSSARIES = 1000  # in memory, of all clients
_MAX_TERMS = 10_000  # of a glossary
MAX_DOCUMENTS = 200  # that are being translated, of all clients
_QUOTA_EXCEEDED = 456  # DeepL's status for it
_NO_LIMIT = 1_000_000_000_000  # characters, as DeepL writes it
_TABLE = "text/tab-separated-values"
PATIENCE_SECONDS = 1.0  # that a question for the status waits for the end, since clients sleep for 5 seconds
_FORMALITIES = {"more": "<formal> ", "less": "<informal> "}  # tags of a model that learned both
_VARIANTS = {"EN": ("EN-GB", "EN-US"), "PT": ("PT-BR", "PT-PT")}  # clients refuse these targets without a variant

_DOCUMENT_TYPE = re.compile(r"\s*(?:<\?xml[^>]*\?>)?\s*<!DOCTYPE[^\[<>]*>", re.IGNORECASE)
_NOT_XML = re.compile(r"&(?!(?:amp|lt|gt|quot|apos|#\d+|#x[\da-fA-F]+);)(?:\w{1,32};)?")

_Translating = asyncio.Task[bytes | RequestError]  # of a document


class DeepL:
    """Handles requests from DeepL clients."""

    def __init__(self, service: Service, files: Files):
        self._service, self._files = service, files
        self._documents = Kept[tuple[int, _Translating]]()  # with the numbers of their bytes
        self._running: set[_Translating] = set()
        self._glossaries: dict[tuple[bytes, str], tuple[dict[str, object], Glossary]] = {}  # by client and id
        self._num_characters: Counter[bytes] = Counter()

    @property
    def operations(self) -> list[Operation]:
        """The paths, each with its handler."""
        document, glossary, both = "/v2/document/{id}", "/v2/glossaries/{id}", ["GET", "POST"]
        return [
            Operation("/v2/translate", self.translate, DeepLBody, reads=FIELDS),
            Operation("/v2/document", self.upload, DeepLFile, reads=[MULTIPART]),
            Operation(document, self.status, DeepLKey, reads=FIELDS),
            Operation(f"{document}/result", self.download, DeepLKey, reads=FIELDS, writes=[BYTES]),
            Operation("/v2/glossaries", self.create_glossary, DeepLGlossary, reads=FIELDS),
            Operation("/v2/glossaries", self.list_glossaries),
            Operation(glossary, self.glossary),
            Operation(glossary, self.delete_glossary, methods=["DELETE"]),
            Operation(f"{glossary}/entries", self.entries, writes=[_TABLE]),
            Operation("/v2/glossary-language-pairs", self.glossary_pairs),
            Operation("/v2/languages", self.languages, DeepLLanguages, list[dict[str, Any]], FIELDS, methods=both),
            Operation("/v2/usage", self.usage, answer=dict[str, int], methods=both),
        ]

    async def translate(self, request: Request, body: DeepLBody, client: bytes) -> dict[str, object]:
        """Translate a text, or several; with `tag_handling`, keep their tags."""
        texts = [body.text] if isinstance(body.text, str) else body.text
        self._service.check_size(texts)
        glossary = self._glossary(client, body)
        routed, detected = await self._service.route_all(texts, body.source_lang or "", body.target_lang, client)
        sources = [body.source_lang or ""] * len(texts) if detected is None else [each["language"] for each in detected]
        routed = [
            text._replace(
                glossary=glossary, flags=body.flags, symbol=_symbol(body.formality, text) if text.path else ""
            )
            for text in routed
        ]
        if body.tag_handling is None:
            work = self._service.translate(routed)
        else:
            xml = partial(read_xml, splitting=_tags(body.splitting_tags), ignored=_tags(body.ignore_tags))
            read = xml if body.tag_handling == "xml" else HtmlText
            work = translate_pages(self._service, routed, read=read)
        translated = await unless_gone(request, work)
        self._num_characters[client] += sum(map(len, texts))
        kind = {"model_type_used": body.model_type.removeprefix("prefer_")} if body.model_type else {}
        return {"translations": [
            {"detected_source_language": base_code(src).upper(), "text": each.text, "billed_characters": len(text)}
            | kind | with_signs(each.flags)
            for text, src, each in zip(texts, sources, translated, strict=True)
        ]}  # fmt: skip

    async def upload(self, request: Request, body: DeepLFile, client: bytes) -> dict[str, object]:
        """Start to translate a document, and return its id and its key."""
        glossary = self._glossary(client, body)
        _symbol(body.formality, None)
        if body.source_lang:
            self._service.route("", body.source_lang, body.target_lang)
        if len(self._running) >= MAX_DOCUMENTS:
            raise RequestError(429, "too many documents are being translated", retry_after=10)
        task = asyncio.create_task(self._translate_document(body, glossary, client))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        size = len(body.file)
        self._num_characters[client] += size
        key = self._documents.add((size, task), size)
        return {"document_id": uuid4().hex, "document_key": key}

    async def status(self, request: Request, body: DeepLKey, client: bytes) -> dict[str, object]:
        """Tell whether a document is translated."""
        num_characters, task = self._documents.find(body.document_key)
        await asyncio.wait([task], timeout=PATIENCE_SECONDS)
        answer: dict[str, object] = {"document_id": request.path_params["id"], "status": "translating"}
        if not task.done():
            return answer | {"seconds_remaining": 5}
        if isinstance(result := task.result(), RequestError):
            return answer | {"status": "error", "error_message": result.detail}
        return answer | {"status": "done", "billed_characters": num_characters}

    async def download(self, request: Request, body: DeepLKey, client: bytes) -> Response:
        """Send a translated document."""
        _, task = self._documents.find(body.document_key)
        if not task.done():
            raise RequestError(503, "this document is still being translated", retry_after=5)
        if isinstance(result := task.result(), RequestError):
            raise result
        return Response(result, media_type=BYTES)

    async def create_glossary(self, request: Request, body: DeepLGlossary, client: bytes) -> Response:
        """Keep a glossary."""
        self._service.route("", body.source_lang, body.target_lang)
        if len(self._glossaries) >= MAX_GLOSSARIES:
            raise RequestError(_QUOTA_EXCEEDED, f"the limit is {MAX_GLOSSARIES:,} glossaries; delete some")
        terms = _read_terms(body)
        about: dict[str, object] = {
            "glossary_id": (number := str(uuid4())),
            "name": body.name,
            "ready": True,
            "source_lang": body.source_lang.lower(),
            "target_lang": body.target_lang.lower(),
            "creation_time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "entry_count": len(terms),
        }
        self._glossaries[client, number] = about, terms
        return as_json(about, 201)

    async def list_glossaries(self, request: Request, body: Fields, client: bytes) -> dict[str, object]:
        """List the glossaries of the client."""
        return {"glossaries": [about for (owner, _), (about, _) in self._glossaries.items() if owner == client]}

    async def glossary(self, request: Request, body: Fields, client: bytes) -> dict[str, object]:
        """Describe a glossary."""
        return self._find_glossary(client, request.path_params["id"])[0]

    async def delete_glossary(self, request: Request, body: Fields, client: bytes) -> Response:
        """Delete a glossary."""
        self._find_glossary(client, number := request.path_params["id"])
        del self._glossaries[client, number]
        return Response(status_code=204)

    async def entries(self, request: Request, body: Fields, client: bytes) -> Response:
        """Send the terms of a glossary, one per line, with a tab before each translation."""
        _, glossary = self._find_glossary(client, request.path_params["id"])
        return Response("\n".join(map("\t".join, glossary.terms)), media_type=_TABLE)

    async def glossary_pairs(self, request: Request, body: Fields, client: bytes) -> dict[str, object]:
        """List the directions for which there may be glossaries: all."""
        pairs = dict.fromkeys((base_code(src), base_code(tgt)) for src, tgt in self._service.models.directions)
        return {"supported_languages": [{"source_lang": src, "target_lang": tgt} for src, tgt in pairs]}

    async def languages(self, request: Request, body: DeepLLanguages, client: bytes) -> list[dict[str, object]]:
        """List the source languages, or of `type` target the target languages."""
        if body.type == "source":
            codes = [base_code(code).upper() for code in self._service.sources]
            return [{"language": code, "name": english_name(code.lower())} for code in dict.fromkeys(codes)]
        codes = [code.upper() for code in self._service.targets]
        codes = [variant for code in codes for variant in _VARIANTS.get(code, [code])]
        formal = {
            base_code(direction.tgt).upper()
            for direction, model in self._service.models.directions.items()
            if model.translator.tokenizers.know(["<formal>", "<informal>"])
        }
        return [
            {"language": code, "name": english_name(base_code(code)), "supports_formality": code[:2] in formal}
            for code in codes
        ]

    async def usage(self, request: Request, body: Fields, client: bytes) -> dict[str, int]:
        """Count the characters that the client has sent since the server started."""
        return {"character_count": self._num_characters[client], "character_limit": _NO_LIMIT}

    async def _translate_document(
        self, body: DeepLFile, glossary: Glossary | None, client: bytes
    ) -> bytes | RequestError:
        """Return a translated document."""
        source, target = body.source_lang or "auto", body.target_lang
        fields = FileBody(file=body.file, filename=body.filename, source=source, target=target)
        try:
            content, _ = await self._files.translate_document(fields, client, glossary)
        except RequestError as error:
            return error
        except Exception:
            log.exception("cannot translate a document")
            return RequestError(500, "cannot translate this document")
        return content

    def _glossary(self, client: bytes, options: DeepLOptions) -> Glossary | None:
        """Return the glossary of a request. RequestError if it does not fit."""
        if not options.glossary_id:
            return None
        if options.source_lang is None:
            raise RequestError(400, "a glossary needs source_lang")
        about, terms = self._find_glossary(client, options.glossary_id)
        known = str(about["source_lang"]), str(about["target_lang"])
        if [*map(base_code, known)] != [base_code(options.source_lang), base_code(options.target_lang)]:
            raise RequestError(400, f"this glossary is for {'-'.join(known)}")
        return terms

    def _find_glossary(self, client: bytes, number: str) -> tuple[dict[str, object], Glossary]:
        if (found := self._glossaries.get((client, number))) is None:
            raise RequestError(404, "there is no such glossary")
        return found


def read_xml(text: str, splitting: Collection[str], ignored: Collection[str]) -> XmlText:
    """Read XML as programs write it: after a document type without declarations, with HTML's entities, and with bare &.

    DataError as `XmlText`.
    """
    start = found.end() if (found := _DOCUMENT_TYPE.match(text)) else 0
    template = XmlText(_NOT_XML.sub(_as_xml, text[start:]), splitting, ignored)
    template.text = text[:start] + template.text
    return template


def _as_xml(reference: re.Match[str]) -> str:
    character = unescape(reference[0])
    return character if character != reference[0] else f"&amp;{reference[0][1:]}"


def _symbol(formality: str | None, text: Routed | None) -> str:
    """Return the tag for a `formality`; empty if none is asked for, or preferred and unknown to the model of `text`.

    RequestError (400) if the request insists on one that the model, or a document (None), does not have.
    """
    tag = _FORMALITIES.get((formality or "").removeprefix("prefer_"), "")
    if text is not None and not text.path:
        return ""
    is_known = text and len(text.path) == 1 and text.translators[0].tokenizers.know([tag.strip()])
    if formality in _FORMALITIES and not is_known:
        raise RequestError(400, "'formality' is not supported for given 'target_lang'.")
    return tag if is_known else ""


def _tags(names: str | Sequence[str]) -> list[str]:
    """Return names that may be separated by commas."""
    parts = ",".join([names] if isinstance(names, str) else names).split(",")
    return [name.strip() for name in parts if name.strip()]


def _read_terms(body: DeepLGlossary) -> Glossary:
    """Return the terms of a glossary. RequestError (400) if one cannot be used, or there are too many."""
    dialect = {"delimiter": "\t", "quoting": csv.QUOTE_NONE} if body.entries_format == "tsv" else {}
    glossary = Glossary()
    try:
        for row in csv.reader(StringIO(body.entries), strict=True, **dialect):  # type: ignore[arg-type]
            if not row:
                continue
            if len(row) < 2:
                raise DataError(f"no translation of {row[0][:100]}")
            glossary.add(row[0], row[1])
    except (DataError, csv.Error) as error:
        raise RequestError(400, f"Invalid glossary entries provided: {error}"[:500]) from None
    if not 0 < len(glossary) <= _MAX_TERMS:
        raise RequestError(400, f"Invalid glossary entries provided: {len(glossary):,} terms; 1 to {_MAX_TERMS:,} fit")
    return glossary
