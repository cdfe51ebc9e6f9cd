"""What an interrupted command has done is kept, and resumed after its last whole line."""

from __future__ import annotations

import errno
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
from nmt.apps.commands.outputs import PartialFile, refuse_replacing
from nmt.apps.interop.sharing import pack
from nmt.artifacts.rundir import RunDir
from nmt.base.errors import NmtError
from tests.command_line import nmt
from tests.full_disk import no_room_for
from tests.tiny import tiny_values

ROOT = Path(__file__).parents[3]
SETTINGS = {"models": ["run/step-1"], "format": "text"}


class StopError(Exception):
    """Something ends the command."""


def write(
    path: Path, lines: str, *, resume: bool = False, stop: bool = True, lines_per_text: int = 1, settings=SETTINGS
) -> int:
    """Write `lines` after those that are there; returns after how many texts."""
    try:
        with PartialFile(path, settings, lines_per_text, resume=resume) as file:
            before = file.num_texts
            file.write(lines)
            if stop:
                raise StopError
    except StopError:
        pass
    return before


def test_a_finished_file_replaces_the_old_one_and_nothing_else_is_left(tmp_path):
    (tmp_path / "out").write_text("old\n")
    write(tmp_path / "out", "1\n")
    assert (tmp_path / "out").read_text() == "old\n"
    assert (tmp_path / "out.partial").read_text() == "1\n"
    assert write(tmp_path / "out", "2\n", resume=True, stop=False) == 1
    assert (tmp_path / "out").read_text() == "1\n2\n"
    assert os.listdir(tmp_path) == ["out"]


def test_a_torn_line_and_a_torn_text_are_written_again(tmp_path):
    write(tmp_path / "out", "1a\n1b\n2a\n2b\n", lines_per_text=2)
    with open(tmp_path / "out.partial", "a") as file:
        file.write("3a\n3")
    assert write(tmp_path / "out", "3a\n3b\n", resume=True, stop=False, lines_per_text=2) == 2
    assert (tmp_path / "out").read_text() == "1a\n1b\n2a\n2b\n3a\n3b\n"


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_a_file_is_truncated_to_texts(count, tmp_path):
    with PartialFile(tmp_path / "out", SETTINGS, 2, resume=False) as file:
        file.write("1\n\n2\n\n3\n\n")
        file.truncate(count)
        file.write("x\n\n")
    assert (tmp_path / "out").read_text() == "1\n\n2\n\n3\n\n"[: 3 * count] + "x\n\n"


def test_a_command_that_has_done_nothing_leaves_nothing(tmp_path):
    write(tmp_path / "out", "")
    assert os.listdir(tmp_path) == []


def test_a_disk_too_full_for_the_settings_is_named_and_nothing_is_left(tmp_path):
    with no_room_for(10), pytest.raises(OSError, match="too large") as caught:
        write(tmp_path / "out", "1\n")
    assert caught.value.filename == str(tmp_path / "out.partial.json")
    assert os.listdir(tmp_path) == []


def test_kept_lines_are_not_overwritten(tmp_path):
    write(tmp_path / "out", "1\n2\n")
    with pytest.raises(NmtError) as caught:
        write(tmp_path / "out", "x\n")
    assert str(caught.value) == (
        f"{tmp_path / 'out.partial'}: holds 2 lines of an interrupted run\n"
        "  continue that run with --resume, or delete the file to start over"
    )
    assert (tmp_path / "out.partial").read_text() == "1\n2\n"


def test_lines_that_cannot_be_read_are_kept(tmp_path, monkeypatch):
    def fail(self):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    write(tmp_path / "out", "1\n2\n")
    monkeypatch.setattr(PartialFile, "_count_lines", fail)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        write(tmp_path / "out", "3\n", resume=True)
    assert (tmp_path / "out.partial").read_text() == "1\n2\n"


def test_a_text_with_some_of_its_lines_is_not_overwritten(tmp_path):
    write(tmp_path / "out", "1a\n1b\n", lines_per_text=1)
    with pytest.raises(NmtError, match="holds 2 lines of an interrupted run"):
        write(tmp_path / "out", "x\n", lines_per_text=4)
    assert (tmp_path / "out.partial").read_text() == "1a\n1b\n"


@pytest.mark.skipif(os.name == "nt" or sys.platform == "darwin", reason="file names are Unicode there")
def test_settings_may_hold_a_name_that_is_not_utf8(tmp_path):
    settings = {**SETTINGS, "models": [os.fsdecode(b"r\xff")]}
    write(tmp_path / "out", "1\n", settings=settings)
    assert write(tmp_path / "out", "2\n", resume=True, stop=False, settings=settings) == 1
    assert (tmp_path / "out").read_text() == "1\n2\n"


@pytest.mark.parametrize("settings", [None, "{", '{"format": "jsonl"}'])
def test_a_file_without_lines_is_begun_anew_whatever_its_settings(settings, tmp_path):
    (tmp_path / "out.partial").touch()
    if settings is not None:
        (tmp_path / "out.partial.json").write_text(settings)
    assert write(tmp_path / "out", "1\n", resume=True) == 0
    assert write(tmp_path / "out", "2\n", resume=True, stop=False) == 1


