"""LibreTranslate's API for documents, /translate_file and /download_file, and nmt's own, /translate_document."""

from __future__ import annotations

import logging
import re
import time
from collections import OrderedDict
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Generic, TypeVar
from urllib.parse import quote
from uuid import uuid4

from starlette.requests import Request
from starlette.responses import Response

from nmt.apps.documents.blocks import Document
from nmt.apps.documents.formats import available_suffixes, read_document
from nmt.apps.documents.review import entry_of, read_reviewed, review_list
from nmt.apps.documents.translation import TranslatedBlock
from nmt.apps.server.blocks import faults_of, translate_blocks
from nmt.apps.server.bodies import Detection, DocumentBody, Fields, FileBody, TranslatedDocument, TranslatedFile
from nmt.apps.server.operations import BYTES, Operation
from nmt.apps.server.requests import MULTIPART, RequestError, refusal, unless_gone
from nmt.apps.server.service import Service, with_signs
from nmt.apps.server.settings import MAX_TERMS
from nmt.apps.server.threads import Threads
from nmt.base.errors import NmtError
from nmt.base.languages import Direction
from nmt.data.text.glossary import Glossary, parse_glossary

log = logging.getLogger(__name__)

_NUM_THREADS = 2  # that read and write documents
_DETECTED_BLOCKS = 50  # from which the language of a document is detected
_NOT_IN_NAMES = re.compile(r"[^\w.-]+")
_MAX_UNPACKED = 2  # of a list in .xlsx, in bytes: that times the limit of a document
_KEPT_SECONDS = 600.0
_KEPT_BYTES = 100_000_000  # of all documents; the oldest are dropped

Item = TypeVar("Item")


class Kept(Generic[Item]):
    """Documents of clients, kept in memory for ten minutes by keys that nobody can guess."""

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self._clock = clock
        self._documents: OrderedDict[str, tuple[float, int, Item]] = OrderedDict()  # time and bytes, by key

    def add(self, document: Item, num_bytes: int) -> str:
        """Keep a document; return its key."""
        self._drop_expired()
        key = uuid4().hex
        self._documents[key] = self._clock(), num_bytes, document
        while len(self._documents) > 1 and sum(size for _, size, _ in self._documents.values()) > _KEPT_BYTES:
            self._documents.popitem(last=False)
        return key

    def find(self, key: str) -> Item:
        """Return a document. RequestError (404) if it does not exist or has expired."""
        self._drop_expired()
        if key not in self._documents:
            raise RequestError(404, "this document does not exist or has expired")
        return self._documents[key][2]

    def _drop_expired(self) -> None:
        while self._documents and self._clock() - next(iter(self._documents.values()))[0] > _KEPT_SECONDS:
            self._documents.popitem(last=False)


class Files:
    """Translates documents that are uploaded."""

    def __init__(self, service: Service):
        self._service = service
        self._translated: Kept[tuple[str, bytes]] = Kept()  # names and contents
        self._threads = Threads(_NUM_THREADS)

    @Operation("/translate_file", FileBody, TranslatedFile, [MULTIPART])
    @Operation("/translate_document", DocumentBody, TranslatedDocument, [MULTIPART])
    async def translate(self, request: Request, body: FileBody, client: bytes) -> dict[str, object]:
        """Translate a document, and return its download URL."""
        form = DocumentBody(**dict(body))
        content, blocks, detected, listed = await unless_gone(request, self.translate_document(form, client))

        def keep(suffix: str, content: bytes) -> str:
            name = _NOT_IN_NAMES.sub("_", f"{Path(body.filename).stem[:100]}.{body.target}{suffix}")
            return f"{request.base_url}download_file/{self._translated.add((name, content), len(content))}"

        missed, flags = faults_of(blocks)
        return {
            "translatedFileUrl": keep(Path(body.filename).suffix, content),
            **({"reviewUrl": keep(f".review.{form.review}", listed)} if listed else {}),
            **({"terms_missed": missed} if body.glossary else {}),
            **with_signs(flags),
            **({"detectedLanguage": detected[0]} if detected else {}),
        }

    @Operation("/download_file/{key}", writes=[BYTES])
    async def download(self, request: Request, body: Fields, client: bytes) -> Response:
        """Send a translated document, or a list of translations."""
        name, content = self._translated.find(request.path_params["key"])
        headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(name)}"}
        return Response(content, media_type=BYTES, headers=headers)

    async def translate_document(
        self, body: DocumentBody, client: bytes, stored: Glossary | None = None
    ) -> tuple[bytes, list[TranslatedBlock], list[Detection] | None, bytes]:
        """Return a client's translated document, its blocks, its language, if the client names none, and their list.

        A glossary that is `stored` replaces the body's.
        """
        if (suffix := Path(body.filename).suffix.lower()) not in available_suffixes():
            raise RequestError(400, f"Invalid file extension: send one of {', '.join(available_suffixes())}")
        limit = self._service.settings.file_limit
        async with self._service.in_time():  # what waits for a thread, too
            document, glossary = await self._threads.run(_parse, body, suffix, limit)
            beginning = " ".join(block.plain() for block in document.blocks[:_DETECTED_BLOCKS])
            (routed,), detected = await self._service.route_all([beginning], body.source, body.target, client)
            translated: list[TranslatedBlock] = []
            listed = b""
            if body.reviewed or body.reviewedname:
                with refusal("reviewed: "):
                    written = await self._threads.run(
                        read_reviewed, body.reviewed, Path(body.reviewedname), document.blocks, _MAX_UNPACKED * limit
                    )
            elif not routed.path:
                return body.file, [], detected, b""
            else:
                routed = routed._replace(glossary=stored or glossary, flags=True)
                translated = await translate_blocks(self._service, routed, document.blocks)
                written = [block.written[0] for block in translated]
            document.name_language(body.target)
            content = await self._threads.run(document.content_with, written)
            if body.review and translated:
                direction = Direction(routed.path[0][0].src, body.target)
                entries = map(entry_of, count(1), document.blocks, translated)
                with refusal("review: "):
                    listed = await self._threads.run(review_list, f".{body.review}", entries, direction)
            return content, translated, detected, listed


def _parse(body: FileBody, suffix: str, limit: int) -> tuple[Document, Glossary | None]:
    """Return the document and the glossary. RequestError (400) if one cannot be read, or they are too large."""
    glossary = _read_terms(body.glossary) if body.glossary else None
    try:
        document = read_document(body.file, f"document{suffix}", limit, lines=body.lines)
    except NmtError as error:
        raise RequestError(400, error.message) from None
    except Exception:  # of a parser: whatever a stranger sends is no fault of the server
        log.exception("cannot read a document")
        raise RequestError(400, "this document cannot be read") from None
    if (size := sum(len(block.plain()) for block in document.blocks) + len(body.glossary)) > limit:
        raise RequestError(400, f"{size:,} characters in one document; the limit is {limit:,}")
    return document, glossary


def _read_terms(text: str) -> Glossary:
    """Return the terms of a glossary. RequestError (400) if a line is not a term, or there are too many."""
    with refusal("Invalid request: glossary: "):
        glossary = parse_glossary(text.removeprefix("\ufeff").splitlines())
    if len(glossary) > MAX_TERMS:
        raise RequestError(400, f"{len(glossary):,} terms in one glossary; the limit is {MAX_TERMS:,}")
    return glossary
