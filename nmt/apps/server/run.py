"""Run the application with uvicorn until SIGTERM or Ctrl-C."""

from __future__ import annotations

import asyncio
import gc
import logging
import re
import signal
import socket
import sys
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from threading import Event
from typing import Any

import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from nmt.apps.server.access import Key, read_keys
from nmt.apps.server.app import make_app
from nmt.apps.server.metrics import Metrics
from nmt.apps.server.models import Models
from nmt.apps.server.settings import Settings
from nmt.base.errors import NmtError, counted

log = logging.getLogger(__name__)

HEADER_SECONDS = 30.0  # for a connection to send the headers of a request, from its first byte
_MAX_HEADER_BYTES = 65_536
_TOO_LONG = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
_UPGRADE = re.compile(rb"\nUpgrade:", re.IGNORECASE)
_KEEP_ALIVE = 75  # seconds that a connection may wait for its next request
_BACKLOG = 4096
_SWITCH_SECONDS = 0.0005  # the event loop's wait for a translating thread; Python's default is ten times longer
_RARELY = 1000  # collections of the middle generation before one of all objects, which stops everything for 60 ms
_MAX_CONNECTIONS = 20_000  # beyond it, requests get 503
_SPARE_FILES = 256  # in addition to connections
_TURNS, _TURN_SECONDS = 10, 0.002  # of the event loop: it needs about three to accept a connection and to read it
_MAX_TIMES = 50  # if clients never pause
GRACE_SECONDS = 30  # for running requests to finish after SIGTERM


class Protocol(HttpToolsProtocol):
    """HTTP/1.1 that closes connections if the headers of a request do not arrive in time, or are too long.

    uvicorn closes those that send nothing after a response.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timeout for the first request."""
        super().connection_made(transport)
        self._deadline: asyncio.TimerHandle | None = None
        self._expect_headers()
        self._in_body = False
        self._header_bytes = 0

    def data_received(self, data: bytes) -> None:
        """Answer 431 if there are too many header bytes, and close the connection if they do not end in time.

        The header `Upgrade`, which Java's client sends, is ignored, as HTTP allows: after it, the parser reads no body.
        """
        if self._header_bytes > _MAX_HEADER_BYTES:
            return  # so that the client, which is still sending, can read the answer
        if not self._in_body:
            head, end, rest = data.partition(b"\r\n\r\n")
            data = _UPGRADE.sub(b"\nx-upgrade:", head) + end + rest
            self._header_bytes += len(head)
            if self._header_bytes > _MAX_HEADER_BYTES:
                self.transport.write(_TOO_LONG)
                return
        super().data_received(data)
        self._expect_headers()

    def on_headers_complete(self) -> None:
        """Stop counting."""
        self._in_body = True
        self._header_bytes = 0
        self._stop_deadline()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Expect the headers of the next request."""
        self._in_body = False
        super().on_message_complete()

    def _expect_headers(self) -> None:
        """Start the timeout, unless it runs or a request is being answered."""
        if self._deadline is None and (self.cycle is None or self.cycle.response_complete):
            self._deadline = self.loop.call_later(HEADER_SECONDS, self.transport.close)

    def _stop_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class Server(uvicorn.Server):
    """Answers all requests that were sent before it stops, and on SIGHUP, calls `reload`.

    It does so when it starts, if `hung_up` tells of a SIGHUP before.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        reload: Callable[[], Coroutine[Any, Any, None]] | None = None,
        hung_up: Event | None = None,
    ):
        super().__init__(config)
        self._reload = reload
        self._hung_up = hung_up

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start as uvicorn does."""
        await super().startup(sockets)
        if self._reload is not None and hasattr(signal, "SIGHUP"):
            loop = asyncio.get_running_loop()
            reload = self._reload

            def begin() -> None:
                self._reloading = loop.create_task(reload())

            loop.add_signal_handler(signal.SIGHUP, begin)
            if self._hung_up is not None and self._hung_up.is_set():
                begin()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept the connections that wait, read what they sent, and then stop as uvicorn does."""
        await self._take_turns()
        for server in self.servers:
            server.close()
        await self._take_turns()
        await super().shutdown(sockets)

    async def _take_turns(self) -> None:
        """Let the event loop look for new connections and requests until several turns bring none."""
        for _ in range(_MAX_TIMES):
            found = self.server_state.total_requests
            for _ in range(_TURNS):
                await asyncio.sleep(_TURN_SECONDS)
            if self.server_state.total_requests == found:
                return


