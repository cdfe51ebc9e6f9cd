"""Parts shared by all APIs: access checks, JSON responses, and cancelling the work of clients that disconnect."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Coroutine
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from nmt.apps.server.access import Access
from nmt.apps.server.metrics import Metrics
from nmt.apps.server.request_error import RequestError
from nmt.apps.server.service import Service

Result = TypeVar("Result")

CLIENT_GONE = 499
"""The status, used only in metrics, of a request whose client did not wait for the response."""

_WATCH_AFTER = 0.01  # seconds; shorter work is finished even if the client has gone, because watching costs time, too


class Exchange:
    """The parts of a server that its APIs use."""

    def __init__(self, service: Service, access: Access, metrics: Metrics):
        self.service = service
        self.access = access
        self.metrics = metrics

    async def unless_gone(self, request: Request, work: Coroutine[Any, Any, Result]) -> Result:
        """Return the result of `work`; if the client closes the connection, cancel it and raise RequestError."""
        task = asyncio.current_task()
        assert task is not None
        gone: asyncio.Task[None] | None = None

        def watch() -> None:
            nonlocal gone
            gone = asyncio.create_task(_wait_until_gone(request))
            gone.add_done_callback(lambda gone: None if gone.cancelled() else task.cancel())

        timer = asyncio.get_running_loop().call_later(_WATCH_AFTER, watch)
        try:
            return await work
        except asyncio.CancelledError:
            if gone is None or not gone.done() or task.uncancel():  # the server is stopping, too
                raise
            self.metrics.gone.inc()
            raise RequestError(CLIENT_GONE, "the client has gone") from None
        finally:
            timer.cancel()
            if gone is not None:
                gone.cancel()


async def _wait_until_gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def first_and_rest(items: AsyncIterator[Result]) -> tuple[list[Result], AsyncIterator[Result]]:
    """Return the first item in a list, and the iterator, so that errors are raised before the response starts."""
    try:
        return [await anext(items)], items
    except StopAsyncIteration:
        return [], items


def as_json(value: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return a JSON response."""
    return Response(dump(value), status, headers, media_type="application/json")


def dump(value: object) -> bytes:
    """Return `value` as JSON on one line; a lone surrogate, which UTF-8 does not have, becomes a question mark."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
