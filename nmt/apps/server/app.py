"""The ASGI application with all APIs of the server."""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import cache
from importlib.resources import files

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nmt.apps.server.access import KEY_NAME, Access, AccessLog, Key
from nmt.apps.server.bodies import Fields
from nmt.apps.server.deepl import DeepL
from nmt.apps.server.files import Files
from nmt.apps.server.libretranslate import LibreTranslate
from nmt.apps.server.metrics import Metrics
from nmt.apps.server.models import Models
from nmt.apps.server.openai import OpenAI, error_body
from nmt.apps.server.operations import Operation, specification
from nmt.apps.server.requests import CLIENT_GONE, RequestError, as_json
from nmt.apps.server.routes import Routes
from nmt.apps.server.service import Service
from nmt.apps.server.settings import Settings
from nmt.apps.server.threads import Threads
from nmt.base.errors import NmtError

log = logging.getLogger(__name__)

_PAGE = {  # static files, which load nothing from other hosts
    "index.html": "text/html; charset=utf-8",
    "app.js": "text/javascript; charset=utf-8",
    "backend.js": "text/javascript; charset=utf-8",
    "style.css": "text/css; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
_PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-cache",
    "Referrer-Policy": "no-referrer",
}


def make_app(models: Models, settings: Settings, keys: Mapping[bytes, Key], metrics: Metrics) -> Starlette:
    """Return the application that serves `models`; if there are `keys` (as of `read_keys`), requests need one.

    `state.reload`, a coroutine, takes functions that read other keys and load other models.
    """
    access_log = None if settings.access_log is None else AccessLog(settings.access_log)
    access = Access(keys, settings.rate_limit, metrics)
    service = Service(models, settings, metrics, keys)

    @Operation("/spec", is_public=True)
    async def answer_spec(request: Request, body: Fields, client: bytes) -> dict[str, object]:
        """Describe these operations, in OpenAPI 3.1."""
        return specification(routes, service.routes)

    @Operation("/metrics", writes=["text/plain"])
    async def answer_metrics(request: Request, body: Fields, client: bytes) -> Response:
        """Send metrics for Prometheus."""
        return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_PLAIN_0_0_4)

    documents = Files(service)
    apis = LibreTranslate(service, access), documents, OpenAI(service), DeepL(service, documents)
    # Of all names, those that an operation marks are handlers.
    handlers = [getattr(api, name) for api in apis for name in vars(type(api))]
    routes = [
        (operation, operation.route(handler, access, settings, service.turns))
        for handler in (*handlers, answer_spec, answer_metrics)
        for operation in getattr(handler, "operations", ())
    ]
    middleware = [Middleware(_Watch, metrics=metrics, timeout=settings.timeout, access_log=access_log)]
    if settings.allow_origin:
        # All headers: clients for browsers send some of their own. No cookie lets anyone in.
        everything = ["*"]
        cors = Middleware(
            CORSMiddleware,
            allow_origins=[settings.allow_origin],
            allow_methods=everything,
            allow_headers=everything,
        )
        middleware.append(cors)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        service.routes.models.close()

    reading = Threads(1)
    loading = Threads(1)
    newest_keys = keys

    async def reload(read: Callable[[], Mapping[bytes, Key]], load: Callable[[], Models]) -> None:
        """Use the keys and models that `read` and `load` return, and their memories, if all of it can be used.

        A key that is not among the new ones is refused before models are loaded, if they cannot be, and while those of
        an earlier call still are.
        """
        nonlocal newest_keys
        try:
            newest_keys = new_keys = await reading.run(read)
            if revoked := access.keys.keys() - new_keys.keys():
                log.info("revoked: %s", ", ".join(sorted(access.keys[hashed].name for hashed in revoked)))
                access.keys = {hashed: key for hashed, key in access.keys.items() if hashed in new_keys}
            service.routes = await loading.run(lambda: Routes(load(), new_keys, settings))
        except Exception as error:  # even a fault of nmt must not stop a server that works
            log.error(
                "not reloaded, and what was not revoked stays as it was: %s",
                error,
                exc_info=not isinstance(error, NmtError),
            )
            return
        access.keys = {hashed: key for hashed, key in new_keys.items() if hashed in newest_keys}
        log.info("reloaded: %s", ", ".join(served.name for served in service.routes.models.served))
        gc.unfreeze()
        asyncio.get_running_loop().call_later(settings.timeout, gc.collect)  # the old models, if no request has them

    on_errors = dict.fromkeys((HTTPException, ClientDisconnect, Exception), _answer_error)
    paths = [*(route for _, route in routes), *map(_page_route, _PAGE)]
    app = Starlette(routes=paths, middleware=middleware, exception_handlers=on_errors, lifespan=lifespan)
    app.state.reload = reload
    return app


