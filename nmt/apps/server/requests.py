"""Read requests within limits, answer them in JSON, refuse them, and cancel the work of clients that disconnect."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from math import ceil
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from nmt.apps.server.settings import Settings
from nmt.apps.server.threads import QUICK_CHARACTERS, Turns
from nmt.base.errors import NmtError

CLIENT_GONE = 499
"""The status, used only in metrics, of a request whose client did not wait for the response."""

_WATCH_AFTER = 0.01  # seconds; shorter work is finished even if the client has gone, because watching costs time, too
_MAX_FIELDS = 1000
_MISSING = ("missing", "too_short", "string_too_short")  # faults that clients know by one name
_IN_LIST = re.compile(r"(\w+)\[(\d{1,4})\]\.(\w+)")  # as a form names a field of an object in a list: terms[0].source
JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data"

Body = TypeVar("Body", bound=BaseModel)
Item = TypeVar("Item")
Result = TypeVar("Result")


class RequestError(HTTPException):
    """A request that is answered with an error; the client may retry after `retry_after` seconds, if that can help."""

    def __init__(self, status: int, message: str, retry_after: float | None = None):
        headers = None if retry_after is None else {"Retry-After": str(max(1, ceil(retry_after)))}
        super().__init__(status, message, headers)


@contextmanager
def refusal(where: str) -> Iterator[None]:
    """Raise RequestError (400) if what the client sent `where` makes the block raise NmtError."""
    try:
        yield
    except NmtError as error:
        line = f"line {error.line}: " if error.line else ""
        raise RequestError(400, f"{where}{line}{error.message}"[:500]) from None


async def read_body(request: Request, limit: int, seconds: float) -> bytes:
    """Return the body of a request. RequestError for more than `limit` bytes (413), or if it comes too slowly (408)."""
    content = bytearray()
    try:
        async with asyncio.timeout(seconds):
            async for chunk in request.stream():
                content += chunk
                if len(content) > limit:
                    raise RequestError(413, f"the body is larger than {limit:,} bytes")
    except TimeoutError:
        raise RequestError(408, "the body arrived too slowly") from None
    return bytes(content)


async def read_fields(
    request: Request, settings: Settings, turns: Turns, kind: type[Body], media: Sequence[str]
) -> Body:
    """Return the fields of a request, sent as one of `media`. RequestError (400, 415) if it has neither.

    Null stands for an absent field. Strings become numbers and flags where `kind` asks for them, and a file its
    content; the field "filename", if it is not sent itself, is the name of "file".
    A form may have some in the query string, as LibreOffice sends them, or all without a body, as deep-translator does.
    RequestError as `read_body`.
    """
    limit = 12 * settings.char_limit + 64 * settings.batch_limit + 16_384  # a character takes up to 12 bytes
    if JSON not in media and not (limit := settings.file_limit):
        raise RequestError(403, "this server does not translate documents")
    if (encoding := request.headers.get("content-encoding", "identity")) != "identity":
        raise RequestError(415, f"send the body without Content-Encoding: {encoding}"[:200])
    content = await read_body(request, limit, settings.timeout)
    if len(content) > QUICK_CHARACTERS:
        await turns.take()  # to read the fields, and for the first step of what is done with them
    sent = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if FORM in media and not (sent and content):
        sent = FORM
    if sent == FORM and content.lstrip().startswith(b"{"):
        sent = JSON  # as `curl -d` sends it; no field of a form has such a name
    if sent not in media:
        raise RequestError(415, f"send {' or '.join(media)}, not {sent or 'nothing'}"[:200])
    values = _read_object(content) if sent == JSON else await _read_form(request, content, sent)
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        faults = error.errors(include_input=False, include_url=False)
        fault = max(faults, key=lambda each: len(each["loc"]))  # of what is a text or a list, that of the item
        name = ".".join(str(each) for each in fault["loc"] if not str(each).startswith(("str", "list[")))
        message = fault["msg"].replace("Input should be ''", "not supported")
        reason = f"missing {name} parameter" if fault["type"] in _MISSING else f"{name}: {message}"
        raise RequestError(400, f"Invalid request: {reason}"[:500]) from None


def _read_object(content: bytes) -> dict[str, Any]:
    try:
        values = json.loads(content)
    except (ValueError, RecursionError):
        raise RequestError(400, "the body is not valid JSON in UTF-8") from None
    if not isinstance(values, dict):
        raise RequestError(400, "the body is not a JSON object")
    return {name: value for name, value in values.items() if value is not None}


async def _read_form(request: Request, content: bytes, media: str) -> dict[str, Any]:
    pairs = await _multipart(request, content) if media == MULTIPART else _url_encoded(request, content)
    sent: dict[str, list[str | bytes]] = {}
    for name, value in pairs:
        sent.setdefault(name, []).append(value)
    # What is repeated is a list, which only some fields may be.
    values: dict[str, Any] = {name: several if len(several) > 1 else several[0] for name, several in sent.items()}
    objects: dict[str, dict[str, dict[str, Any]]] = {}  # by the name of their list, and their number
    for name, value in pairs:
        if place := _IN_LIST.fullmatch(name):
            of_list, number, field = place.groups()
            objects.setdefault(of_list, {}).setdefault(number, {})[field] = value
    return values | {of_list: [*numbered.values()] for of_list, numbered in objects.items()}


def _url_encoded(request: Request, content: bytes) -> list[tuple[str, str | bytes]]:
    try:
        content = b"&".join(filter(None, (request.scope["query_string"], content)))
        pairs = parse_qsl(content.decode(), keep_blank_values=True, max_num_fields=_MAX_FIELDS, errors="strict")
    except ValueError:
        raise RequestError(400, "the body is not a form in UTF-8") from None
    return [(name, value.replace("\r\n", "\n")) for name, value in pairs]


async def _multipart(request: Request, content: bytes) -> list[tuple[str, str | bytes]]:

    async def replay() -> dict[str, object]:
        return {"type": "http.request", "body": content, "more_body": False}

    pairs: list[tuple[str, str | bytes]] = []
    try:
        async with Request(request.scope, replay).form(max_files=2, max_fields=_MAX_FIELDS) as form:
            for name, value in form.multi_items():
                if isinstance(value, str):
                    if value.encode() not in content:  # starlette reads what is no UTF-8 as Latin-1
                        raise RequestError(400, f"the field {name} is not in UTF-8")
                    pairs.append((name, value.replace("\r\n", "\n")))
                else:
                    pairs.append((name, await value.read()))
                    if f"{name}name" not in form:
                        pairs.append((f"{name}name", value.filename or ""))
    except HTTPException as error:
        raise RequestError(400, f"the body is not a form ({error.detail})"[:200]) from None
    return pairs


async def unless_gone(request: Request, work: Awaitable[Result]) -> Result:
    """Return the result of `work`; if the client closes the connection, cancel it and raise RequestError."""
    task = asyncio.current_task()
    assert task is not None
    gone: asyncio.Task[None] | None = None

    async def wait_until_gone() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    def watch() -> None:
        nonlocal gone
        gone = asyncio.create_task(wait_until_gone())
        gone.add_done_callback(lambda gone: None if gone.cancelled() else task.cancel())

    timer = asyncio.get_running_loop().call_later(_WATCH_AFTER, watch)
    try:
        return await work
    except asyncio.CancelledError:
        if gone is None or not gone.done() or task.uncancel():  # the server is stopping, too
            raise
        raise RequestError(CLIENT_GONE, "the client has gone") from None
    finally:
        timer.cancel()
        if gone is not None:
            gone.cancel()


async def stream(
    request: Request,
    start: bytes,
    items: AsyncGenerator[Item],
    write: Callable[[Item], bytes],
    end: Callable[[RequestError | None], bytes],
    media_type: str,
) -> Response:
    """Send `start`, `items` as they come, and the `end`. RequestError of the first is raised, a later one ends it."""
    first = await unless_gone(request, anext(items, None))

    async def content() -> AsyncIterator[bytes]:
        async with aclosing(items):
            try:
                yield start if first is None else start + write(first)
                async for item in items:
                    yield write(item)
                yield end(None)
            except RequestError as refusal:
                yield end(refusal)

    return StreamingResponse(content(), media_type=media_type, headers={"X-Accel-Buffering": "no"})


def as_list(texts: str | list[str]) -> list[str]:
    """Return texts of a request, which may be one."""
    return [texts] if isinstance(texts, str) else texts


def as_json(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a JSON response."""
    return Response(dump(value), status, headers, media_type=JSON)


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def dump(value: object) -> bytes:
    """Return `value` as JSON on one line; a lone surrogate, which UTF-8 does not have, becomes a question mark."""
    return _encode(value).encode("utf-8", "replace")
