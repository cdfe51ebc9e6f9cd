"""A file is there whole, or as it was before."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from nmt.files import FileHashes, read_at_most, remove_leftovers, sha256_of, write_atomically, write_text


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


def test_the_hash_of_a_file_is_remembered_until_the_file_changes(tmp_path):
    file, memory = tmp_path / "corpus", tmp_path / "hashes.json"
    file.write_text("one", encoding="utf-8")
    before = FileHashes(memory).sha256(file)
    assert before == sha256_of(file)
    assert json.loads(memory.read_text(encoding="utf-8"))[str(file)][3] == before
    file.write_text("two", encoding="utf-8")
    os.utime(file, ns=(0, 0))
    assert FileHashes(memory).sha256(file) == sha256_of(file) != before


def test_a_damaged_memory_of_hashes_is_made_anew(tmp_path):
    file, memory = tmp_path / "corpus", tmp_path / "hashes.json"
    file.write_text("one", encoding="utf-8")
    memory.write_text('["not", "a dict"', encoding="utf-8")
    assert FileHashes(memory).sha256(file) == sha256_of(file)


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
    assert done == [str(tmp_path / f".a.{os.getpid()}.partial"), "a named", str(tmp_path)]


def test_the_old_file_is_kept_under_another_name_if_asked(tmp_path):
    for text in ("one", "two", "three"):
        with write_atomically(tmp_path / "a", keep_old_as=tmp_path / "b") as partial:
            partial.write_text(text)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a": "three", "b": "two"}


def test_what_dead_processes_left_is_removed_and_what_living_ones_write_is_not(tmp_path):
    process = subprocess.Popen(["true"])
    process.wait()
    dead = process.pid
    (tmp_path / f".run.{dead}.partial" / "data").mkdir(parents=True)
    for name in (f".a.{dead}.partial", f".a.{os.getppid()}.partial", "a", ".a.partial", f".b.{dead}.other"):
        (tmp_path / name).write_text("")
    remove_leftovers(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {
        f".a.{os.getppid()}.partial",
        "a",
        ".a.partial",
        f".b.{dead}.other",
    }


def test_no_more_is_read_than_is_meant(tmp_path):
    os.truncate(os.open(tmp_path / "a", os.O_CREAT | os.O_WRONLY), 10**13)
    with pytest.raises(ValueError, match="over 1,000 bytes"):
        read_at_most(tmp_path / "a", 1000)
