"""A model behind a plain handler: each request is translated separately, in a thread of starlette's pool.

    python benchmarks/peers/plain_server.py RUN_OR_EXPORT

Prints its address on standard error, as `nmt serve` does.
"""

from __future__ import annotations

import socket
import sys

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from nmt import Translator


def main(model: str) -> None:
    """Serve until SIGTERM."""
    translator = Translator.load(model, device="cpu", scores=False)

    async def translate(request: Request) -> JSONResponse:
        body = await request.json()
        (found,) = await run_in_threadpool(translator.translate, [body["q"]])
        return JSONResponse({"translatedText": found.text})

    app = Starlette(routes=[Route("/translate", translate, methods=["POST"])])
    # With an explicit protocol, asyncio sets TCP_NODELAY, as it does for uvicorn's own sockets.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(4096)
        sys.stderr.write(f"serving at http://127.0.0.1:{listener.getsockname()[1]}; plain\n")
        sys.stderr.flush()
        config = uvicorn.Config(app, log_level="error", access_log=False, backlog=4096)
        uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main(sys.argv[1])
