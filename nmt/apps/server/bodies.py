"""The bodies of requests and answers, and the OpenAPI 3.1 specification generated from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import (
    Annotated,
    Any,
    Literal,
    Required,  # pydantic needs this one before Python 3.12
)

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter
from typing_extensions import TypedDict

from nmt import __version__
from nmt.apps.server.settings import MAX_ALTERNATIVES, MAX_CODE, MAX_TERMS

_NOT_EMPTY: dict[str, Any] = {"minLength": 1, "minItems": 1}
_REF = "#/components/schemas/"
_FAULTS = {
    "400": "Invalid request",
    "403": "The API key is missing or unknown",
    "408": "The body arrived too slowly",
    "413": "The body is too large",
    "415": "The body has an unsupported content type",
    "429": "Too many requests, or a full queue: see Retry-After",
    "503": "Took longer than the limit, or out of memory: see Retry-After",
}

Code = Annotated[str, Field(min_length=1, max_length=MAX_CODE, description="language code")]
Key = Annotated[str, Field(description="key, if the server asks for one")]
Terms = Sequence[tuple[str, str]]
Flags = Annotated[
    dict[str, bool | list[str]], Field(description="what looks wrong: true, or what is missing; absent if nothing does")
]

Pair = Annotated[
    dict[str, str | float], Field(description="the most similar pair of the memory: source, target, similarity")
]


class TranslateBody(BaseModel):
    """The body of /translate."""

    q: str | list[str] = Field(description="text, or texts, to translate", json_schema_extra=_NOT_EMPTY)
    source: Code = Field(description="source language, or auto")
    target: Code = Field(description="target language")
    format: Literal["text", "html"] = Field(
        default="text", description="html: translate the text between tags, keep the tags"
    )
    alternatives: int = Field(default=0, ge=0, le=MAX_ALTERNATIVES, description="other translations of each text")
    api_key: Key = ""
    model: str = Field(default="", description="name of a model; default: the first one for the languages")
    stream: bool = Field(
        default=False, description="respond with one line of JSON per sentence, as soon as it is translated"
    )
    glossary: dict[str, str] = Field(
        default_factory=dict, max_length=MAX_TERMS, description="terms, each with its translation"
    )
    details: bool = Field(
        default=False, description="in a stream: words, their alignment, and the model's confidence in each"
    )
    draft: str = Field(
        default="", description="a translation to expect, if q is one text; saves time and changes no answer"
    )
    flags: bool = Field(
        default=False, description="check the translation: the field flags of the answer says what looks wrong"
    )


class SuggestBody(BaseModel):
    """The body of /suggest."""

    q: str = Field(description="text", json_schema_extra=_NOT_EMPTY)
    s: str = Field(min_length=1, description="its correct translation")
    source: Code
    target: Code
    api_key: Key = ""


class DetectBody(BaseModel):
    """The body of /detect."""

    q: str = Field(description="text", json_schema_extra=_NOT_EMPTY)
    api_key: Key = ""


class FileBody(BaseModel):
    """The form of /translate_file."""

    file: bytes = Field(description="document")
    source: Code = Field(description="source language, or auto")
    target: Code = Field(description="target language")
    api_key: Key = ""
    glossary: str = Field(default="", description="terms: one per line, a tab, its translation; as text or as a file")


class ContentPart(BaseModel):
    """A part of a message; only text is accepted."""

    type: str
    text: str = ""


class Message(BaseModel):
    """A chat message."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[ContentPart] | None = None


class ChatBody(BaseModel):
    """The body of /v1/chat/completions; other fields, such as temperature, are ignored."""

    model_config = ConfigDict(extra="ignore")

    model: str = Field(description="a model or a direction of /v1/models", max_length=300)
    messages: list[Message] = Field(description="the last user message is translated", min_length=1)
    n: int | None = Field(default=None, ge=1, le=MAX_ALTERNATIVES + 1, description="translations, best first")
    stream: bool | None = Field(default=None, description="send the translation sentence by sentence")
    stream_options: dict[str, Any] | None = Field(
        default=None, description="include_usage: a last event with the numbers of tokens"
    )
    flags: bool | None = Field(default=None, description="check the translation; not a field of OpenAI's own")


