"""A file is there whole, or as it was before."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest
from safetensors.numpy import save_file

from nmt.base.errors import NmtError, RunError
from nmt.base.files import (
    new_folder,
    read_at_most,
    remove_leftovers,
    sha256_of,
    try_lock,
    write_atomically,
    write_text,
)

KILLS = Path(__file__).with_name("kills.py")


def test_a_fault_while_writing_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "a.txt"
    write_text(path, "old\n")

    def write_half():
        with write_atomically(path) as partial:
            partial.write_text("half")
            raise ValueError("fault")

    with pytest.raises(ValueError, match="fault"):
        write_half()
    assert path.read_text() == "old\n"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def test_the_folder_is_made_and_line_ends_are_lf(tmp_path):
    write_text(tmp_path / "new" / "a.txt", "one\ntwo\n")
    assert (tmp_path / "new" / "a.txt").read_bytes() == b"one\ntwo\n"


def test_a_link_is_followed_not_replaced(tmp_path):
    (tmp_path / "real.txt").write_text("old")
    (tmp_path / "link.txt").symlink_to(tmp_path / "real.txt")
    write_text(tmp_path / "link.txt", "new")
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "real.txt").read_text() == "new"


def test_the_checksum_is_sha256(tmp_path):
    (tmp_path / "a").write_bytes(b"abc")
    assert sha256_of(tmp_path / "a") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_a_small_file_takes_little_memory_whatever_the_limit(tmp_path):
    (tmp_path / "a").write_bytes(b"12")
    assert read_at_most(tmp_path / "a", 10**15) == read_at_most(tmp_path / "a", 2) == b"12"
    with pytest.raises(ValueError, match="over 1 bytes"):
        read_at_most(tmp_path / "a", 1)


@pytest.mark.skipif(os.name == "nt", reason="there are several roots")
def test_the_root_folder_is_not_replaced(tmp_path):
    (tmp_path / "link").symlink_to("/")
    for path in (Path("/"), tmp_path / "link"):
        with pytest.raises(NmtError, match="the root folder cannot be replaced"), new_folder(path, replace=print):
            pass


def test_a_file_is_on_the_disk_before_it_has_its_name_and_the_name_after(tmp_path, monkeypatch):
    done, sync, rename = [], os.fsync, os.replace

    def noted_sync(descriptor):
        sync(descriptor)
        done.append(os.readlink(f"/proc/self/fd/{descriptor}"))

    def noted_rename(old, new):
        rename(old, new)
        done.append(f"{os.path.basename(new)} named")

    monkeypatch.setattr(os, "fsync", noted_sync)
    monkeypatch.setattr(os, "replace", noted_rename)
    write_text(tmp_path / "a", "x")
    partial, *rest = done
    assert (Path(partial).name, Path(partial).parent.suffix) == ("a", ".partial")
    assert rest == ["a named", str(tmp_path)]


def test_the_old_file_is_kept_under_another_name_if_asked(tmp_path):
    for text in ("one", "two", "three"):
        with write_atomically(tmp_path / "a", keep_old_as=tmp_path / "b") as partial:
            partial.write_text(text)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a": "three", "b": "two"}


def test_a_new_file_has_the_mode_of_the_umask_whatever_a_library_gives_it(tmp_path):
    before = os.umask(0o027)
    try:
        with write_atomically(tmp_path / "weights") as partial:
            save_file({}, partial)  # makes files for the owner alone
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "weights").stat().st_mode) == 0o640


def test_a_pipe_or_a_folder_is_not_replaced_by_a_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path):
        with pytest.raises(NmtError, match="cannot be written: it is not a regular file"):
            write_text(path, "x")
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def fill(folder: Path, text: str) -> None:
    (folder / "sub").mkdir()
    (folder / "sub" / "file").write_text(text)
    (folder / "other").write_text(text)


def test_a_dash_is_not_taken_for_the_name_of_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NmtError, match="-: this output must be a file, not standard output\n  name a file"):
        write_text(Path("-"), "text")
    assert os.listdir(tmp_path) == []


def test_a_new_folder_gets_its_name_when_it_is_whole(tmp_path):
    with new_folder(tmp_path / "a" / "out") as folder:
        fill(folder, "new")
        assert not (tmp_path / "a" / "out").exists()
    assert (tmp_path / "a" / "out" / "sub" / "file").read_text() == "new"
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["out"]


def test_a_fault_while_a_folder_is_made_leaves_the_old_one_and_nothing_else(tmp_path):
    (tmp_path / "out").mkdir()
    fill(tmp_path / "out", "old")

    def fail() -> None:
        with new_folder(tmp_path / "out", replace=nullcontext) as folder:
            fill(folder, "new")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert (tmp_path / "out" / "other").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_folder_is_replaced_only_with_leave_and_the_leave_is_asked_for_at_both_ends(tmp_path):
    asked = []

    def refuse(path: Path):
        asked.append(path)
        if (path / "precious").exists():
            raise RunError("precious")

    (tmp_path / "out").mkdir()
    with pytest.raises(FileExistsError), new_folder(tmp_path / "out"):
        raise AssertionError("not reached")
    with new_folder(tmp_path / "out", replace=refuse) as folder:
        fill(folder, "new")
    assert asked == [tmp_path / "out"] * 2

    def precious_meanwhile() -> None:
        with new_folder(tmp_path / "out", replace=refuse):
            (tmp_path / "out" / "precious").write_text("years of work")

    with pytest.raises(RunError, match="precious"):
        precious_meanwhile()
    assert (tmp_path / "out" / "precious").read_text() == "years of work"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_link_to_a_folder_is_followed_when_it_is_replaced(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with new_folder(tmp_path / "link", replace=nullcontext) as folder:
        fill(folder, "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "other").read_text() == "new"


def test_the_current_folder_is_not_replaced(tmp_path, monkeypatch):
    (tmp_path / "out" / "sub").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "out" / "sub")
    with pytest.raises(NmtError, match="cannot replace the current folder"), new_folder(Path(".."), replace=refused):
        raise AssertionError("not reached")


def refused(path: Path):
    raise AssertionError("not reached")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills processes that it forked")
@pytest.mark.parametrize("what", ["folder", "file"])
def test_killed_at_any_step_the_old_or_the_new_content_is_there_and_nothing_else(tmp_path, what):
    done = subprocess.run([sys.executable, KILLS, what, tmp_path], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    num_first, num_second, num_restored = map(int, done.stdout.split())
    assert min(num_first, num_second) >= 8
    assert num_restored == (what == "folder")


def leave(folder: Path, name: str, token: str) -> Path:
    """What a maker that has been killed leaves; returns its lock."""
    (folder / f".{name}.{token}.partial" / "data").mkdir(parents=True)
    (folder / f".{name}.{token}.lock").touch()
    return folder / f".{name}.{token}.lock"


def test_what_killed_processes_left_is_removed_and_what_living_ones_write_is_not(tmp_path):
    leave(tmp_path, "run", "0000000a")
    held = os.open(leave(tmp_path, "run", "0000000b"), os.O_RDWR)
    others = {"a", ".a.partial", ".run.12345.partial", ".run.0000000c.partial"}  # not ours: there is no lock
    for name in others:
        (tmp_path / name).touch()
    assert try_lock(held)
    try:
        remove_leftovers(tmp_path)
        assert {path.name for path in tmp_path.iterdir()} == {
            *others,
            ".run.0000000b.partial",
            ".run.0000000b.lock",
        }
    finally:
        os.close(held)
    remove_leftovers(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == others


def test_the_next_file_of_a_name_removes_what_a_killed_process_left_of_it(tmp_path):
    leave(tmp_path, "out.txt", "0000000a")
    leave(tmp_path, "other.txt", "0000000b")
    write_text(tmp_path / "out.txt", "x")
    assert {path.name for path in tmp_path.iterdir()} == {
        "out.txt",
        ".other.txt.0000000b.partial",
        ".other.txt.0000000b.lock",
    }


def test_a_maker_in_another_process_id_namespace_is_alive(tmp_path):
    """Such as one in a container: its process id says nothing here, its lock does."""
    maker = subprocess.Popen(
        [sys.executable, "-c", MAKER, tmp_path / "store"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert maker.stdin is not None
    assert maker.stdout is not None
    assert maker.stdout.readline() == "making\n"
    remove_leftovers(tmp_path)
    with new_folder(tmp_path / "store") as folder:
        fill(folder, "ours")
    _, fault = maker.communicate("go on\n")
    assert (maker.returncode, fault) == (3, None)  # it finds ours, and its own work was there until then
    assert (tmp_path / "store" / "other").read_text() == "ours"
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


MAKER = """
import os, sys
from pathlib import Path
from nmt.base.files import new_folder
os.getpid = lambda: 2**22 + 1
try:
    with new_folder(Path(sys.argv[1])) as folder:
        print("making", flush=True)
        sys.stdin.readline()
        (folder / "file").write_text("theirs")
