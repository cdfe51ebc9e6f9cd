"""DeepL's API, version 2, for tools that translators have: texts, documents, glossaries, languages and usage.

Glossaries, translated documents and the count of characters are in memory, and end with the server.
"""

from __future__ import annotations

import asyncio
import csv
import logging
import re
from collections import Counter, OrderedDict
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from functools import partial
from html import unescape
from io import StringIO
from pathlib import Path
from urllib.parse import parse_qs
from uuid import uuid4

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from nmt.apps.documents.markup import HtmlText, XmlText
from nmt.apps.server.access import Access
from nmt.apps.server.blocks import translate_pages
from nmt.apps.server.bodies import DeepLBody, DeepLFile, DeepLGlossary, DeepLKey, DeepLOptions, FileBody
from nmt.apps.server.files import Downloads, Files, read_form
from nmt.apps.server.requests import RequestError, as_json, read_body, read_fields, unless_gone
from nmt.apps.server.service import Routed, Service, with_signs
from nmt.apps.server.settings import MAX_TERMS
from nmt.apps.server.threads import Threads
from nmt.base.errors import DataError
from nmt.base.languages import base_code, english_name
from nmt.data.text.glossary import Glossary

log = logging.getLogger(__name__)

MAX_GLOSSARIES, MAX_DOCUMENTS = 1000, 200  # in memory, of all clients
_QUOTA_EXCEEDED = 456  # DeepL's status for it
_NO_LIMIT = 1_000_000_000_000  # characters, as DeepL writes it
_NUM_THREADS = 4  # for texts with tags
PATIENCE_SECONDS = 1.0  # that a question for the status waits for the end, since clients sleep for 5 seconds
_FORMALITIES = {"more": "<formal> ", "less": "<informal> "}  # tags of a model that learned both
_VARIANTS = {"EN": ("EN-GB", "EN-US"), "PT": ("PT-BR", "PT-PT")}  # clients refuse these targets without a variant

_DOCUMENT_TYPE = re.compile(r"\s*(?:<\?xml[^>]*\?>)?\s*<!DOCTYPE[^\[<>]*>", re.IGNORECASE)
_NOT_XML = re.compile(r"&(?!(?:amp|lt|gt|quot|apos|#\d+|#x[\da-fA-F]+);)(?:\w{1,32};)?")

_Translating = asyncio.Task[str | RequestError]  # of a document; returns its key in the downloads


