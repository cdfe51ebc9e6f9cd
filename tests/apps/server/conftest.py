"""Real servers on free ports, each in a thread, and the same application called without a socket."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import httpx
import pytest

from nmt.apps.server.access import read_keys
from nmt.apps.server.app import make_app
from nmt.apps.server.metrics import Metrics
from nmt.apps.server.models import Models
from nmt.apps.server.run import Server, address, bind, make_config
from nmt.apps.server.settings import Settings


class Served:
    """An application with a client."""

    client: httpx.Client
    metrics: Metrics
    models: Models

    def translate(self, **body: object) -> httpx.Response:
        """Ask for a translation, in JSON."""
        return self.client.post("/translate", json=body)

    def metric(self, name: str, **labels: str) -> float:
        """Return the value of a metric; 0 if nothing was counted yet."""
        return self.metrics.registry.get_sample_value(name, labels) or 0.0


class Configured(Served, httpx.BaseTransport):
    """The application with the models of a running server and other settings. It is called without a socket."""

    def __init__(self, running: Running, keys: Path | None = None, **limits: object):
        self.metrics, self.models = Metrics(), running.models
        settings = Settings(**limits)  # type: ignore[arg-type]
        self._app = make_app(self.models, settings, read_keys(keys) if keys else {}, self.metrics)
        self.client = httpx.Client(base_url="http://test", transport=self)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Call the application in an event loop of its own."""

        async def answer() -> httpx.Response:
            response = await httpx.ASGITransport(app=self._app).handle_async_request(request)
            return httpx.Response(response.status_code, headers=response.headers, content=await response.aread())

        return asyncio.run(answer())


class Running(Served):
    """A server in a thread."""

    def __init__(
        self, paths: list[Path], keys: Path | None = None, grace_seconds: float | None = None, **limits: object
    ):
        self.settings = Settings(port=0, device="cpu", precision="fp32", **limits)  # type: ignore[arg-type]
        self.metrics = Metrics()
        self.models = Models([str(path) for path in paths], self.settings, self.metrics)
        self.app = make_app(self.models, self.settings, read_keys(keys) if keys else {}, self.metrics)
        config = make_config(self.app)
        if grace_seconds is not None:
            config.timeout_graceful_shutdown = grace_seconds  # type: ignore[assignment]  # a test does not wait for 30
        self._server = Server(config)
        self._listener = bind(self.settings)
        self.url = address(self._listener)
        # Without TLS: reading the certificates of all authorities would take 70 ms.
        self.client = httpx.Client(base_url=self.url, timeout=300, verify=False)
        self._thread = threading.Thread(target=self._server.run, args=([self._listener],))
        self._thread.start()
        while not self._server.started:
            assert self._thread.is_alive(), "the server did not start"
            time.sleep(0.005)

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop of its thread."""
        return self._server.servers[0].get_loop()

    @property
    def num_running(self) -> int:
        """The number of requests that are being answered."""
        return len(self._server.server_state.tasks)

    def stop(self) -> None:
        """Stop as SIGTERM does, and wait for the end."""
        self._server.should_exit = True
        self._thread.join()
        self.client.close()
        self._listener.close()


@pytest.fixture(scope="session")
def running(two_run: Path, letters_run: Path) -> Iterator[Running]:
    """A server with a model of two directions (en to de and fr), and one that keeps spans (de to en)."""
    server = Running([two_run, letters_run])
    yield server
    server.stop()


@pytest.fixture
def start() -> Iterator[Callable[..., Running]]:
    """Start servers of a test's own, as `Running`."""
    servers: list[Running] = []

    def begin(paths: list[Path], **options: object) -> Running:
        servers.append(Running(paths, **options))  # type: ignore[arg-type]
        return servers[-1]

    yield begin
    for server in servers:
        server.stop()


@pytest.fixture
def configure(running: Running) -> Callable[..., Configured]:
    """Return the application of `running` with settings of a test's own, as `Configured`."""
    return partial(Configured, running)