class PromptBody(BaseModel):
    """The body of /v1/completions; other fields are ignored."""

    model: str = Field(max_length=300)
    prompt: str | list[str] = Field(description="text, or texts, to translate", json_schema_extra=_NOT_EMPTY)
    n: int | None = Field(default=None, ge=1, le=MAX_ALTERNATIVES + 1, description="translations of each, best first")
    stream: bool | None = None


class ResponseBody(BaseModel):
    """The body of /v1/responses; other fields are ignored."""

    model: str = Field(max_length=300)
    input: str | list[Message] = Field(description="text, or a chat, whose last user message is translated")
    stream: bool | None = None


class DeepLOptions(BaseModel):
    """The fields of both texts and documents in DeepL's API; other fields, such as context, are ignored."""

    target_lang: Code
    source_lang: Code | None = Field(default=None, description="default: detected")
    formality: Literal["default", "more", "less", "prefer_more", "prefer_less"] | None = None
    glossary_id: str | None = Field(
        default=None, max_length=100, description="a glossary of /v2/glossaries; needs source_lang"
    )
    auth_key: Key = ""


class DeepLBody(DeepLOptions):
    """The body of /v2/translate."""

    text: str | list[str] = Field(description="text, or texts, to translate", json_schema_extra=_NOT_EMPTY)
    tag_handling: Literal["xml", "html"] | None = Field(
        default=None, description="keep the tags of texts that have some"
    )
    ignore_tags: str | list[str] = Field(default="", description="XML elements that are not translated")
    splitting_tags: str | list[str] = Field(default="", description="XML elements that end sentences")
    split_sentences: Literal["0", "1", "nonewlines", 0, 1] | None = Field(default=None, description="has no effect")
    model_type: Literal["quality_optimized", "prefer_quality_optimized", "latency_optimized"] | None = Field(
        default=None, description="has no effect; the answer names it"
    )
    flags: bool = Field(default=False, description="check the translation; not a field of DeepL's own")


class DeepLFile(DeepLOptions):
    """The form of /v2/document."""

    file: bytes = Field(description="document")


class DeepLKey(BaseModel):
    """The body of /v2/document/{document_id} and its result."""

    document_key: str


class DeepLGlossary(BaseModel):
    """The body of /v2/glossaries."""

    name: str = Field(min_length=1, max_length=1000)
    source_lang: Code
    target_lang: Code
    entries: str = Field(description="one term per line, and its translation")
    entries_format: Literal["tsv", "csv"] = "tsv"


class Detection(TypedDict):
    """A language that a text may be in."""

    confidence: Annotated[float, Field(ge=0, le=100)]
    language: Code


class Translated(TypedDict, total=False):
    """The answer of /translate: lists if `q` is a list."""

    translatedText: Required[str | list[str]]
    alternatives: list[str] | list[list[str]]
    terms_missed: Terms | Sequence[Terms]
    flags: Flags | list[Flags]
    expected_chrf: Annotated[
        float | list[float | None] | None, Field(description="chrF that the model expects, 0 to 100; absent if unknown")
    ]
    memory: Pair | list[Pair | None] | None
    detectedLanguage: Detection | list[Detection]


class TranslatedFile(TypedDict, total=False):
    """The answer of /translate_file."""

    translatedFileUrl: Required[str]
    terms_missed: Terms
    flags: Flags


class Language(TypedDict):
    """A language of /languages."""

    code: Code
    name: str
    targets: list[Code]


