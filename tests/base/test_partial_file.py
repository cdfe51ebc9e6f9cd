"""Lines that an interrupted process has written are kept, and continued after the last whole one."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from nmt.base.errors import NmtError
from nmt.base.partial_file import PartialFile
from tests.full_disk import no_room_for

ROOT = Path(__file__).parents[2]
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
        "import sys; from pathlib import Path; from nmt.base.partial_file import PartialFile\n"
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


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        (["/usr/bin/nmt", "translate", "-o", "my out"], "nmt translate -o 'my out' --resume"),
        (["/lib/nmt/__main__.py", "synthesize", "--resume"], "nmt synthesize --resume"),
        (["nightly.py", "--all"], "the same call and resume=True"),
        ([""], "the same call and resume=True"),
    ],
)
def test_a_stopped_command_is_told_to_continue_and_a_program_what_to_call(
    arguments, advice, tmp_path, monkeypatch, caplog
):
    monkeypatch.setattr("sys.argv", arguments)
    with caplog.at_level("INFO", logger="nmt"):
        write(tmp_path / "out", "1\n")
    assert caplog.messages == [f"1 lines are kept in {tmp_path / 'out.partial'}\n  Continue with: {advice}"]