except FileExistsError:
    sys.exit(3)
"""


def test_a_file_system_without_locks_is_written_to_and_never_cleaned(tmp_path, monkeypatch):
    def fail(descriptor: int) -> bool:
        raise OSError(38, "no locks")

    monkeypatch.setattr("nmt.base.files.try_lock", fail)
    leave(tmp_path, "a", "0000000a")
    write_text(tmp_path / "a", "x")
    assert (tmp_path / "a").read_text() == "x"
    assert (tmp_path / ".a.0000000a.partial").exists()


def test_no_more_is_read_than_is_meant(tmp_path):
    os.truncate(os.open(tmp_path / "a", os.O_CREAT | os.O_WRONLY), 10**13)
    with pytest.raises(ValueError, match="over 1,000 bytes"):
        read_at_most(tmp_path / "a", 1000)


@pytest.mark.parametrize("write", [write_atomically, new_folder])
def test_a_full_disk_is_an_error_of_the_file_that_was_asked_for(write, tmp_path):
    def fill():
        with write(tmp_path / "a"):
            raise OSError(errno.ENOSPC, "No space left on device")  # as a write does, without a name

    with pytest.raises(OSError, match="No space left") as caught:
        fill()
    assert caught.value.filename == str(tmp_path / "a")


@pytest.mark.skipif(os.name == "nt", reason="Windows has other limits")
def test_a_name_that_is_too_long_is_said_without_its_temporary_name(tmp_path):
    path = tmp_path / ("a" * 250)
    with pytest.raises(OSError, match="too long") as caught:
        write_text(path, "text")
    assert caught.value.filename == str(path)


def test_a_file_in_place_of_a_folder_is_named(tmp_path):
    (tmp_path / "a").write_text("")
    with pytest.raises(NotADirectoryError) as caught:
        write_text(tmp_path / "a" / "b" / "c.txt", "text")
    assert caught.value.filename in (str(tmp_path / "a"), str(tmp_path / "a" / "b"))


@pytest.mark.skipif(os.name == "nt", reason="a folder with an open file in it cannot be renamed there")
def test_what_a_guard_returns_is_held_until_the_old_folder_is_moved(tmp_path):
    path = tmp_path / "folder"
    path.mkdir()
    (path / "old").touch()
    was_there = []

    @contextmanager
    def lock(existing):
        yield
        was_there.append((existing / "old").exists())

    with new_folder(path, replace=lock):
        pass
    assert was_there == [True, False]  # asked before the block, and moved after it
