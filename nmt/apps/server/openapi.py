"""The OpenAPI 3.1 specification of the server's APIs, with the body models that the server validates against."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel

from nmt import __version__
from nmt.apps.server.bodies import ChatBody, DetectBody, TranslateBody

_REF = "#/components/schemas/"
_CODE = {"type": "string", "description": "language code"}
_LANGUAGE = {"type": "object", "properties": {"code": _CODE, "name": {"type": "string"}}, "required": ["code", "name"]}
_DETECTION = {
    "type": "object",
    "properties": {"language": _CODE, "confidence": {"type": "number", "minimum": 0, "maximum": 100}},
    "required": ["language", "confidence"],
}
_TEXT = {"type": "string"}
_TEXTS = {"type": "array", "items": _TEXT}
_ONE_OR_MORE = {"anyOf": [_TEXT, _TEXTS]}
_FLAGS = {"type": "object", "description": "what looks wrong: true, or what is missing; absent if nothing does"}
_TRANSLATED = {
    "type": "object",
    "properties": {
        "translatedText": _ONE_OR_MORE,
        "alternatives": {"anyOf": [_TEXTS, {"type": "array", "items": _TEXTS}]},
        "terms_missed": {
            "type": "array",
            "items": {"type": "array"},
            "description": "terms, or a list of them per text",
        },
        "flags": {"anyOf": [_FLAGS, {"type": "array", "items": _FLAGS}]},
        "detectedLanguage": {"anyOf": [_DETECTION, {"type": "array", "items": _DETECTION}]},
    },
    "required": ["translatedText"],
}
_ERROR = {"type": "object", "properties": {"error": _TEXT}, "required": ["error"]}
_OPENAI_ERROR = {
    "type": "object",
    "properties": {"error": {"type": "object", "properties": {"message": _TEXT}, "required": ["message"]}},
    "required": ["error"],
}
_MODEL = {"type": "object", "properties": {"id": _TEXT, "object": {"const": "model"}}, "required": ["id", "object"]}
_FAULTS = {
    "400": "Invalid request",
    "403": "The API key is missing or unknown",
    "408": "The body arrived too slowly",
    "413": "The body is too large",
    "415": "The body has an unsupported content type",
    "429": "Too many requests, or a full queue: see Retry-After",
    "503": "Took longer than the limit, or out of memory: see Retry-After",
}
_PLAIN_FAULTS = ("403", "429")


def specification(sources: Sequence[str], targets: Sequence[str], models: Sequence[str]) -> dict[str, Any]:
    """Return the specification of a server with these languages and OpenAI models, as JSON values."""
    schemas: dict[str, Any] = {"Error": _ERROR, "OpenAIError": _OPENAI_ERROR}
    for body in (TranslateBody, DetectBody, ChatBody):
        schema = body.model_json_schema(ref_template=_REF + "{model}")
        schemas |= schema.pop("$defs", {})
        schemas[body.__name__] = schema
    schemas["TranslateBody"]["properties"]["source"]["enum"] = ["auto", *sources]
    schemas["TranslateBody"]["properties"]["target"]["enum"] = list(targets)
    schemas["ChatBody"]["properties"]["model"]["enum"] = list(models)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "nmt",
            "version": __version__,
            "description": "Machine translation, with the APIs of LibreTranslate and OpenAI.",
        },
        "paths": _paths(),
        "components": {
            "schemas": schemas,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"key": []}],
    }


def _paths() -> dict[str, Any]:
    directions = {"type": "array", "items": _TEXTS}
    known = {"charLimit": {"type": "integer"}, "keyRequired": {"type": "boolean"}, "glossaryDirections": directions}
    settings = {"type": "object", "properties": known}
    listed = {"type": "object", "properties": {"data": {"type": "array", "items": _MODEL}}, "required": ["data"]}
    completion = {"type": "object", "properties": {"id": _TEXT, "choices": {"type": "array"}}, "required": ["id"]}
    name = {"name": "model", "in": "path", "required": True, "schema": _TEXT}
    detections = {"type": "array", "items": _DETECTION}
    post_translate = _post("Translate text or HTML", TranslateBody, _TRANSLATED)
    post_translate["responses"]["200"]["content"]["application/x-ndjson"] = {"schema": _TEXT}
    post_chat = _post("Translate the last user message", ChatBody, completion, forms=False)
    post_chat["responses"]["200"]["content"]["text/event-stream"] = {"schema": _TEXT}
    model = _get("Describe a model", _MODEL, openai=True)
    model["responses"]["404"] = _fault("There is no such model", openai=True)
    return {
        "/translate": {"post": post_translate},
        "/detect": {"post": _post("Detect the language of a text", DetectBody, detections)},
        "/translate_file": {"post": _post_file()},
        "/languages": {"get": _get("List the languages", {"type": "array", "items": _LANGUAGE})},
        "/frontend/settings": {"get": _get("Settings for the web page", settings)},
        "/health": {"get": _get("Check that the server is running", {"type": "object"})},
        "/v1/models": {"get": _get("List the models", listed, openai=True)},
        "/v1/models/{model}": {"get": {**model, "parameters": [name]}},
        "/v1/chat/completions": {"post": post_chat},
    }


def _get(summary: str, schema: dict[str, Any], *, openai: bool = False) -> dict[str, Any]:
    faults = {status: _fault(_FAULTS[status], openai) for status in _PLAIN_FAULTS}
    if openai:
        faults["401"] = faults.pop("403")
    return {"summary": summary, "responses": {"200": _answer("The answer", schema), **faults}}


def _post(summary: str, body: type[BaseModel], schema: dict[str, Any], *, forms: bool = True) -> dict[str, Any]:
    types = ["application/json", *(["application/x-www-form-urlencoded"] if forms else [])]
    content = {media: {"schema": {"$ref": _REF + body.__name__}} for media in types}
    faults = {status: _fault(text, not forms) for status, text in _FAULTS.items()}
    if not forms:
        faults["401"] = faults.pop("403")
        faults["404"] = _fault("There is no such model", openai=True)
    return {
        "summary": summary,
        "requestBody": {"required": True, "content": content},
        "responses": {"200": _answer("The answer", schema), **faults},
    }


def _post_file() -> dict[str, Any]:
    glossary = {**_TEXT, "description": "glossary terms: one per line, a tab, its translation; as text or as a file"}
    file = {"type": "string", "format": "binary"}
    fields = {"file": file, "source": _CODE, "target": _CODE, "api_key": _TEXT, "glossary": glossary}
    form = {"type": "object", "properties": fields, "required": ["file", "source", "target"]}
    found = {
        "type": "object",
        "properties": {"translatedFileUrl": _TEXT, "terms_missed": {"type": "array"}, "flags": _FLAGS},
        "required": ["translatedFileUrl"],
    }
    faults = {status: _fault(text, openai=False) for status, text in _FAULTS.items()}
    return {
        "summary": "Translate a document",
        "requestBody": {"required": True, "content": {"multipart/form-data": {"schema": form}}},
        "responses": {"200": _answer("The download URL", found), **faults},
    }


def _fault(text: str, openai: bool) -> dict[str, Any]:
    return _answer(text, {"$ref": _REF + ("OpenAIError" if openai else "Error")})


def _answer(text: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": text, "content": {"application/json": {"schema": schema}}}
