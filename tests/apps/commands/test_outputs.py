"""An output replaces nothing that the command reads, and an interrupted command is resumed after its last line."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nmt.apps.cli import app
from nmt.apps.interop.sharing import pack
from nmt.artifacts.rundir import RunDir
from nmt.base.errors import NmtError
from tests.command_line import nmt
from tests.tiny import tiny_values

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def folder(digits_run, digits, tmp_path_factory):
    """A folder with a run, the same model packed, text and a configuration."""
    folder = tmp_path_factory.mktemp("inputs")
    shutil.copytree(digits_run, folder / "run")
    pack(RunDir(folder / "run"), folder / "m.zip")
    shutil.copy(digits / "test.tsv", folder / "a.tsv")
    (folder / "in.txt").write_text("12\n")
    values = tiny_values(digits, tokenizer={"path": "run/tokenizer"}, data={"train": {"tsv": "a.tsv"}})
    (folder / "c.yaml").write_text(json.dumps(values))
    return folder


CORPUS = "--corpus a.tsv --src-lang en --tgt-lang en"


@pytest.mark.parametrize(
    "command",
    [
        "translate -m m.zip -i in.txt -o m.zip",
        "translate -m run -i in.txt -o run/tokenizer/joint.model",
        "translate -m run -i in.txt -o run/config.yaml",
        "translate -m run --attention run/checkpoints/a.svg 12",
        "translate -m run --attention run/curves.svg 12",
        "translate -m run -i in.txt -o ./in.txt",
        "synthesize -m run -i in.txt -o run/data/test.tsv",
        "eval -m run --report run/config.yaml",
        "eval -m m.zip --tsv a.tsv --report m.zip",
        "eval --hyp in.txt --ref in.txt --to en --compare m.zip --report m.zip",
        "data clean -c c.yaml -o run/new.tsv",
        "data clean -c c.yaml -o a.tsv --overwrite",
        f"config new {CORPUS} -o run/config.yaml --overwrite",
        "pack run -o run/config.yaml --overwrite",
        "pack m.zip -o m.zip --overwrite",
        "plot run -o run/checkpoints/a.svg",
        "export argos run run/config.yaml --overwrite",
        "export ctranslate2 run run/tokenizer --overwrite",
        "export hf run run/hf",
        "import hf run run --overwrite",
        "vocab -c c.yaml -o run/tokenizer --overwrite",
        "train -c c.yaml --run run --overwrite",
        "train -c c.yaml --set tokenizer.path=null --set training.init_from=m.zip --run m.zip --overwrite",
        f"adapt run {CORPUS} --run run --overwrite",
        "distill run --run run --overwrite",
    ],
)
def test_no_command_replaces_what_it_reads_or_a_file_of_a_model(command, folder, monkeypatch):
    monkeypatch.chdir(folder)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    result = CliRunner().invoke(app, command.split())
    assert isinstance(result.exception, NmtError), result.output
    messages = "is the input|into which no output may be written|contains the input"
    assert re.search(messages, str(result.exception)), result.exception
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_cannot_be_resumed(digits_run, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "in").write_text("12\n")
    arguments = ["translate", "-m", str(digits_run), "-i", str(tmp_path / "in"), "-o", str(tmp_path / "pipe")]
    done = CliRunner().invoke(app, [*arguments, "--resume"])
    assert str(done.exception) == f"{tmp_path / 'pipe'}: --resume needs a regular file as output"


def texts(first: int, last: int) -> bytes:
    return b"".join(b"%d\n" % (10_000 + 37 * i) for i in range(first, last))


@pytest.mark.skipif(os.name == "nt", reason="sends signals")
@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow), (signal.SIGKILL, -9)],
)
def test_a_stopped_translation_is_resumed_to_the_same_bytes(number, code, digits_run, tmp_path):
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background inherits an ignored one
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    arguments = ["translate", "-m", str(digits_run), "-o", "out file"]
    command = [sys.executable, "-m", "nmt", *arguments]
    pipes = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=tmp_path, env=environment, **pipes) as process:
        process.stdin.write(texts(0, 40))
        process.stdin.flush()
        wait_for_lines(tmp_path / "out file.partial", 40)
        process.send_signal(number)
        assert process.wait(60) == code
        message = process.stderr.read().decode()
    assert not (tmp_path / "out file").exists()
    if number != signal.SIGKILL:
        assert message == (
            "40 lines are kept in out file.partial\n"
            f"  Continue with: nmt translate -m {digits_run} -o 'out file' --resume\nstopped\n"
        )
    kept = 16 if number == signal.SIGKILL else 40  # of killed commands, lines in whole blocks
    (tmp_path / "in").write_bytes(texts(0, 90))
    resumed = nmt(*arguments, "-i", "in", "--resume", cwd=tmp_path)
    assert (resumed.returncode, resumed.stderr) == (0, f"resuming after {kept} lines\n")
    assert nmt("translate", "-m", digits_run, "-i", "in", "-o", "whole", cwd=tmp_path).returncode == 0
    assert (tmp_path / "out file").read_bytes() == (tmp_path / "whole").read_bytes()
    assert sorted(os.listdir(tmp_path)) == ["in", "out file", "whole"]


def wait_for_lines(path: Path, count: int) -> None:
    deadline = time.monotonic() + 600
    while not (path.exists() and path.read_bytes().count(b"\n") >= count):
        assert time.monotonic() < deadline
        time.sleep(0.02)
