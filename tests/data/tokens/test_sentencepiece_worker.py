"""The program that trains SentencePiece: it answers with a model, or with the message of SentencePiece."""

from __future__ import annotations

import json
import subprocess
import sys

from nmt.data.tokens import sentencepiece_worker
from nmt.data.tokens.sentencepiece_worker import REFUSED

OPTIONS = {"model_type": "char", "vocab_size": 30, "hard_vocab_limit": False, "minloglevel": 2}


def answer(*lines: str) -> subprocess.CompletedProcess[bytes]:
    """Return what the program answers to these lines."""
    command = [sys.executable, sentencepiece_worker.__file__]
    text = "".join(f"{line}\n" for line in lines).encode()
    return subprocess.run(command, input=text, capture_output=True, check=False)


def test_it_answers_with_a_model():
    done = answer(json.dumps(OPTIONS), '"abc"')
    assert done.returncode == 0
    assert b"abc" not in done.stdout


def test_it_answers_with_the_message_of_sentencepiece():
    done = answer(json.dumps(OPTIONS | {"model_type": "x"}), '"abc"')
    assert done.returncode == REFUSED
    assert b"x" in done.stdout
