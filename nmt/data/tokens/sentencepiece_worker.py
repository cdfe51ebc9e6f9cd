"""Train a SentencePiece model: a function, and a program that runs it in a separate process. Imports nothing from nmt.

    python sentencepiece_worker.py

reads a line of JSON with the options, one line per sentence, each a JSON string, and an empty line. It writes the
model, or SentencePiece's error message and exits with code `REFUSED`. Standard input must stay open until then: its end
tells the program that the process that started it has ended.
"""

from __future__ import annotations

import io
import json
import os
import signal
import sys
import threading
from collections.abc import Iterable, Iterator
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
    options = json.loads(sys.stdin.buffer.readline())
    try:
        answer, code = learn(_sentences(sys.stdin.buffer), options), 0
    except SentencePieceError as error:
        answer, code = str(error).encode(), REFUSED
    sys.stdout.buffer.write(answer)
    sys.stdout.buffer.flush()
    return code


def _sentences(lines: Iterable[bytes]) -> Iterator[str]:
    """Yield the sentences up to the empty line; end this process if they are incomplete."""
    for line in lines:
        if line == b"\n":
            threading.Thread(target=_end_with_input, daemon=True).start()
            return
        yield json.loads(line)
    os._exit(1)


def _end_with_input() -> None:
    # Not with sys.stdin, whose lock a thread must not hold when the interpreter ends.
    os.read(0, 1)
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
