"""`nmt serve`: serve models over HTTP, with a web page."""

from __future__ import annotations

import re
import signal
from pathlib import Path
from threading import Event
from typing import Annotated

import typer

from nmt.apps.commands.options import Device, Precision
from nmt.apps.server.settings import Settings
from nmt.base.errors import printable, require
from nmt.base.machine import request_exact_mkl

_ORIGIN = re.compile(r"\*|null|[a-z][a-z0-9+.-]*://[!-.0-~]+")  # printable ASCII without / after the scheme
_NEEDED = ("httptools", "prometheus_client", "starlette", "uvicorn")

Served = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        "-m",
        metavar="MODEL",
        help="Run directory, packed model or hf:user/name to serve. Repeat for several; the first one that has a "
        "direction serves it. "
        "Default: $NMT_MODEL, or the most recently trained run in ./runs.",
    ),
]
Host = Annotated[str, typer.Option("--host", help="Address to listen on. 0.0.0.0: all addresses of this machine.")]
Port = Annotated[int, typer.Option("--port", min=0, max=65535, help="Port to listen on. 0: any free port.")]
Keys = Annotated[
    Path | None, typer.Option("--api-keys", help="File with API keys, one per line. Default: no key is needed.")
]
CharLimit = Annotated[int, typer.Option(min=1, max=10_000_000, metavar="N", help="Maximum characters per request.")]
BatchLimit = Annotated[int, typer.Option(min=1, max=100_000, metavar="N", help="Maximum texts per request.")]
FileLimit = Annotated[
    float, typer.Option(min=0, max=1000, metavar="MB", help="Maximum size of a document. 0: do not accept documents.")
]
RateLimit = Annotated[
    int,
    typer.Option(
        min=0, metavar="N", help="Maximum requests per minute per key, or per address if no key is needed. 0: no limit."
    ),
]
Timeout = Annotated[
    float, typer.Option(min=0.1, metavar="S", help="Seconds until a request that is not streamed gets 503.")
]


def _origin(value: str) -> str:
    """Return an origin as browsers send it. typer.BadParameter if no browser sends it, or it would end a header."""
    if value and not _ORIGIN.fullmatch(value):
        raise typer.BadParameter(f"{printable(value)} is not an origin, such as https://example.org (without a path)")
    return value


CorrectionsFile = Annotated[
    Path | None, typer.Option("--corrections", help="TMX file that collects corrections. Default: do not accept them.")
]
AccessLogFile = Annotated[
    Path | None,
    typer.Option("--access-log", help="File that gets one line of JSON per request, without texts. Default: none."),
]
Check = Annotated[
    bool, typer.Option("--check", help="Load models, keys and memories, say if they can be served, stop.")
]
MemoryFile = Annotated[
    str, typer.Option("--tm", metavar="FILE", help="Translation memory (TMX), from which known texts are answered.")
]
AllowOrigin = Annotated[
    str,
    typer.Option(
        metavar="ORIGIN", callback=_origin, help="Origin whose web pages may use the server; *: all. Default: none."
    ),
]


def serve(
    models: Served = None,
    host: Host = "127.0.0.1",
    port: Port = 5000,
    api_keys: Keys = None,
    char_limit: CharLimit = 20_000,
    batch_limit: BatchLimit = 500,
    file_limit: FileLimit = 2.0,
    rate_limit: RateLimit = 0,
    timeout: Timeout = 60.0,
    allow_origin: AllowOrigin = "",
    corrections: CorrectionsFile = None,
    tm: MemoryFile = "",
    access_log: AccessLogFile = None,
    check: Check = False,
    device: Device = "auto",
    precision: Precision = "auto",
) -> None:
    """Serve models over HTTP, with a web page.

    Implements the APIs of LibreTranslate, DeepL and OpenAI. Needs the extra `serve`. On SIGTERM or Ctrl-C, the server
    finishes running requests, then stops. On SIGHUP, it loads models, keys and memories anew, if they can be used.
    """
    hung_up = Event()  # before the server can reload
    if hasattr(signal, "SIGHUP"):
        # It would end the process. Blocking it would not do: a thread that a library starts might get it.
        signal.signal(signal.SIGHUP, lambda *_: hung_up.set())
    for package in _NEEDED:
        require("serve", package, "nmt serve")
    request_exact_mkl()
    from nmt.apps.server.run import serve as run

    settings = Settings(
        host=host,
        port=port,
        char_limit=char_limit,
        batch_limit=batch_limit,
        file_limit=int(file_limit * 1_000_000),
        rate_limit=rate_limit,
        timeout=timeout,
        allow_origin=allow_origin,
        corrections=corrections,
        access_log=access_log,
        tm=tm,
        device=device,
        precision=precision,
    )
    run([*models] if models else [None], settings, api_keys, hung_up, only_check=check)