def serve(
    models: list[str | None], settings: Settings, api_keys: Path | None, hung_up: Event, *, only_check: bool = False
) -> None:
    """Load `models` and serve them until SIGTERM or Ctrl-C, then finish the running requests and return.

    `api_keys` is a file as of `read_keys`. On SIGHUP, all is loaded anew; `hung_up` tells of one that came before. If
    `only_check`, return before serving.
    NmtError if a model, a key or a memory cannot be used, or the address cannot be bound.
    """
    metrics = Metrics()

    def read() -> Mapping[bytes, Key]:
        return {} if api_keys is None else read_keys(api_keys)

    def load() -> Models:
        return Models(models, settings, metrics)

    with nullcontext() if only_check else bind(settings) as listener:
        keys = read()
        loaded = load()
        app = make_app(loaded, settings, keys, metrics)
        for served in loaded.served:
            log.info("model: %s (%s)", served.name, ", ".join(map(str, served.directions)))
        if listener is None:
            log.info("all of this can be served, with %s", counted(len(keys), "key"))
            loaded.close()
            return
        server = Server(make_config(app), lambda: app.state.reload(read, load), hung_up)
        listen(listener, settings)  # now, so that clients can connect as soon as the next line is logged
        log.info("serving at %s; stop with Ctrl-C", address(listener))
        sys.setswitchinterval(_SWITCH_SECONDS)
        gc.collect()
        gc.freeze()  # loaded objects stay, so the collections triggered by requests need not scan them
        gc.set_threshold(700, 10, _RARELY)  # `_Watch` does it when no request is running
        for name in ("SIGINT", "SIGTERM", "SIGBREAK"):  # uvicorn raises them again when it has stopped
            if hasattr(signal, name):
                signal.signal(getattr(signal, name), lambda *_: None)
        server.run(sockets=[listener])
    log.info("stopped")


def make_config(app: Starlette) -> uvicorn.Config:
    """Return the uvicorn configuration for `app`."""
    _raise_file_limit(_MAX_CONNECTIONS + _SPARE_FILES)
    return uvicorn.Config(
        app,
        http=Protocol,
        ws="none",
        loop="auto",
        log_config=None,
        log_level="error",
        access_log=False,
        server_header=False,
        backlog=_BACKLOG,
        limit_concurrency=_MAX_CONNECTIONS,
        timeout_keep_alive=_KEEP_ALIVE,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )


def address(listener: socket.socket) -> str:
    """Return the URL of a bound socket."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def bind(settings: Settings) -> socket.socket:
    """Return a bound socket. Called before the models are loaded, so that a port in use fails early."""
    with _address_errors(settings):
        addresses = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, socket_address = addresses[0]
        listener = socket.socket(family, kind, protocol)
        try:
            if hasattr(socket, "SO_REUSEPORT"):  # not on Windows, where SO_REUSEADDR would share a port in use
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(socket_address)
        except BaseException:
            listener.close()
            raise
    listener.setblocking(False)
    return listener


def listen(listener: socket.socket, settings: Settings) -> None:
    """Accept connections. NmtError if a server that was started at the same time listens there already."""
    with _address_errors(settings):
        listener.listen(_BACKLOG)


@contextmanager
def _address_errors(settings: Settings) -> Iterator[None]:
    try:
        yield
    except (OSError, OverflowError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise NmtError(
            f"cannot listen at {settings.host} port {settings.port} ({reason})",
            hint="choose another one with --host and --port",
        ) from None


def _raise_file_limit(num_files: int) -> None:
    """Raise the limit of open files to `num_files`, if allowed; the system's default may be only 1,024 or 256."""
    try:
        import resource
    except ImportError:  # Windows
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = num_files if hard == resource.RLIM_INFINITY else min(num_files, hard)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
