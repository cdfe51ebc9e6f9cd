"""LibreTranslate's API for documents: /translate_file and /download_file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from nmt.apps.documents.blocks import Block
from nmt.apps.documents.formats import Document, available_suffixes, read_document
from nmt.apps.documents.translation import TranslatedBlock, merge, with_flags
from nmt.apps.server.blocks import translate_blocks
from nmt.apps.server.bodies import MAX_CODE, read_body
from nmt.apps.server.downloads import Downloads
from nmt.apps.server.exchange import Exchange, as_json
from nmt.apps.server.request_error import RequestError
from nmt.apps.server.settings import MAX_TERMS
from nmt.apps.server.threads import Threads
from nmt.base.errors import DataError, NmtError
from nmt.data.text.glossary import Glossary, parse_glossary

_MAX_FIELDS = 10
_NUM_THREADS = 2  # that read and write documents
_DETECTED_BLOCKS = 50  # from which the language of a document is detected
_NOT_IN_NAMES = re.compile(r"[^\w.-]+")


class _Upload(NamedTuple):
    """An uploaded document with the fields of its form."""

    name: str
    content: bytes
    source: str
    target: str
    key: str
    glossary: str  # terms as in a file, one per line


class _Parsed(NamedTuple):
    """An upload as it is translated: the document, its blocks, the beginning of its text, and the glossary."""

    document: Document
    blocks: list[Block]
    beginning: str
    glossary: Glossary | None


class Files:
    """Translates documents that are uploaded."""

    def __init__(self, exchange: Exchange):
        self._exchange = exchange
        self._service = exchange.service
        self._downloads = Downloads()
        self._threads = Threads(_NUM_THREADS)

    @property
    def routes(self) -> list[Route]:
        """The paths, each with its handler."""
        return [
            Route("/translate_file", self.translate, methods=["POST"]),
            Route("/download_file/{key}", self.download),
        ]

    async def translate(self, request: Request) -> Response:
        """Translate a document, and return its download URL."""
        limit = self._service.settings.file_limit
        if not limit:
            raise RequestError(403, "this server does not translate documents")
        upload = await _read_form(request, await read_body(request, self._service.settings, limit))
        self._exchange.access.check(request, upload.key)
        name = Path(upload.name)
        work = self._translate(name.suffix.lower(), upload)
        translated, blocks = await self._exchange.unless_gone(request, work)
        key = self._downloads.add(_NOT_IN_NAMES.sub("_", f"{name.stem[:100]}.{upload.target}{name.suffix}"), translated)
        answer: dict[str, object] = {"translatedFileUrl": f"{request.base_url}download_file/{key}"}
        missed = [term for block in blocks for term in block.terms_missed]
        flags = merge([block.flags for block in blocks])
        return as_json(answer | ({"terms_missed": missed} if upload.glossary else {}) | with_flags(flags))

    async def download(self, request: Request) -> Response:
        """Send a translated document."""
        self._exchange.access.check(request)
        if (found := self._downloads.find(request.path_params["key"])) is None:
            raise RequestError(404, "this document does not exist or has expired")
        headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(found.name)}"}
        return Response(found.content, media_type="application/octet-stream", headers=headers)

    async def _translate(self, suffix: str, upload: _Upload) -> tuple[bytes, list[TranslatedBlock]]:
        """Return the translated document and its blocks."""
        if suffix not in available_suffixes():
            raise RequestError(400, f"Invalid request: send one of {', '.join(available_suffixes())}")
        async with self._service.in_time():  # what waits for a thread, too
            parsed = await self._threads.run(_parse, upload, suffix, self._service.settings.file_limit)
            document, blocks, beginning, glossary = parsed
            source = upload.source
            if source == "auto":
                source = self._service.detector.detect(beginning)[0].language
            routed = self._service.route("", source, upload.target)
            routed = routed._replace(terms=() if glossary is None else tuple(glossary.terms))
            found = await translate_blocks(self._service, routed, blocks, threads=self._threads)
            return await self._threads.run(document.save, [block.written[0] for block in found]), found


async def _read_form(request: Request, content: bytes) -> _Upload:
    """Return the fields of a form with a file. RequestError (400, 415) if it is not a form, or lacks a field."""

    async def replay() -> dict[str, object]:
        return {"type": "http.request", "body": content, "more_body": False}

    if not request.headers.get("content-type", "").lower().startswith("multipart/form-data"):
        raise RequestError(415, "send multipart/form-data")
    try:
        async with Request(request.scope, replay).form(max_files=2, max_fields=_MAX_FIELDS) as form:
            file = form.get("file")
            if not isinstance(file, UploadFile) or not file.filename:
                raise RequestError(400, "Invalid request: missing file parameter")
            texts = {name: value for name, value in form.items() if isinstance(value, str)}
            if missing := [name for name in ("source", "target") if not texts.get(name)]:
                raise RequestError(400, f"Invalid request: missing {missing[0]} parameter")
            if long := [name for name in ("source", "target") if len(texts[name]) > MAX_CODE]:
                message = f"Invalid request: {long[0]}: String should have at most {MAX_CODE} characters"
                raise RequestError(400, message)
            key = texts.get("api_key", "")
            glossary = texts.get("glossary", "") or await _text_of(form.get("glossary"))
            return _Upload(file.filename, await file.read(), texts["source"], texts["target"], key, glossary)
    except HTTPException as error:
        raise RequestError(400, f"the body is not a form ({error.detail})"[:200]) from None


async def _text_of(file: object) -> str:
    """Return the text of an uploaded file; empty if there is no file. RequestError (400) if it is not UTF-8."""
    try:
        return (await file.read()).decode("utf-8-sig") if isinstance(file, UploadFile) else ""
    except UnicodeDecodeError:
        raise RequestError(400, "Invalid request: glossary: not UTF-8") from None


def _parse(upload: _Upload, suffix: str, limit: int) -> _Parsed:
    """Return the parts of an upload. RequestError (400) if one cannot be read, or they have too many characters."""
    glossary = _read_terms(upload.glossary) if upload.glossary else None
    document = _read(upload.content, suffix, limit)
    blocks = document.blocks
    texts = [block.plain() for block in blocks]
    if (size := sum(map(len, texts)) + len(upload.glossary)) > limit:
        raise RequestError(400, f"{size:,} characters in one document; the limit is {limit:,}")
    return _Parsed(document, blocks, " ".join(texts[:_DETECTED_BLOCKS]), glossary)


def _read_terms(text: str) -> Glossary:
    """Return the terms of a glossary. RequestError (400) if a line is not a term, or there are too many."""
    lines = text.splitlines()
    sources = {" ".join(line.partition("\t")[0].split()) for line in lines if line.strip() and line[0] != "#"}
    if len(sources) > MAX_TERMS:
        raise RequestError(400, f"{len(sources):,} terms in one glossary; the limit is {MAX_TERMS:,}")
    try:
        return parse_glossary(lines)
    except DataError as error:
        line = f"line {error.line}: " if error.line else ""
        raise RequestError(400, f"Invalid request: glossary: {line}{error.message}"[:500]) from None


def _read(content: bytes, suffix: str, limit: int) -> Document:
    """Return the document. RequestError (400) if it is not in the format of its suffix, or is too large."""
    try:
        return read_document(content, f"document{suffix}", limit)
    except NmtError as error:
        raise RequestError(400, error.message) from None
