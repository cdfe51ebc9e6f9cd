"""Standard streams that are closed, broken or full, as daemons, pipes and full disks leave them."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TextIO

import pytest
import yaml

from nmt.apps.commands.outputs import open_output
from nmt.apps.commands.streams import StandardError, print_text
from nmt.base.errors import NmtError
from nmt.base.files import to_json
from tests.quick import quick_and_slow
from tests.reliability.running import nmt
from tests.tiny import tiny_values

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="runs the command in a forked process")
needs_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full")
NAMES = ("stdin", "stdout", "stderr")
REPLACED: list[TextIO] = []  # kept, because a stream that is collected closes its descriptor


def close(*names: str) -> None:
    """Close streams as a daemon's parent does: Python sets them to None."""
    for name in names:
        REPLACED.append(getattr(sys, name))
        os.close(NAMES.index(name))
        setattr(sys, name, None)


def redirect(name: str, descriptor: int) -> None:
    REPLACED.append(getattr(sys, name))
    os.dup2(descriptor, NAMES.index(name))
    setattr(sys, name, os.fdopen(NAMES.index(name), "r" if name == "stdin" else "w", 1, encoding="utf-8"))


def broken_pipe() -> int:
    reader, writer = os.pipe()
    os.close(reader)
    return writer


def full_disk() -> int:
    return os.open("/dev/full", os.O_WRONLY)


@needs_fork
def test_files_are_translated_though_all_streams_are_closed(digits_run, tmp_path):
    (tmp_path / "in").write_text("123\n45\n")
    arguments = ("translate", "-m", digits_run, "-i", "in", "-o", "out")
    assert nmt(*arguments, cwd=tmp_path, before=lambda: close(*NAMES)).code == 0
    assert (tmp_path / "out").read_text() == "321\n54\n"


@needs_fork
def test_a_closed_standard_input_is_one_message(digits_run, tmp_path):
    done = nmt("translate", "-m", digits_run, cwd=tmp_path, before=lambda: close("stdin"))
    hint = "give texts as arguments, or a file with --input"
    assert (done.code, done.text) == (1, f"error: standard input is closed\n  {hint}\n")


@needs_fork
def test_a_folder_as_standard_input_is_one_message(digits_run, tmp_path):
    folder = os.open(tmp_path, os.O_RDONLY)
    done = nmt("translate", "-m", digits_run, cwd=tmp_path, before=lambda: os.dup2(folder, 0))
    os.close(folder)
    assert (done.code, done.text) == (1, "error: standard input: cannot be read: Is a directory\n")


@needs_fork
@pytest.mark.parametrize("verb", ["translate", "eval"])
def test_a_closed_standard_output_is_one_message(verb, digits_run, tmp_path):
    texts = ["123"] if verb == "translate" else []
    done = nmt(verb, "-m", digits_run, *texts, cwd=tmp_path, before=lambda: close("stdout"))
    assert (done.code, done.error) == (1, "error: cannot write to standard output (Bad file descriptor)")


@needs_fork
@needs_full
def test_a_full_standard_output_is_one_message(digits_run, tmp_path):
    done = nmt("translate", "-m", digits_run, "12", cwd=tmp_path, before=lambda: redirect("stdout", full_disk()))
    assert (done.code, done.text) == (1, "error: cannot write to standard output (No space left on device)\n")


@needs_full
@pytest.mark.parametrize("arguments", [["--version"], ["config", "show", "-c", "a.yaml"]], ids=" ".join)
def test_a_full_standard_output_is_not_complained_of_at_exit(tmp_path, digits, arguments):
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(tiny_values(digits)))
    environment = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    environment.pop("PYTHONUNBUFFERED", None)  # with it nothing is left to be flushed at exit
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "nmt", *arguments], cwd=tmp_path, stdout=full,
            stderr=subprocess.PIPE, text=True, check=False, env=environment,
        )  # fmt: skip
    assert done.stderr == "error: cannot write to standard output (No space left on device)\n"
    assert done.returncode == 1


HOSTILE = "a\x1b]0;title\x07\tb\r\x9bc\u200d\nd"


