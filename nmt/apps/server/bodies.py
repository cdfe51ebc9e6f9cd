"""Read request bodies within limits, decode and validate them."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import parse_qsl

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import Request

from nmt.apps.server.request_error import RequestError
from nmt.apps.server.settings import MAX_ALTERNATIVES, MAX_TERMS, Settings

_MAX_FIELDS = 1000
_FORM = "application/x-www-form-urlencoded"
_NOT_EMPTY: dict[str, Any] = {"minLength": 1, "minItems": 1}
MAX_CODE = 35
"""Maximum number of characters of a language code."""

Code = Annotated[str, Field(min_length=1, max_length=MAX_CODE)]
Body = TypeVar("Body", bound=BaseModel)


class TranslateBody(BaseModel):
    """The body of /translate."""

    q: str | list[str] = Field(description="text, or texts, to translate", json_schema_extra=_NOT_EMPTY)
    source: Code = Field(description="source language, or auto")
    target: Code = Field(description="target language")
    format: Literal["text", "html"] = Field("text", description="html: translate the text between tags, keep the tags")
    alternatives: int = Field(0, ge=0, le=MAX_ALTERNATIVES, description="other translations of each text")
    api_key: str = Field("", description="key, if the server asks for one")
    model: str = Field("", description="name of a model; default: the first one for the languages")
    stream: bool = Field(False, description="respond with one line of JSON per sentence, as soon as it is translated")
    glossary: dict[str, str] = Field({}, max_length=MAX_TERMS, description="terms, each with its translation")
    details: bool = Field(False, description="in a stream: words, their alignment, and the model's confidence in each")


class DetectBody(BaseModel):
    """The body of /detect."""

    q: str = Field(description="text", json_schema_extra=_NOT_EMPTY)
    api_key: str = Field("", description="key, if the server asks for one")


class ContentPart(BaseModel):
    """A part of a message; only text is accepted."""

    type: Literal["text"]
    text: str


class Message(BaseModel):
    """A chat message."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[ContentPart] | None = None


class ChatBody(BaseModel):
    """The body of /v1/chat/completions; other fields, such as temperature, are ignored."""

    model_config = ConfigDict(extra="ignore")

    model: str = Field(description="a model or a direction of /v1/models", max_length=300)
    messages: list[Message] = Field(description="the last user message is translated", min_length=1)
    n: int | None = Field(None, ge=1, le=MAX_ALTERNATIVES + 1, description="translations, best first")
    stream: bool | None = Field(None, description="send the translation sentence by sentence")


async def read_body(request: Request, settings: Settings, limit: int = 0) -> bytes:
    """Return the body of a request. RequestError if it is too large (413) or arrives too slowly (408).

    `limit` is the maximum number of bytes; 0: the limit for texts.
    """
    limit = limit or settings.body_limit
    content = bytearray()
    try:
        async with asyncio.timeout(settings.timeout):
            async for chunk in request.stream():
                content += chunk
                if len(content) > limit:
                    raise RequestError(413, f"the body is larger than {limit:,} bytes")
    except TimeoutError:
        raise RequestError(408, "the body arrived too slowly") from None
    return bytes(content)


async def read_fields(request: Request, settings: Settings, kind: type[Body]) -> Body:
    """Return the fields of a request. RequestError as `read_body` and `parse`.

    A request without a body, as deep-translator sends it, has them in its query string.
    """
    content = await read_body(request, settings)
    if not content and request.url.query:
        return parse(request.url.query.encode("utf-8", "replace"), _FORM, kind)
    return parse(content, request.headers.get("content-type", ""), kind)


def parse(content: bytes, content_type: str, kind: type[Body], *, forms: bool = True) -> Body:
    """Return a body as a validated object: JSON, or with `forms` a form. RequestError (400, 415) if it is neither."""
    media = content_type.partition(";")[0].strip().lower()
    is_form = media == _FORM or media == ""
    if not (media == "application/json" or (forms and is_form)):
        raise RequestError(
            415, f"send application/json{f' or {_FORM}' if forms else ''}, not {media or 'nothing'}"[:200]
        )
    values = _fields(content) if is_form else _json(content)
    if not isinstance(values, dict):
        raise RequestError(400, "the body is not a JSON object")
    if values.get("q") in ("", []):
        raise RequestError(400, "Invalid request: missing q parameter")
    try:
        return kind.model_validate(values, strict=not is_form)
    except ValidationError as error:
        raise RequestError(400, _in_words(error)) from None


def _json(content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        raise RequestError(400, "the body is not valid JSON in UTF-8") from None


def _fields(content: bytes) -> dict[str, str]:
    r"""Return the fields of a form, with \n for the \r\n that browsers send."""
    try:
        pairs = parse_qsl(content.decode("utf-8"), keep_blank_values=True, max_num_fields=_MAX_FIELDS, errors="strict")
    except ValueError:
        raise RequestError(400, "the body is not a form in UTF-8") from None
    return {name: value.replace("\r\n", "\n") for name, value in pairs}


def _in_words(error: ValidationError) -> str:
    """Describe the first error, with the name of its field."""
    fault = error.errors(include_input=False, include_url=False)[0]
    names = [str(name) for name in fault["loc"] if not str(name).startswith(("str", "list["))]
    if fault["type"] == "missing":
        return f"Invalid request: missing {'.'.join(names)} parameter"
    return f"Invalid request: {'.'.join(names)}: {fault['msg']}"[:500]