_FORMS = ("application/json", "application/x-www-form-urlencoded")
_OPERATIONS: dict[str, tuple[str, Any, Any, Sequence[str]]] = {  # summary, body, answer, media types of the body
    "/translate": ("Translate text or HTML", TranslateBody, Translated, _FORMS),
    "/suggest": ("Correct a translation", SuggestBody, dict[str, bool], _FORMS),
    "/detect": ("Detect the language of a text", DetectBody, list[Detection], _FORMS),
    "/translate_file": ("Translate a document", FileBody, TranslatedFile, ["multipart/form-data"]),
    "/languages": ("List the languages", None, list[Language], ()),
    "/frontend/settings": ("Settings for the web page", None, dict[str, Any], ()),
    "/health": ("Check that the server is running", None, dict[str, str], ()),
    "/v1/models": ("List the models", None, dict[str, Any], ()),
    "/v1/models/{model}": ("Describe a model", None, dict[str, Any], ()),
    "/v1/chat/completions": ("Translate the last user message", ChatBody, dict[str, Any], ["application/json"]),
    "/v1/completions": ("Translate prompts", PromptBody, dict[str, Any], ["application/json"]),
    "/v1/responses": ("Translate an input", ResponseBody, dict[str, Any], ["application/json"]),
    "/v2/translate": ("Translate texts, as DeepL does", DeepLBody, dict[str, Any], _FORMS),
    "/v2/document": ("Translate a document, as DeepL does", DeepLFile, dict[str, Any], ["multipart/form-data"]),
    "/v2/glossaries": ("Keep a glossary", DeepLGlossary, dict[str, Any], _FORMS),
    "/v2/languages": ("List the languages, as DeepL does", None, list[dict[str, Any]], ()),
    "/v2/usage": ("Count the characters translated", None, dict[str, int], ()),
}
_STREAMS = {"/translate": "application/x-ndjson", "/v1/chat/completions": "text/event-stream"}


def specification(sources: Sequence[str], targets: Sequence[str], models: Sequence[str]) -> dict[str, Any]:
    """Return the specification of a server with these languages and OpenAI models, as JSON values."""
    schemas: dict[str, Any] = {}

    def content(kind: Any, *media_types: str) -> dict[str, Any]:
        """Return the content of a body or an answer; add the schemas that it refers to."""
        schema = TypeAdapter(kind).json_schema(ref_template=_REF + "{model}")
        schemas.update(schema.pop("$defs", {}))
        if "title" in schema:
            schemas[schema["title"]] = schema
            schema = {"$ref": _REF + schema["title"]}
        return {media: {"schema": schema} for media in media_types}

    paths: dict[str, Any] = {}
    for path, (summary, body, answer, media_types) in _OPERATIONS.items():
        is_openai = path.startswith("/v1/")
        faults = {status: text for status, text in _FAULTS.items() if body or status in ("403", "429")}
        if is_openai:
            faults["401"] = faults.pop("403")
            faults["404"] = "There is no such model"
        if path.startswith("/v2/") and body:
            faults |= {"404": "There is no such glossary", "456": "Too many glossaries"}
        error = content(dict[str, dict[str, str | None]] if is_openai else dict[str, str], "application/json")
        responses: dict[str, Any] = {status: {"description": text, "content": error} for status, text in faults.items()}
        responses["200"] = {"description": "The answer", "content": content(answer, "application/json")}
        operation: dict[str, Any] = {"summary": summary, "responses": responses}
        if body:
            operation["requestBody"] = {"required": True, "content": content(body, *media_types)}
        if path in _STREAMS:
            responses["200"]["content"] |= content(str, _STREAMS[path])
        if "{model}" in path:
            operation["parameters"] = [{"name": "model", "in": "path", "required": True, "schema": {"type": "string"}}]
        paths[path] = {"post" if body else "get": operation}
    schemas["TranslateBody"]["properties"]["source"]["enum"] = ["auto", *sources]
    schemas["TranslateBody"]["properties"]["target"]["enum"] = list(targets)
    schemas["ChatBody"]["properties"]["model"]["enum"] = list(models)
    description = "Machine translation, with the APIs of LibreTranslate, OpenAI and DeepL."
    return {
        "openapi": "3.1.0",
        "info": {"title": "nmt", "version": __version__, "description": description},
        "paths": paths,
        "components": {"schemas": schemas, "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}},
        "security": [{}, {"key": []}],
    }
