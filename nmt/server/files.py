"""LibreTranslate's interface for documents: /translate_file and /download_file."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from nmt.documents.formats import Document, available_suffixes, read_document
from nmt.errors import NmtError
from nmt.server.blocks import translate_blocks
from nmt.server.bodies import read_body
from nmt.server.downloads import Downloads
from nmt.server.exchange import Exchange, as_json
from nmt.server.request_error import RequestError

_MAX_FIELDS = 10
_DETECTED_BLOCKS = 50  # from which the language of a document is detected
_NOT_IN_NAMES = re.compile(r"[^\w.-]+")


class _Upload(NamedTuple):
    """A document, and what is asked for it."""

    name: str
    content: bytes
    source: str
    target: str
    key: str


class Files:
    """Translates documents that are uploaded."""

    def __init__(self, exchange: Exchange):
        self._exchange = exchange
        self._service = exchange.service
        self._downloads = Downloads()

    @property
    def routes(self) -> list[Route]:
        """The paths, each with the function that answers it."""
        return [
            Route("/translate_file", self.translate, methods=["POST"]),
            Route("/download_file/{key}", self.download),
        ]

    async def translate(self, request: Request) -> Response:
        """Translate a document, and say where to fetch it."""
        limit = self._service.settings.file_limit
        if not limit:
            raise RequestError(403, "this server translates no documents")
        upload = await _read_form(request, await read_body(request, self._service.settings, limit))
        self._exchange.access.check(request, upload.key)
        name = Path(upload.name)
        work = self._translate(name.suffix.lower(), upload)
        translated = await self._exchange.unless_gone(request, work)
        key = self._downloads.add(_NOT_IN_NAMES.sub("_", f"{name.stem[:100]}.{upload.target}{name.suffix}"), translated)
        return as_json({"translatedFileUrl": f"{request.base_url}download_file/{key}"})

    async def download(self, request: Request) -> Response:
        """Send a translated document."""
        if (found := self._downloads.find(request.path_params["key"])) is None:
            raise RequestError(404, "there is no such document, or no longer")
        headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(found.name)}"}
        return Response(found.content, media_type="application/octet-stream", headers=headers)

    async def _translate(self, suffix: str, upload: _Upload) -> bytes:
        if suffix not in available_suffixes():
            raise RequestError(400, f"Invalid request: send one of {', '.join(available_suffixes())}")
        document = await asyncio.to_thread(_read, upload.content, suffix)
        blocks = document.blocks
        texts = [block.plain() for block in blocks]
        if (size := sum(map(len, texts))) > (limit := self._service.settings.file_limit):
            raise RequestError(400, f"{size:,} characters in one document; the limit is {limit:,}")
        source = upload.source
        if source == "auto":
            source = self._service.detector.detect(" ".join(texts[:_DETECTED_BLOCKS]))[0].language
        found = await translate_blocks(self._service, self._service.route("", source, upload.target), blocks)
        return await asyncio.to_thread(document.save, [outputs[0] for outputs in found])


async def _read_form(request: Request, content: bytes) -> _Upload:
    """Return the fields of a form with a file. RequestError (400, 415) if it is none, or one is missing."""

    async def replay() -> dict[str, object]:
        return {"type": "http.request", "body": content, "more_body": False}

    if not request.headers.get("content-type", "").lower().startswith("multipart/form-data"):
        raise RequestError(415, "send multipart/form-data")
    try:
        async with Request(request.scope, replay).form(max_files=1, max_fields=_MAX_FIELDS) as form:
            file = form.get("file")
            if not isinstance(file, UploadFile) or not file.filename:
                raise RequestError(400, "Invalid request: missing file parameter")
            texts = {name: value for name, value in form.items() if isinstance(value, str)}
            if missing := [name for name in ("source", "target") if not texts.get(name)]:
                raise RequestError(400, f"Invalid request: missing {missing[0]} parameter")
            key = texts.get("api_key", "")
            return _Upload(file.filename, await file.read(), texts["source"], texts["target"], key)
    except HTTPException as error:
        raise RequestError(400, f"the body is not a form ({error.detail})"[:200]) from None


def _read(content: bytes, suffix: str) -> Document:
    """Return the document. RequestError (400) if it is not of the format."""
    try:
        return read_document(content, f"document{suffix}")
    except NmtError as error:
        raise RequestError(400, error.message) from None
