"""Record the file operations of a save, and rebuild the tree that a crash before each of them would leave.

A crash may lose what was not flushed: contents of files, and names in folders. Each prefix of the operations gives up
to three trees: all is kept (the process was killed); all that was not flushed is lost; names are kept, but the contents
of files that were not flushed are empty.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

OPERATIONS = {"open", "os.chmod", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.truncate"}

Tree = dict[str, "Tree | bytes"]  # contents by name

_on_operation: list[Callable[[], None]] = []  # of the recording that runs, if one does; a hook cannot be removed


@functools.cache
def _add_hook() -> None:
    """Hear of operations, once there is a recording: a hook takes time at each event, of any kind, to the end."""
    sys.addaudithook(_hook)


def _hook(event: str, arguments: tuple[object, ...]) -> None:
    if event in OPERATIONS and _on_operation:
        on_operation = _on_operation.pop()  # what it does itself is no operation
        try:
            on_operation()
        finally:
            _on_operation.append(on_operation)


@contextmanager
def watched(on_operation: Callable[[], None]) -> Iterator[None]:
    """Call `on_operation` before each operation of the block, also before each flush."""
    _add_hook()
    sync = os.fsync

    def flush(descriptor: int) -> None:
        _hook("open", ())
        sync(descriptor)

    os.fsync = flush  # there is no event for it
    _on_operation.append(on_operation)
    try:
        yield
    finally:
        _on_operation.clear()
        os.fsync = sync


class Recording:
    """The trees that crashes would leave in the folder `root`, different ones only, in order."""

    def __init__(self, root: Path):
        self.root = root
        self.trees: list[Tree] = []
        self.num_operations = 0
        self._names: dict[
            int, dict[str, tuple[int, bool]]
        ] = {}  # of folders, as flushed: inodes, and if it is a folder
        self._contents: dict[int, bytes] = {}  # of files, as flushed
        for folder, _, files in os.walk(root):
            self._flush_folder(Path(folder))
            for name in files:
                path = Path(folder, name)
                self._contents[path.stat().st_ino] = path.read_bytes()

    def record(self, work: Callable[[], object]) -> None:
        """Do `work`, and record it."""
        sync = os.fsync

        def flush(descriptor: int) -> None:
            sync(descriptor)
            path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
            if path.is_dir():
                self._flush_folder(path)
            elif path.is_file():
                self._contents[os.fstat(descriptor).st_ino] = path.read_bytes()

        os.fsync = flush
        try:
            with watched(self._take):
                work()
            self._take()
        finally:
            os.fsync = sync

    def _flush_folder(self, path: Path) -> None:
        self._names[path.stat().st_ino] = {entry.name: (entry.inode(), entry.is_dir()) for entry in os.scandir(path)}

    def _take(self) -> None:
        self.num_operations += 1
        trees = self._kept(self.root), self._lost(self.root.stat().st_ino), self._emptied(self.root)
        self.trees += [tree for number, tree in enumerate(trees) if tree not in (*trees[:number], *self.trees[-3:])]

    def _kept(self, path: Path) -> Tree:
        return {
            entry.name: self._kept(Path(entry)) if entry.is_dir() else Path(entry).read_bytes()
            for entry in os.scandir(path)
        }

    def _emptied(self, path: Path) -> Tree:
        """Names as they are, contents as flushed."""
        return {
            entry.name: self._emptied(Path(entry)) if entry.is_dir() else self._contents.get(entry.inode(), b"")
            for entry in os.scandir(path)
        }

    def _lost(self, folder: int) -> Tree:
        """Names and contents as flushed."""
        return {
            name: self._lost(inode) if is_folder else self._contents.get(inode, b"")
            for name, (inode, is_folder) in self._names.get(folder, {}).items()
        }


def write_tree(folder: Path, tree: Tree) -> None:
    """Write a tree into a new folder."""
    folder.mkdir()
    for name, content in tree.items():
        if isinstance(content, bytes):
            (folder / name).write_bytes(content)
        else:
            write_tree(folder / name, content)
