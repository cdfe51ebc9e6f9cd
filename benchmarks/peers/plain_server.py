"""A model behind a plain handler: each request is translated separately, in a thread of starlette's pool.

    python benchmarks/peers/plain_server.py RUN_OR_EXPORT

Prints its address on standard error, as `nmt serve` does.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from nmt import Translator
from nmt.base.machine import num_cores
from nmt.data.tokens.tokenizer import TokenizerPair


def nmt_function(model: str) -> Callable[[str], str]:
    """Return a function that translates a text with a run."""
    translator = Translator.load(model, device="cpu", scores=False)
    return lambda text: translator.translate([text])[0].text


def ctranslate2_function(folder: Path) -> Callable[[str], str]:
    """Return a function that translates a text with an export, by CTranslate2's own interface."""
    import ctranslate2

    tokenizers = TokenizerPair.load(folder / "tokenizer")
    ids = {token: i for i, token in enumerate(tokenizers.tgt.vocabulary)}
    translator = ctranslate2.Translator(str(folder), "cpu", inter_threads=num_cores(), intra_threads=1)

    def translate(text: str) -> str:
        source = tokenizers.src.tokens(tokenizers.src.encode(text))
        (result,) = translator.translate_batch([source], beam_size=1, disable_unk=True)
        return tokenizers.tgt.decode([ids[token] for token in result.hypotheses[0]])

    return translate


def main(model: str) -> None:
    """Serve until SIGTERM."""
    translate_text = ctranslate2_function(Path(model)) if Path(model, "model.bin").exists() else nmt_function(model)

    async def translate(request: Request) -> JSONResponse:
        body = await request.json()
        return JSONResponse({"translatedText": await run_in_threadpool(translate_text, body["q"])})

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