@pytest.mark.parametrize("name", ["out", "out.partial", "out.partial.json"])
def test_an_output_with_the_name_of_another_unfinished_one_or_its_input_is_refused(name, tmp_path):
    out, other = tmp_path / "out", tmp_path / name
    for outputs, inputs in (([out, other], []), ([other, out], []), ([out], [other])):
        with pytest.raises(NmtError, match="choose another name"):
            refuse_replacing(outputs, inputs)
    refuse_replacing([out, tmp_path / "pairs"], [tmp_path / "in"])


def test_an_output_is_not_in_or_around_an_input_by_any_of_its_names(tmp_path):
    model = tmp_path / "model"
    (model / "eval").mkdir(parents=True)
    for name in ("weights", "curves.svg", "eval/test.hyp"):
        (model / name).touch()
    (tmp_path / "link").symlink_to(model)
    new = ("model/new", "link/new.hyp", "model/a/b.svg")
    for name in (*new, "model", "link/weights", "model/eval/test.hyp"):
        with pytest.raises(NmtError, match=r"is the input|into which no output may be written"):
            refuse_replacing([tmp_path / name], [model])
    with pytest.raises(NmtError, match="this folder contains the input"):
        refuse_replacing([tmp_path], [model])
    for name in ("curves.svg", "page.html", "eval/page.html", "eval/new.hyp"):
        refuse_replacing([model / name], [model])


def test_an_output_is_not_in_a_model_that_the_command_does_not_read(tmp_path):
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    for name in ("run/checkpoints/index.json", "run/config.yaml"):
        (tmp_path / name).touch()
    with pytest.raises(NmtError, match="is a model or another input, into which no output may be written"):
        refuse_replacing([tmp_path / "run" / "config.yaml"], [])


def test_an_output_is_not_what_an_open_file_descriptor_reads(tmp_path):
    with open(tmp_path / "in", "w") as file, pytest.raises(NmtError, match="this file is the input"):
        refuse_replacing([tmp_path / "in"], [file.fileno()])


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


def test_the_checksum_of_the_sources_is_kept_if_the_command_is_interrupted(tmp_path):
    file = PartialFile(tmp_path / "out", SETTINGS, 1, resume=False)
    file.write("1\n")
    file.sources = {"lines": 1, "sha256": "1f"}
    file.interrupt()
    with PartialFile(tmp_path / "out", SETTINGS, 1, resume=True) as file:
        assert file.sources == {"lines": 1, "sha256": "1f"}


def test_lines_of_other_settings_are_not_continued(tmp_path):
    write(tmp_path / "out", "1\n2\n")
    with pytest.raises(NmtError, match="was written with format text, not jsonl"):
        PartialFile(tmp_path / "out", {**SETTINGS, "format": "jsonl"}, 1, resume=True)
    (tmp_path / "out.partial.json").write_text("[")
    with pytest.raises(NmtError, match="the settings of the finished lines cannot be read"):
        write(tmp_path / "out", "3\n", resume=True)
    assert (tmp_path / "out.partial").read_text() == "1\n2\n"


def test_a_file_that_another_process_writes_is_left_to_it(tmp_path):
    code = (
        "import sys; from pathlib import Path; from nmt.apps.commands.outputs import PartialFile\n"
        f"file = PartialFile(Path(sys.argv[1]), {SETTINGS!r}, 1, resume=False); file.write('1\\n')\n"
        "print(flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "out")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT) as other:
        assert other.stdout is not None
        other.stdout.readline()
        with pytest.raises(NmtError, match="another process is writing this file"):
            PartialFile(tmp_path / "out", SETTINGS, 1, resume=True)
        other.communicate()
    assert write(tmp_path / "out", "2\n", resume=True, stop=False) == 1


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_or_a_link_in_the_place_of_kept_lines_is_refused(tmp_path):
    os.mkfifo(tmp_path / "out.partial")
    with pytest.raises(NmtError, match="not a regular file"):
        write(tmp_path / "out", "1\n")
    (tmp_path / "other.partial").symlink_to(tmp_path / "precious")
    with pytest.raises(NmtError, match="not a regular file"):
        write(tmp_path / "other", "1\n")


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
    (tmp_path / "in").write_bytes(texts(0, 90))
    resumed = nmt(*arguments, "-i", "in", "--resume", cwd=tmp_path)
    assert (resumed.returncode, resumed.stderr) == (0, "resuming after 40 lines\n")
    assert nmt("translate", "-m", digits_run, "-i", "in", "-o", "whole", cwd=tmp_path).returncode == 0
    assert (tmp_path / "out file").read_bytes() == (tmp_path / "whole").read_bytes()
    assert sorted(os.listdir(tmp_path)) == ["in", "out file", "whole"]


def wait_for_lines(path: Path, count: int) -> None:
    deadline = time.monotonic() + 600
    while not (path.exists() and path.read_bytes().count(b"\n") >= count):
        assert time.monotonic() < deadline
        time.sleep(0.02)
