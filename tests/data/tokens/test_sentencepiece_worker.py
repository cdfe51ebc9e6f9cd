"""The program that trains SentencePiece: it ends if the process that started it does."""

from __future__ import annotations

import json
import subprocess
import sys

from nmt.data.tokens import sentencepiece_worker
from nmt.data.tokens.sentencepiece_worker import REFUSED

OPTIONS = {"model_type": "char", "vocab_size": 30, "hard_vocab_limit": False, "minloglevel": 2}


def started(*lines: str) -> subprocess.Popen[bytes]:
    """Start the program and send it these lines."""
    command = [sys.executable, sentencepiece_worker.__file__]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write("".join(f"{line}\n" for line in lines).encode())
    process.stdin.flush()
    return process


def test_it_answers_with_a_model_while_its_input_is_open():
    with started(json.dumps(OPTIONS), '"abc"', "") as process:
        assert b"abc" not in process.stdout.read()
        assert process.wait() == 0


def test_it_answers_with_the_message_of_sentencepiece():
    with started(json.dumps(OPTIONS | {"model_type": "x"}), '"abc"', "") as process:
        assert b"x" in process.stdout.read()
        assert process.wait() == REFUSED


def test_an_incomplete_text_gives_no_model():
    with started(json.dumps(OPTIONS), '"abc"') as process:
        assert process.communicate() == (b"", b"")
        assert process.wait() == 1
