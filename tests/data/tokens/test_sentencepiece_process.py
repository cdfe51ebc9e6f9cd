"""Training a tokenizer in a process of its own: the same bytes and errors as in this one, and no memory left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from nmt.base.errors import DataError, NmtError
from nmt.config.tokenizer import TokenizerConfig
from nmt.data.tokens import sentencepiece_training
from nmt.data.tokens.sentencepiece_training import train_tokenizers

LINES = [
    "Ein Hund läuft durch den Wald .",
    "Zwei Männer sitzen da .",
    "一只狗跑过树林。",
    "a\0b ▁\u2028",
    "\ud800 \t ",
] * 9

SCRIPT = """
import random, signal
from nmt.config.tokenizer import TokenizerConfig
from nmt.data.tokens import sentencepiece_training
from nmt.data.tokens.sentencepiece_training import train_model

def text():
    draw = random.Random(1)
    words = ["".join(draw.choices("abcdefghijklmnop", k=draw.randint(2, 9))) for _ in range(2000)]
    for _ in range(12_000):
        yield " ".join(draw.choices(words, k=15))
    print("read", flush=True)

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have started the tests with it ignored
sentencepiece_training.MAX_CHARACTERS_HERE = 0
config = TokenizerConfig(vocab_size=4000)
"""
MEMORY = """
from pathlib import Path
import re

def peak():  # in MB; not of getrusage, whose peak includes that of the process that started this one
    return int(re.search(r"VmHWM:\\s+([0-9]+)", Path("/proc/self/status").read_text())[1]) / 1024

for _ in text():
    pass
before = peak()
train_model(config, {"source": text}, 1)
print(peak() - before)
"""


@pytest.fixture
def in_process(monkeypatch):
    monkeypatch.setattr(sentencepiece_training, "MAX_CHARACTERS_HERE", 0)


def trained(**keys):
    config = TokenizerConfig(**{"vocab_size": 340, **keys})
    return train_tokenizers(config, lambda: iter(LINES), lambda: iter(LINES[:7])).src


@pytest.mark.parametrize("kind", ["unigram", "bpe", "char", "word"])
def test_both_ways_give_the_same_bytes(kind, monkeypatch):
    models = list[bytes]()
    for limit in (0, 1_000_000):
        monkeypatch.setattr(sentencepiece_training, "MAX_CHARACTERS_HERE", limit)
        models.append(trained(type=kind, user_symbols=("<2de>", "“”"), max_sentences=20).model_bytes)
    assert models[0] == models[1]


@pytest.mark.usefixtures("in_process")
def test_a_vocabulary_too_small_is_the_same_error():
    with pytest.raises(DataError) as caught:
        trained(vocab_size=8)
    smallest = int(caught.value.hint.split()[3])
    assert caught.value.message.startswith("a vocabulary of 8 is too small for the source and target text: it needs at")
    assert trained(vocab_size=smallest).vocab_size == smallest


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize("fault", [DataError("not UTF-8", line=3), OSError("unreadable"), KeyboardInterrupt()])
def test_a_fault_in_the_text_comes_through_as_it_is(fault):
    passes = []

    def failing():
        passes.append(1)
        yield from LINES
        if len(passes) == 2:
            raise fault

    with pytest.raises(type(fault)) as caught:
        train_tokenizers(TokenizerConfig(), failing, lambda: iter(LINES))
    assert caught.value is fault


@pytest.mark.usefixtures("in_process")
def test_a_process_that_fails_is_one_error(monkeypatch, capfd):
    monkeypatch.setenv("PYTHONIOENCODING", "none")  # the interpreter does not start
    with pytest.raises(NmtError) as caught:
        trained()
    assert str(caught.value) == (
        "the process that trains the tokenizer failed with exit code 1\n"
        "  it may have run out of memory; lower tokenizer.max_sentences"
    )
    assert capfd.readouterr() == ("", "")


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_memory_for_training_is_that_of_the_other_process():
    done = subprocess.run([sys.executable, "-c", SCRIPT + MEMORY], capture_output=True, check=True, encoding="utf-8")
    assert float(done.stdout.splitlines()[-1]) < 5  # MB; trained in the same process, it is 17 or more


def is_running(group):
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.skipif(sys.platform == "win32", reason="sends signals")
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
def test_a_process_that_is_stopped_does_not_leave_the_other_behind(sent):
    command = [sys.executable, "-c", SCRIPT + 'train_model(config, {"source": text}, 1)']
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    with process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == [b"read\n", b"read\n"]  # now the other one learns
        process.send_signal(sent)
        assert process.wait(60) == -sent
    deadline = time.monotonic() + 600
    while is_running(group=process.pid):
        assert time.monotonic() < deadline
        time.sleep(0.05)