class DeepL:
    """Handles requests from DeepL clients."""

    def __init__(self, service: Service, access: Access, files: Files):
        self._service, self._access, self._files = service, access, files
        self._threads = Threads(_NUM_THREADS)
        self._downloads = Downloads()
        self._documents: OrderedDict[tuple[str, str], tuple[int, _Translating]] = OrderedDict()  # bytes, by id and key
        self._glossaries: dict[tuple[bytes, str], tuple[dict[str, object], Glossary]] = {}  # by client and id
        self._num_characters: Counter[bytes] = Counter()

    @property
    def routes(self) -> list[Route]:
        """The paths, each with its handler."""
        return [
            Route("/v2/translate", self.translate, methods=["POST"]),
            Route("/v2/document", self.upload, methods=["POST"]),
            Route("/v2/document/{id}", self.status, methods=["POST"]),
            Route("/v2/document/{id}/result", self.download, methods=["POST"]),
            Route("/v2/glossaries", self.create_glossary, methods=["POST"]),
            Route("/v2/glossaries", self.list_glossaries),
            Route("/v2/glossaries/{id}", self.glossary, methods=["GET", "DELETE"]),
            Route("/v2/glossaries/{id}/entries", self.entries),
            Route("/v2/glossary-language-pairs", self.glossary_pairs),
            Route("/v2/languages", self.languages, methods=["GET", "POST"]),
            Route("/v2/usage", self.usage, methods=["GET", "POST"]),
        ]

    async def translate(self, request: Request) -> Response:
        """Translate a text, or several; with `tag_handling`, keep their tags."""
        body = await read_fields(request, self._service.settings, DeepLBody)
        client = self._access.check(request, body.auth_key)
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
            work = translate_pages(self._service, self._threads, routed, read=read)
        translated = await unless_gone(request, work)
        self._num_characters[client] += sum(map(len, texts))
        kind = {"model_type_used": body.model_type.removeprefix("prefer_")} if body.model_type else {}
        return as_json({"translations": [
            {"detected_source_language": base_code(src).upper(), "text": each.text, "billed_characters": len(text)}
            | kind | with_signs(each.flags)
            for text, src, each in zip(texts, sources, translated, strict=True)
        ]})  # fmt: skip

    async def upload(self, request: Request) -> Response:
        """Start to translate a document, and return its id and its key."""
        if not (limit := self._service.settings.file_limit):
            raise RequestError(403, "this server does not translate documents")
        name, body = await read_form(request, await read_body(request, self._service.settings, limit), DeepLFile)
        client = self._access.check(request, body.auth_key)
        glossary = self._glossary(client, body)
        _symbol(body.formality, None)
        if body.source_lang:
            self._service.route("", body.source_lang, body.target_lang)
        while len(self._documents) >= MAX_DOCUMENTS:
            oldest = next(iter(self._documents))
            if not self._documents[oldest][1].done():
                raise RequestError(429, "too many documents are being translated", retry_after=10)
            del self._documents[oldest]
        number, key = uuid4().hex.upper(), uuid4().hex + uuid4().hex
        task = asyncio.create_task(self._translate_document(name, body, glossary, client))
        self._documents[number, key] = len(body.file), task
        self._num_characters[client] += len(body.file)
        return as_json({"document_id": number, "document_key": key})

    async def status(self, request: Request) -> Response:
        """Tell whether a document is translated."""
        num_characters, task = await self._find_document(request)
        await asyncio.wait([task], timeout=PATIENCE_SECONDS)
        answer: dict[str, object] = {"document_id": request.path_params["id"], "status": "translating"}
        if not task.done():
            return as_json(answer | {"seconds_remaining": 5})
        if isinstance(result := task.result(), RequestError):
            return as_json(answer | {"status": "error", "error_message": result.detail})
        return as_json(answer | {"status": "done", "billed_characters": num_characters})

    async def download(self, request: Request) -> Response:
        """Send a translated document."""
        _, task = await self._find_document(request)
        if not task.done():
            raise RequestError(503, "this document is still being translated", retry_after=5)
        if isinstance(result := task.result(), RequestError):
            raise result
        if (found := self._downloads.find(result)) is None:
            raise RequestError(404, "this document has expired")
        return Response(found[1], media_type="application/octet-stream")

    async def create_glossary(self, request: Request) -> Response:
        """Keep a glossary."""
        body = await read_fields(request, self._service.settings, DeepLGlossary)
        client = self._access.check(request)
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

    async def list_glossaries(self, request: Request) -> Response:
        """List the glossaries of the client."""
        client = self._access.check(request)
        return as_json(
            {"glossaries": [about for (owner, _), (about, _) in self._glossaries.items() if owner == client]}
        )

    async def glossary(self, request: Request) -> Response:
        """Describe a glossary, or delete it."""
        about, _ = self._find_glossary(client := self._access.check(request), number := request.path_params["id"])
        if request.method != "DELETE":
            return as_json(about)
        del self._glossaries[client, number]
        return Response(status_code=204)

    async def entries(self, request: Request) -> Response:
        """Send the terms of a glossary, one per line, with a tab before each translation."""
        _, glossary = self._find_glossary(self._access.check(request), request.path_params["id"])
        return Response("\n".join(map("\t".join, glossary.terms)), media_type="text/tab-separated-values")

    async def glossary_pairs(self, request: Request) -> Response:
        """List the directions for which there may be glossaries: all."""
        self._access.check(request)
        pairs = dict.fromkeys((base_code(src), base_code(tgt)) for src, tgt in self._service.models.directions)
        return as_json({"supported_languages": [{"source_lang": src, "target_lang": tgt} for src, tgt in pairs]})

    async def languages(self, request: Request) -> Response:
        """List the source languages, or of `type` target the target languages."""
        self._access.check(request)
        form = parse_qs((await read_body(request, self._service.settings)).decode("latin-1"))
        if request.query_params.get("type", form.get("type", ["source"])[0]) == "source":
            codes = [base_code(code).upper() for code in self._service.sources]
            return as_json([{"language": code, "name": english_name(code.lower())} for code in dict.fromkeys(codes)])
        codes = [code.upper() for code in self._service.targets]
        codes = [variant for code in codes for variant in _VARIANTS.get(code, [code])]
        formal = {
            base_code(direction.tgt).upper()
            for direction, model in self._service.models.directions.items()
            if model.translator.tokenizers.know(["<formal>", "<informal>"])
        }
        return as_json([
            {"language": code, "name": english_name(base_code(code)), "supports_formality": code[:2] in formal}
            for code in codes
        ])  # fmt: skip

    async def usage(self, request: Request) -> Response:
        """Count the characters that the client has sent since the server started."""
        count = self._num_characters[self._access.check(request)]
        return as_json({"character_count": count, "character_limit": _NO_LIMIT})

    async def _translate_document(
        self, path: Path, body: DeepLFile, glossary: Glossary | None, client: bytes
    ) -> str | RequestError:
        """Return the key of a translated document in the downloads."""
        fields = FileBody(file=body.file, source=body.source_lang or "auto", target=body.target_lang)
        try:
            content, _ = await self._files.translate_document(path.suffix.lower(), fields, client, glossary)
        except RequestError as error:
            return error
        except Exception:
            log.exception("cannot translate a document")
            return RequestError(500, "cannot translate this document")
        return self._downloads.add(path.name, content)

    async def _find_document(self, request: Request) -> tuple[int, _Translating]:
        """Return the document that a request names with its key. RequestError (404) if there is none."""
        body = await read_fields(request, self._service.settings, DeepLKey)
        self._access.check(request)
        if (document := self._documents.get((request.path_params["id"], body.document_key))) is None:
            raise RequestError(404, "there is no such document")
        return document

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
    if not 0 < len(glossary) <= MAX_TERMS:
        raise RequestError(400, f"Invalid glossary entries provided: {len(glossary):,} terms; 1 to {MAX_TERMS:,} fit")
    return glossary
