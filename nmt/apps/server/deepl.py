"""DeepL's API, version 2, for tools that translators have; of version 3, the glossaries.

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
from typing import Any, NamedTuple
from uuid import uuid4

from starlette.requests import Request
from starlette.responses import Response

from nmt.apps.documents.markup import HtmlText, XmlText
from nmt.apps.server.blocks import translate_pages
from nmt.apps.server.bodies import (
    DeepLBody,
    DeepLChange,
    DeepLFile,
    DeepLGlossaries,
    DeepLGlossary,
    DeepLKey,
    DeepLLanguages,
    DeepLOptions,
    DeepLTerms,
    DocumentBody,
    Fields,
)
from nmt.apps.server.files import Files, Kept
from nmt.apps.server.operations import BYTES, Operation
from nmt.apps.server.requests import MULTIPART, RequestError, as_json, as_list, refusal, unless_gone
from nmt.apps.server.routes import Routed
from nmt.apps.server.service import Service, with_signs
from nmt.base.errors import DataError, in_words
from nmt.base.languages import english_name, standard_code
from nmt.data.text.glossary import Glossary

log = logging.getLogger(__name__)

MAX_GLOSSARIES = 1000  # in memory, of all clients; each direction of one counts
_MAX_TERMS = 10_000  # of a glossary, in one direction
MAX_DOCUMENTS = 200  # that are being translated, of all clients
_QUOTA_EXCEEDED = 456  # DeepL's status for it
_NO_LIMIT = 1_000_000_000_000  # characters, as DeepL writes it
_TABLE = "text/tab-separated-values"
PATIENCE_SECONDS = 1.0  # that a question for the status waits for the end, since clients sleep for 5 seconds
_FORMALITIES = {"more": "<formal> ", "less": "<informal> "}  # tags of a model that learned both
_VARIANTS = {"EN": ("EN-GB", "EN-US"), "PT": ("PT-BR", "PT-PT")}  # clients refuse these targets without a variant

_NOT_XML = re.compile(r"&(?!(?:amp|lt|gt|quot|apos|#\d+|#x[\da-fA-F]+);)(?:\w{1,32};)?")


_Terms = dict[tuple[str, str], Glossary]  # by language codes without region


class _Kept(NamedTuple):
    """A glossary with the terms of each direction."""

    facts: dict[str, object]
    terms: _Terms

    def about(self) -> dict[str, object]:
        """Describe it for both versions of the API; version 2 knows one direction, in `source_lang` and so on."""
        dictionaries = [_about(*each) for each in self.terms.items()]
        first = dictionaries[0] if len(dictionaries) == 1 else {}
        return self.facts | first | {"dictionaries": dictionaries}


def _about(direction: tuple[str, str], terms: Glossary) -> dict[str, object]:
    source, target = direction
    return {"source_lang": source, "target_lang": target, "entry_count": len(terms)}


_Translating = asyncio.Task[bytes | RequestError]  # of a document


class DeepL:
    """Handles requests from DeepL clients."""

    def __init__(self, service: Service, files: Files):
        self._service, self._files = service, files
        self._documents: Kept[tuple[int, _Translating]] = Kept()  # with the numbers of their bytes
        self._running: set[_Translating] = set()
        self._glossaries: dict[tuple[bytes, str], _Kept] = {}  # by client and id
        self._num_characters: Counter[bytes] = Counter()

    @Operation("/v2/translate", DeepLBody)
    async def translate(self, request: Request, body: DeepLBody, client: bytes) -> dict[str, object]:
        """Translate a text, or several; with `tag_handling`, keep their tags."""
        texts = as_list(body.text)
        self._service.check_size(texts)
        glossary = self._glossary(client, body)
        source = body.source_lang or "auto"
        routed, detected = await self._service.route_all(
            texts, source, body.target_lang, client, are_pages=body.tag_handling is not None
        )
        sources = [source] * len(texts) if detected is None else [each["language"] for each in detected]
        routed = [
            text._replace(glossary=glossary, flags=body.flags, symbol=_symbol(body.formality, text)) for text in routed
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
            {"detected_source_language": standard_code(src).upper(), "text": each.text, "billed_characters": len(text)}
            | kind | with_signs(each.flags)
            for text, src, each in zip(texts, sources, translated, strict=True)
        ]}  # fmt: skip

    @Operation("/v2/document", DeepLFile, reads=[MULTIPART])
    async def upload(self, request: Request, body: DeepLFile, client: bytes) -> dict[str, object]:
        """Start to translate a document, and return its id and its key."""
        glossary = self._glossary(client, body)
        _symbol(body.formality, None)
        if body.source_lang:
            self._service.routes.route(body.source_lang, body.target_lang)
        if len(self._running) >= MAX_DOCUMENTS:
            raise RequestError(429, "too many documents are being translated", retry_after=10)
        task = asyncio.create_task(self._translate_document(body, glossary, client))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        size = len(body.file)
        self._num_characters[client] += size
        key = self._documents.add((size, task), size)
        return {"document_id": uuid4().hex, "document_key": key}

    @Operation("/v2/document/{id}", DeepLKey)
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

    @Operation("/v2/document/{id}/result", DeepLKey, writes=[BYTES])
    async def download(self, request: Request, body: DeepLKey, client: bytes) -> Response:
        """Send a translated document."""
        _, task = self._documents.find(body.document_key)
        if not task.done():
            raise RequestError(503, "this document is still being translated", retry_after=5)
        if isinstance(result := task.result(), RequestError):
            raise result
        return Response(result, media_type=BYTES)

    @Operation("/v2/glossaries", DeepLGlossary)
    @Operation("/v3/glossaries", DeepLGlossaries)
    async def create_glossary(self, request: Request, body: DeepLGlossary | DeepLGlossaries, client: bytes) -> Response:
        """Keep a glossary."""
        terms = self._with_terms({}, [body] if isinstance(body, DeepLGlossary) else body.dictionaries)
        facts: dict[str, object] = {
            "glossary_id": (number := str(uuid4())),
            "name": body.name,
            "ready": True,
            "creation_time": datetime.now(UTC).isoformat(timespec="milliseconds"),
        }
        kept = self._glossaries[client, number] = _Kept(facts, terms)
        return as_json(kept.about(), 201)

    @Operation("/v2/glossaries")
    @Operation("/v3/glossaries")
    async def list_glossaries(self, request: Request, body: Fields, client: bytes) -> dict[str, object]:
        """List the glossaries of the client; for version 2, those of one direction."""
        own = [kept.about() for (owner, _), kept in self._glossaries.items() if owner == client]
        return {"glossaries": [about for about in own if request.url.path.startswith("/v3/") or "source_lang" in about]}

    @Operation("/v2/glossaries/{id}")
    @Operation("/v3/glossaries/{id}")
    async def glossary(self, request: Request, body: Fields, client: bytes) -> dict[str, object]:
        """Describe a glossary."""
        return self._find_glossary(client, request.path_params["id"]).about()

    @Operation("/v2/glossaries/{id}", methods=["DELETE"])
    @Operation("/v3/glossaries/{id}", methods=["DELETE"])
    async def delete_glossary(self, request: Request, body: Fields, client: bytes) -> Response:
        """Delete a glossary."""
        self._find_glossary(client, number := request.path_params["id"])
        del self._glossaries[client, number]
        return Response(status_code=204)

    @Operation("/v3/glossaries/{id}", DeepLChange, methods=["PATCH"])
    async def change_glossary(self, request: Request, body: DeepLChange, client: bytes) -> dict[str, object]:
        """Rename a glossary, or add terms to it."""
        kept = self._find_glossary(client, request.path_params["id"])
        kept.terms.update(self._with_terms(kept.terms, body.dictionaries))
        kept.facts["name"] = body.name or kept.facts["name"]
        return kept.about()

    @Operation("/v2/glossaries/{id}/entries", writes=[_TABLE])
    async def entries(self, request: Request, body: Fields, client: bytes) -> Response:
        """Send the terms of a glossary, one per line, with a tab before each translation."""
        kept = self._find_glossary(client, request.path_params["id"])
        return Response("\n".join(map(_table, kept.terms.values())), media_type=_TABLE)

    @Operation("/v3/glossaries/{id}/entries")
    @Operation("/v3/glossaries/{id}/dictionaries", methods=["DELETE"])
    async def dictionary(self, request: Request, body: Fields, client: bytes) -> dict[str, object] | Response:
        """Send the terms of a glossary in the direction that the query names, or delete them."""
        kept = self._find_glossary(client, request.path_params["id"])
        query = request.query_params
        direction = standard_code(query.get("source_lang", "")), standard_code(query.get("target_lang", ""))
        if (terms := kept.terms.get(direction)) is None:
            raise RequestError(404, "this glossary has no dictionary for source_lang and target_lang of the query")
        if request.method == "DELETE":
            del kept.terms[direction]
            return Response(status_code=204)
        return {"dictionaries": [_about(direction, terms) | {"entries": _table(terms), "entries_format": "tsv"}]}

    @Operation("/v3/glossaries/{id}/dictionaries", DeepLTerms, methods=["PUT"])
    async def replace_dictionary(self, request: Request, body: DeepLTerms, client: bytes) -> dict[str, object]:
        """Replace the terms of a glossary in one direction."""
        kept = self._find_glossary(client, request.path_params["id"])
        terms = self._with_terms({}, [body])
        kept.terms.update(terms)
        return _about(*terms.popitem())

    @Operation("/v2/glossary-language-pairs")
    async def glossary_pairs(self, request: Request, body: Fields, client: bytes) -> dict[str, object]:
        """List the directions for which there may be glossaries: all."""
        pairs = dict.fromkeys(
            (standard_code(src), standard_code(tgt)) for src, tgt in self._service.routes.models.directions
        )
        return {"supported_languages": [{"source_lang": src, "target_lang": tgt} for src, tgt in pairs]}

    @Operation("/v2/languages", DeepLLanguages, list[dict[str, Any]], methods=["GET", "POST"])
    async def languages(self, request: Request, body: DeepLLanguages, client: bytes) -> list[dict[str, object]]:
        """List the source languages, or of `type` target the target languages."""
        if body.type == "source":
            codes = [standard_code(code).upper() for code in self._service.routes.sources]
            return [{"language": code, "name": english_name(code.lower())} for code in dict.fromkeys(codes)]
        targets = [code.upper() for code in self._service.routes.targets]
        formal = {
            direction.tgt.upper()
            for direction, model in self._service.routes.models.directions.items()
            if model.translator.tokenizers.know(["<formal>", "<informal>"])
        }
        return [
            {"language": code, "name": english_name(standard_code(code)), "supports_formality": target in formal}
            for target in targets
            for code in _VARIANTS.get(target, [target])
        ]

    @Operation("/v2/usage", answer=dict[str, int], methods=["GET", "POST"])
    async def usage(self, request: Request, body: Fields, client: bytes) -> dict[str, int]:
        """Count the characters that the client has sent since the server started."""
        return {"character_count": self._num_characters[client], "character_limit": _NO_LIMIT}

    async def _translate_document(
        self, body: DeepLFile, glossary: Glossary | None, client: bytes
    ) -> bytes | RequestError:
        """Return a translated document."""
        source = body.source_lang or "auto"
        target = body.target_lang
        fields = DocumentBody(file=body.file, filename=body.filename, source=source, target=target)
        try:
            content, *_ = await self._files.translate_document(fields, client, glossary)
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
        kept = self._find_glossary(client, options.glossary_id)
        if terms := kept.terms.get((standard_code(options.source_lang), standard_code(options.target_lang))):
            return terms
        known = in_words([*map("-".join, kept.terms)]) or "none"
        raise RequestError(400, f"No dictionary found for language pair; this glossary is for {known}")

    def _find_glossary(self, client: bytes, number: str) -> _Kept:
        if (found := self._glossaries.get((client, number))) is None:
            raise RequestError(404, "there is no such glossary")
        return found

    def _with_terms(self, known: _Terms, dictionaries: Sequence[DeepLTerms]) -> _Terms:
        """Return the terms of each direction: those `known`, and those of `dictionaries`, which replace them.

        RequestError (400) if a direction cannot be translated, or for a wrong term; if there are too many (400, 456).
        """
        terms = {**known}
        sent = {(standard_code(each.source_lang), standard_code(each.target_lang)): each for each in dictionaries}
        if len(sent) < len(dictionaries):
            raise RequestError(400, "Invalid request: dictionaries: two are for the same languages")
        for direction, each in sent.items():
            self._service.routes.route(each.source_lang, each.target_lang)
            terms[direction] = _read_terms(each, terms.get(direction, Glossary()))
        num_kept = sum(max(1, len(kept.terms)) for kept in self._glossaries.values())
        if num_kept + max(1, len(terms)) - len(known) > MAX_GLOSSARIES:
            raise RequestError(_QUOTA_EXCEEDED, f"the limit is {MAX_GLOSSARIES:,} glossaries; delete some")
        return terms


def read_xml(text: str, splitting: Collection[str], ignored: Collection[str]) -> XmlText:
    """Read XML as programs write it: with HTML's entities, and with bare &.

    DataError as `XmlText`.
    """
    return XmlText(_NOT_XML.sub(_as_xml, text), splitting, ignored)


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


def _tags(names: str | list[str]) -> list[str]:
    """Return names that may be separated by commas."""
    parts = ",".join(as_list(names)).split(",")
    return [name.strip() for name in parts if name.strip()]


def _table(terms: Glossary) -> str:
    return "\n".join(map("\t".join, terms.terms))


def _read_terms(body: DeepLTerms, older: Glossary) -> Glossary:
    """Return the terms of `body`, and the `older` ones that it does not replace.

    RequestError (400) if one cannot be used, or there are too many.
    """
    dialect = {"delimiter": "\t", "quoting": csv.QUOTE_NONE} if body.entries_format == "tsv" else {}
    glossary = Glossary()
    with refusal("Invalid glossary entries provided: "):
        try:
            rows = [*csv.reader(StringIO(body.entries), strict=True, **dialect)]  # type: ignore[arg-type]
        except csv.Error as error:
            raise DataError(str(error)) from None
        for source, *target in filter(None, rows):
            if not target:
                raise DataError(f"no translation of {source[:100]}")
            glossary.add(source, target[0])
        glossary = Glossary(dict(older.terms) | dict(glossary.terms))
        if not 0 < len(glossary) <= _MAX_TERMS:
            raise DataError(f"{len(glossary):,} terms; 1 to {_MAX_TERMS:,} fit")
    return glossary