def test_control_characters_are_shown_on_a_terminal(monkeypatch):
    pty = pytest.importorskip("pty", reason="needs pseudo terminals")
    reader, writer = pty.openpty()
    with os.fdopen(writer, "w", encoding="utf-8", newline="") as terminal:
        monkeypatch.setattr(sys, "stdout", terminal)
        print_text(HOSTILE)
        with open_output(None, {}, 1, resume=False) as output:
            output.write(HOSTILE)
        shown = b""
        while shown.count(b"\nd") < 2:  # the last of what is written, twice
            assert select.select([reader], [], [], 60)[0]
            shown += os.read(reader, 1000)
    os.close(reader)
    escaped = "a\\x1b]0;title\\x07\tb\\x0d\\x9bc\u200d\nd"
    assert shown.decode().replace("\r\n", "\n").expandtabs() == f"{escaped}\n{escaped}".expandtabs()


def test_control_characters_go_into_pipes_as_they_are(capsys):
    print_text(HOSTILE)
    assert capsys.readouterr().out == HOSTILE + "\n"


@needs_full
@pytest.mark.slow  # each in a process of its own; the test of a signal below trains with a broken pipe, every time
@pytest.mark.parametrize("fault", ["closed", "broken", "full"])
def test_training_goes_on_though_nobody_can_read_its_messages(fault, digits, tmp_path):
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(tiny_values(digits, training={"max_updates": 4})))
    command = [sys.executable, "-m", "nmt", "train", "-c", "a.yaml"]
    if fault == "closed":
        command = ["sh", "-c", 'exec "$@" 2>&-', "sh", *command]
    with os.fdopen(full_disk() if fault == "full" else broken_pipe(), "w") as stream:
        done = subprocess.run(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=stream, check=False)
    assert (done.returncode, done.stdout) == (0, b"")
    index = json.loads((tmp_path / "runs" / "a" / "checkpoints" / "index.json").read_text())
    assert index["last"] == "step-00000004"


@needs_full
@pytest.mark.parametrize(
    ("arguments", "code", "fault"),
    quick_and_slow(
        [
            (["train"], 2, "broken"),
            (["plot", "nowhere"], 1, "full"),
            (["train"], 2, "full"),
            (["plot", "nowhere"], 1, "broken"),
        ],
        lambda number, _: number < 2,
    ),
)
def test_a_fault_that_nobody_hears_of_has_the_same_exit_code(arguments, code, fault, tmp_path):
    stderr = broken_pipe() if fault == "broken" else full_disk()
    environment = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    command = [sys.executable, "-m", "nmt", *arguments]
    done = subprocess.run(command, cwd=tmp_path, stderr=stderr, check=False, env=environment)
    os.close(stderr)
    assert done.returncode == code


@needs_fork
def test_a_signal_saves_the_training_though_nobody_can_read_so(digits, tmp_path):
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(tiny_values(digits, training={"max_updates": 100_000})))

    def before() -> None:
        redirect("stderr", broken_pipe())
        threading.Thread(target=stop_when_trained, daemon=True).start()

    def stop_when_trained() -> None:
        while not (tmp_path / "runs" / "a" / "checkpoints" / "index.json").exists():
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGTERM)

    assert nmt("train", "-c", "a.yaml", cwd=tmp_path, before=before).code == 143
    assert (tmp_path / "runs" / "a" / "state" / "training.safetensors").exists()


@needs_fork
def test_a_translation_goes_on_though_nobody_can_read_its_warnings(digits_run, tmp_path):
    (tmp_path / "in").write_bytes(b"12\n\xff\n34\n")
    arguments = ("translate", "-m", digits_run, "-i", "in", "-o", "out")
    done = nmt(*arguments, cwd=tmp_path, before=lambda: redirect("stderr", broken_pipe()))
    assert done.code == 0
    assert (tmp_path / "out").read_text().splitlines()[::2] == ["21", "43"]


def test_standard_error_takes_every_character_and_never_fails():
    writer = broken_pipe()
    with open(writer, "w", encoding="ascii") as pipe:
        stream = StandardError(pipe)
        for text in ("x\n", "\udcff 你好\n"):
            assert stream.write(text) == len(text)
        stream.flush()
        os.dup2(os.open(os.devnull, os.O_WRONLY), writer)  # so that closing it can flush what it holds


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_that_json_lacks_are_refused(value):
    with pytest.raises(NmtError, match="a score is not a finite number"):
        to_json({"score": [value]})
