"""Train a SentencePiece model in a process of its own, which takes its memory with it when it ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from itertools import chain
from typing import IO, Any

from nmt.base.errors import NmtError
from nmt.data.tokens import sentencepiece_worker
from nmt.data.tokens.sentencepiece_worker import REFUSED, SentencePieceError


def learn_in_process(sentences: Iterable[str], options: dict[str, Any]) -> bytes:
    """Return what `learn` does. SentencePieceError if no model can be learned; NmtError if the process fails."""
    # Not with multiprocessing, which imports the main module again, so a user's script would need a guard.
    process = subprocess.Popen(
        [sys.executable, "-P", sentencepiece_worker.__file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        _send(process.stdin, options, sentences)
        answer = process.stdout.read()
        code = process.wait()
    finally:
        process.kill()
        process.stdout.close()
        with suppress(OSError):  # what the process has not read
            process.stdin.close()
        process.wait()
    if code == REFUSED:
        raise SentencePieceError(answer.decode())
    if code != 0:
        hint = "it may have run out of memory; lower tokenizer.max_sentences"
        raise NmtError(f"the process that trains the tokenizer failed with exit code {code}", hint=hint)
    return answer


def _send(stream: IO[bytes], options: dict[str, Any], sentences: Iterable[str]) -> None:
    """Send everything as lines of JSON, followed by an empty line, unless the process ends before."""
    lines = (json.dumps(value).encode("ascii") + b"\n" for value in chain([options], sentences))
    for line in chain(lines, [b"\n"]):
        try:
            stream.write(line)
        except OSError:  # not in the loop's head, because faults of the text pass through
            return
    with suppress(OSError):
        stream.flush()
