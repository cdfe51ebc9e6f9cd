"""The ASGI application with all APIs of the server."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nmt.apps.server.access import Access
from nmt.apps.server.exchange import CLIENT_GONE, Exchange, as_json
from nmt.apps.server.files import Files
from nmt.apps.server.libretranslate import LibreTranslate
from nmt.apps.server.metrics import CONTENT_TYPE, Metrics
from nmt.apps.server.models import Models
from nmt.apps.server.openai import OpenAI, error_body
from nmt.apps.server.openapi import specification
from nmt.apps.server.page import page_routes
from nmt.apps.server.request_error import RequestError
from nmt.apps.server.service import Service
from nmt.apps.server.settings import Settings

log = logging.getLogger(__name__)


def make_app(models: Models, settings: Settings, keys: Collection[bytes], metrics: Metrics) -> Starlette:
    """Return the application that serves `models`; if `keys` (hashes) are given, requests need one of them."""
    access = Access(keys, settings.rate_limit, metrics)
    service = Service(models, settings, metrics)
    exchange = Exchange(service, access, metrics)
    openai = OpenAI(exchange)
    spec = specification(service.sources, service.targets, openai.names)
    own = _own_routes(access, metrics, spec)
    routes = [*LibreTranslate(exchange).routes, *Files(exchange).routes, *openai.routes, *own, *page_routes()]
    middleware = [Middleware(_Watch, metrics=metrics, settings=settings, paths=[route.path for route in routes])]
    if settings.allow_origin:
        origins, headers = [settings.allow_origin], ["Authorization", "Content-Type"]
        cors = Middleware(CORSMiddleware, allow_origins=origins, allow_methods=["GET", "POST"], allow_headers=headers)
        middleware.append(cors)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        models.close()

    handlers = {
        RequestError: _answer_refusal,
        HTTPException: _answer_http_error,
        ClientDisconnect: _answer_nobody,
        Exception: _answer_fault,
    }
    return Starlette(routes=routes, middleware=middleware, exception_handlers=handlers, lifespan=lifespan)  # type: ignore[arg-type]


def _own_routes(access: Access, metrics: Metrics, spec: dict[str, Any]) -> list[Route]:
    async def answer_spec(request: Request) -> Response:
        return as_json(spec)

    async def answer_metrics(request: Request) -> Response:
        access.check(request)
        return Response(metrics.render(), media_type=CONTENT_TYPE)

    return [Route("/spec", answer_spec), Route("/metrics", answer_metrics)]


async def _answer_refusal(request: Request, refusal: RequestError) -> Response:
    if request.url.path.startswith("/v1/"):
        status = 401 if refusal.status == 403 else refusal.status
        return as_json(error_body(RequestError(status, refusal.message)), status, refusal.headers)
    return as_json({"error": refusal.message}, refusal.status, refusal.headers)


async def _answer_http_error(request: Request, error: HTTPException) -> Response:
    answer = await _answer_refusal(request, RequestError(error.status_code, error.detail))
    answer.headers.update(error.headers or {})
    return answer


async def _answer_nobody(request: Request, error: ClientDisconnect) -> Response:
    return Response(status_code=CLIENT_GONE)


async def _answer_fault(request: Request, error: Exception) -> Response:
    return await _answer_refusal(request, RequestError(500, "internal server error; see the server's log"))


class _Watch:
    """Counts and times requests, and drops clients that do not read their response."""

    def __init__(self, app: ASGIApp, metrics: Metrics, settings: Settings, paths: Collection[str]):
        self._app = app
        self._count = cache(lambda path, status: metrics.requests.labels(path, str(status)))
        self._time = cache(metrics.seconds.labels)
        self._timeout = settings.timeout
        self._paths = frozenset(paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        status = CLIENT_GONE

        async def send_in_time(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (b"x-content-type-options", b"nosniff")]
            elif message.get("more_body"):
                async with asyncio.timeout(self._timeout):
                    await send(message)
                return
            await send(message)  # needs no timeout: it fits into a buffer

        path = scope["path"] if scope["path"] in self._paths else "other"
        try:
            await self._app(scope, receive, send_in_time)
        except TimeoutError:
            log.info("a client did not read its response within %g seconds", self._timeout)
        finally:
            self._count(path, status).inc()
            self._time(path).observe(time.perf_counter() - started)
