"""Replaces a folder or a file, killed before each of its file operations, and cleans up, killed before each too.

Prints how many first and second kills there were, and how often a replaced folder got its name back.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import portalocker  # noqa: F401 (here, so that its import is none of the operations of a child)

from nmt.base.files import new_folder, remove_leftovers, write_atomically

OPERATIONS = {"open", "os.chmod", "os.mkdir", "os.remove", "os.rename", "os.rmdir"}


def replace_folder(path: Path) -> None:
    with new_folder(path, replace=nullcontext) as folder:
        fill(folder, "new")


def fill(folder: Path, text: str) -> None:
    (folder / "a").write_text(text)
    (folder / "sub").mkdir()
    (folder / "sub" / "b").write_text(text)


def replace_file(path: Path) -> None:
    with write_atomically(path) as partial:
        partial.write_text("new")


def texts(path: Path) -> set[str]:
    """Of a file, or of both files of a folder: one text if it is whole."""
    return {file.read_text() for file in ((path / "a", path / "sub" / "b") if path.is_dir() else (path,))}


def killed(work: Callable[[Path], None], path: Path, operation: int) -> bool:
    """Do `work` in a child that is killed before its `operation`-th file operation; False if it needs fewer."""
    child = os.fork()
    if child == 0:
        count = 0

        def hook(event: str, arguments: tuple[object, ...]) -> None:
            nonlocal count
            count += event in OPERATIONS
            if count == operation and event in OPERATIONS:
                os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(hook)
        work(path)
        os._exit(0)
    end = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert end in (0, -signal.SIGKILL), end
    return end != 0


def clean(path: Path) -> None:
    remove_leftovers(path.parent, path.name)


def main(what: str, parent: Path) -> None:
    path, saved = parent / "work" / "name", parent / "saved"
    work = replace_folder if what == "folder" else replace_file
    path.parent.mkdir()
    if what == "folder":
        path.mkdir()
        fill(path, "old")
    else:
        path.write_text("old")
    shutil.copytree(path.parent, saved)
    num_first = num_second = num_restored = 0
    while killed(work, path, num_first + 1):
        num_first += 1
        after = parent / f"after-{num_first}"
        shutil.copytree(path.parent, after)
        operation = 1
        while killed(clean, path, operation):
            clean(path)
            check(path, num_first)
            copy(after, path.parent)
            operation += 1
        num_second += operation - 1
        num_restored += not (after / path.name).exists()
        check(path, num_first)
        copy(saved, path.parent)
    sys.stdout.write(f"{num_first} {num_second} {num_restored}\n")


def copy(folder: Path, to: Path) -> None:
    shutil.rmtree(to)
    shutil.copytree(folder, to)


def check(path: Path, operation: int) -> None:
    """Old or new, whole, and nothing beside it."""
    assert texts(path) in ({"old"}, {"new"}), operation
    assert os.listdir(path.parent) == [path.name], (operation, os.listdir(path.parent))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