def _page_route(name: str) -> Route:
    content = files("nmt.apps.server").joinpath("static", name).read_bytes()

    async def answer(request: Request) -> Response:
        return Response(content, media_type=_PAGE[name], headers=_PAGE_HEADERS)

    return Route(f"/{name.removeprefix('index.html')}", answer)


async def _answer_error(request: Request, error: Exception) -> Response:
    """Answer with an error, in the format of the interface that was called."""
    if isinstance(error, ClientDisconnect):
        return Response(status_code=CLIENT_GONE)
    if not isinstance(error, HTTPException):
        error = RequestError(500, "internal server error; see the server's log")
    status = error.status_code
    body: dict[str, object] = {"error": error.detail}
    if request.url.path.startswith("/v1/"):
        status = 401 if status == 403 else status
        body = error_body(status, error.detail)
    elif request.url.path.startswith(("/v2/", "/v3/")):
        body = {"message": error.detail}
    return as_json(body, status, error.headers)


class _Watch:
    """Counts and times requests, and drops clients that do not read their response."""

    def __init__(self, app: ASGIApp, metrics: Metrics, timeout: float, access_log: AccessLog | None):
        self._app = app
        self._timeout = timeout
        self._access_log = access_log
        self._count = cache(metrics.requests.labels)  # a lookup takes 7 µs
        self._time = cache(metrics.seconds.labels)
        self._num_running = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        self._num_running += 1
        started = time.perf_counter()
        status = CLIENT_GONE
        num_read = 0
        num_sent = 0

        async def receive_and_count() -> Message:
            nonlocal num_read
            message = await receive()
            num_read += len(message.get("body", b""))
            return message

        async def send_in_time(message: Message) -> None:
            nonlocal status, num_sent
            num_sent += len(message.get("body", b""))
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (b"x-content-type-options", b"nosniff")]
            elif message.get("more_body"):
                async with asyncio.timeout(self._timeout):
                    await send(message)
                return
            await send(message)  # needs no timeout: it fits into a buffer

        try:
            await self._app(scope, receive_and_count, send_in_time)
        except TimeoutError:
            log.info("a client did not read its response within %g seconds", self._timeout)
        except asyncio.CancelledError:  # the server's time to stop is over
            if status == CLIENT_GONE:
                refusal = RequestError(503, "the server is stopping", retry_after=1)
                await (await _answer_error(Request(scope), refusal))(scope, receive, send_in_time)
        finally:
            self._num_running -= 1
            if not self._num_running and gc.get_count()[2] >= 10:  # when Python would do it, however many requests run
                gc.collect()
            seconds = time.perf_counter() - started
            path = scope["route"].path if "route" in scope else "other"
            self._count(path, status).inc()
            self._time(path).observe(seconds)
            if self._access_log is not None:
                self._access_log.write(
                    key=scope.get(KEY_NAME, ""),
                    route=path,
                    status=status,
                    ms=round(1000 * seconds, 1),
                    request_bytes=num_read,
                    response_bytes=num_sent,
                )
