"""Train a SentencePiece model: a function, and a program that runs it in a separate process. Imports nothing from nmt.

    python sentencepiece_worker.py

reads a line of JSON with the options, and one line per sentence, each a JSON string. It writes the model, or
SentencePiece's error message and exits with code `REFUSED`. It ends when the process that started it has ended.
"""

from __future__ import annotations

import io
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterable
from typing import Any

REFUSED = 3  # exit code if SentencePiece cannot learn a model; no fault of the interpreter has it


class SentencePieceError(Exception):
    """The message of SentencePiece, which cannot learn a model."""


def learn(sentences: Iterable[str], options: dict[str, Any]) -> bytes:
    """Return the serialized SentencePiece model of `sentences`. SentencePieceError if it cannot be learned."""
    import sentencepiece

    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(sentences), model_writer=model, **options)
    except (RuntimeError, SystemError, ValueError, OSError) as error:
        raise SentencePieceError(str(error)) from None
    return model.getvalue()


def main() -> int:
    """Learn a model from standard input; return the exit code."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    lines = map(json.loads, sys.stdin.buffer)
    options = next(lines)
    try:
        answer = learn(lines, options)
        code = 0
    except SentencePieceError as error:
        answer = str(error).encode()
        code = REFUSED
    sys.stdout.buffer.write(answer)
    sys.stdout.buffer.flush()
    return code


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
