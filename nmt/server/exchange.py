"""The shared part of all interfaces: one request read and admitted, and its work given up when the client goes away."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Coroutine
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from nmt.server.access import Access
from nmt.server.metrics import Metrics
from nmt.server.request_error import RequestError
from nmt.server.service import Service

Result = TypeVar("Result")

CLIENT_GONE = 499
"""The status, in metrics alone, of a request whose client did not wait for the answer."""


class Exchange:
    """The parts of a server that its interfaces use."""

    def __init__(self, service: Service, access: Access, metrics: Metrics):
        self.service = service
        self.access = access
        self.metrics = metrics

    async def unless_gone(self, request: Request, work: Coroutine[Any, Any, Result]) -> Result:
        """Return the result of `work`; cancel it, and raise RequestError, when the client closes the connection."""
        task = asyncio.current_task()
        assert task is not None
        gone = asyncio.create_task(_wait_until_gone(request))
        gone.add_done_callback(lambda gone: None if gone.cancelled() else task.cancel())
        try:
            return await work
        except asyncio.CancelledError:
            if not gone.done() or task.uncancel():  # the server stops, too
                raise
            self.metrics.gone.inc()
            raise RequestError(CLIENT_GONE, "the client has gone") from None
        finally:
            gone.cancel()


async def _wait_until_gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def first_and_rest(items: AsyncIterator[Result]) -> tuple[list[Result], AsyncIterator[Result]]:
    """Wait for the first item, so that what is refused is refused before an answer has begun; a list of it, and all."""
    try:
        return [await anext(items)], items
    except StopAsyncIteration:
        return [], items


def as_json(value: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return an answer in JSON."""
    return Response(dump(value), status, headers, media_type="application/json")


def dump(value: object) -> bytes:
    """Return `value` as JSON on one line; a lone surrogate, which UTF-8 does not have, becomes a question mark."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
