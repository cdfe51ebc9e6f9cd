"""Imports go as the table in docs/architecture.md says: to a lower level, or to a row above; torch where `t` is."""

from __future__ import annotations

import ast
import re
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
FACE = {"__init__.py", "__main__.py"}  # nmt itself: imports lazily, and is above all rooms
NAMES = [path.relative_to(ROOT / "nmt").as_posix() for path in sorted((ROOT / "nmt").rglob("*.py"))]


class Room(NamedTuple):
    level: int
    row: int  # of the table, from the top
    torch: bool


@cache
def table() -> list[tuple[str, Room]]:
    """(pattern, room) for each name in the first column: a file, a folder with a slash at its end, or a glob."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ((?:`[^`]+`(?:, )?)+)( t)? \| (\d+) \|", text, flags=re.MULTILINE)
    return [
        (pattern, Room(int(level), row, bool(torch)))
        for row, (names, torch, level) in enumerate(rows)
        for pattern in re.findall(r"`([^`]+)`", names)
    ]


def room(name: str) -> Room | None:
    """The room of a file of nmt; a folder's `__init__.py` is in the lowest of its folder, below its other files."""
    for pattern, found in table():
        if fnmatch(name, pattern + "*" if pattern.endswith("/") else pattern):
            return found
    folder = name.rpartition("/")[0]
    rooms = [found for pattern, found in table() if name.endswith("/__init__.py") and pattern.startswith(folder + "/")]
    if not rooms:
        return None
    level = min(found.level for found in rooms)
    return Room(level, max(r.row for r in rooms if r.level == level), all(found.torch for found in rooms))


@cache
def imports(path: Path) -> list[tuple[str, bool]]:
    """(dotted name, lazy) of what a file imports; `from a import b` gives a.b. Not those under TYPE_CHECKING."""
    found = []

    def visit(node: ast.AST, lazy: bool) -> None:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            return
        if isinstance(node, ast.Import):
            found.extend((alias.name, lazy) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: import by the full name"
            found.extend((f"{node.module}.{alias.name}", lazy) for alias in node.names)
        for child in ast.iter_child_nodes(node):
            visit(child, lazy or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda))

    visit(ast.parse(path.read_text(encoding="utf-8")), False)
    return found


def file_of(dotted: str) -> str:
    """The file of nmt that importing `dotted` runs; empty for other packages and for nmt itself."""
    package, *parts = dotted.split(".")
    for length in range(len(parts), 0, -1) if package == "nmt" else ():
        for name in ("/".join(parts[:length]) + ".py", "/".join(parts[:length]) + "/__init__.py"):
            if name in NAMES:
                return name
    return ""


ROOMS = {name: found for name in NAMES if (found := room(name)) is not None}


def test_every_file_is_in_a_room():
    assert [name for name in NAMES if name not in ROOMS and name not in FACE] == []


def test_imports_go_downward():
    for name, own in ROOMS.items():
        for dotted, lazy in imports(ROOT / "nmt" / name):
            other = ROOMS.get(file_of(dotted))
            if other is None:
                continue
            # A lazy import may also reach sideways to a row below: it is how an engine is loaded when used.
            beside = other.level == own.level and (lazy or other.row <= own.row)
            assert other.level < own.level or beside, (
                f"nmt/{name} (level {own.level}) imports {dotted} (level {other.level})"
            )


def test_torch_is_imported_at_the_top_of_torch_rooms_only():
    for name in (name for name in NAMES if name not in ROOMS or not ROOMS[name].torch):
        for dotted, lazy in imports(ROOT / "nmt" / name):
            other = ROOMS.get(file_of(dotted))
            brings_torch = dotted.split(".")[0] == "torch" or (other is not None and other.torch)
            assert lazy or not brings_torch, f"nmt/{name} imports {dotted}, which brings torch, before it is needed"


def test_the_table_is_read_whole():
    rooms = dict(table())
    assert rooms["errors.py"].level == 0
    assert rooms["model/attention.py"].torch
    assert not rooms["rundir.py"].torch
    assert rooms["commands/*.py"].level == rooms["cli.py"].level == max(r.level for r in rooms.values())


def public_names() -> list[tuple[str, list[str], str]]:
    """(rooms, their files, name) for each identifier in the last column of the table."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ((?:`[^`]+`(?:, )?)+)(?: t)? \| \d+ \|[^|]*\|([^|]*)\|$", text, flags=re.MULTILINE)
    return [
        (rooms, [file for file in NAMES for pattern in patterns if fnmatch(file, pattern)], name)
        for rooms, names in rows
        for patterns in [[p + "*" if p.endswith("/") else p for p in re.findall(r"`([^`]+)`", rooms)]]
        for name in re.findall(r"`(\w+)`", names)
    ]


def test_every_public_name_of_the_table_is_defined_in_its_room():
    defined = {file: names_defined_in(file) for file in NAMES}
    missing = [(rooms, name) for rooms, files, name in public_names() if not any(name in defined[f] for f in files)]
    assert missing == []


def names_defined_in(file: str) -> set[str]:
    """What a file of nmt defines at its top."""
    body = ast.parse((ROOT / "nmt" / file).read_text(encoding="utf-8")).body
    return {name for node in body for name in names_defined(node)}


def names_defined(node: ast.stmt) -> list[str]:
    """What a statement at the top of a module defines."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)]
