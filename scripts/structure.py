"""Measure the package: its size in syntax-tree nodes, its circles of imports, its options and keys.

    python scripts/structure.py [--json | --surface]

Run it before and after a change of the architecture. tests/test_architecture.py holds the limits.
The size is the number of nodes in Python's syntax tree without marks (load and store, operators), annotations
and docstrings: a name for a step costs little, a type or an explanation nothing.
"""

from __future__ import annotations

import argparse
import ast
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "nmt"
FACE = ("__init__.py", "__main__.py", "py.typed")
ROOMS = ("base", "config", "data", "model", "artifacts", "decoding", "translation", "evaluation", "training", "apps")
"""The folders of the package. A file imports from its own folder and from those before it."""

CORE = ("model/**/*.py", "decoding/*.py", "training/loop.py", "training/update/*.py")
NOT_CORE = ("decoding/cuda_graphs.py",)

MARKS = (ast.expr_context, ast.operator, ast.unaryop, ast.cmpop, ast.boolop)
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


class Import(NamedTuple):
    """An import of a module of nmt by another."""

    importer: str  # file, relative to the package
    imported: str
    name: str  # as written, such as nmt.base.errors.NmtError
    at_top: bool  # runs when the importer is imported; else inside a function, or for type checkers


@cache
def files() -> tuple[str, ...]:
    """Return the Python files of the package, relative to it."""
    return tuple(path.relative_to(PACKAGE).as_posix() for path in sorted(PACKAGE.rglob("*.py")))


@cache
def tree(file: str) -> ast.Module:
    """Return the syntax tree of a file of the package."""
    return ast.parse((PACKAGE / file).read_text(encoding="utf-8"))


@cache
def num_nodes(code: ast.AST) -> int:
    """Count the nodes of a syntax tree without marks, annotations and docstrings."""
    number, waiting = 0, [code]
    while waiting:
        node = waiting.pop()
        number += 1
        left_out = [getattr(node, "annotation", None), getattr(node, "returns", None)]
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            left_out.append(node.body[0])
        waiting += (
            child
            for child in ast.iter_child_nodes(node)
            if not isinstance(child, MARKS) and not any(child is other for other in left_out)
        )
    return number


def size(names: Iterable[str]) -> int:
    """Count the nodes of these files of the package."""
    return sum(num_nodes(tree(name)) for name in names)


def num_lines(folder: Path, *endings: str) -> int:
    """Count the lines of the files under `folder` with these endings."""
    paths = (path for path in folder.rglob("*") if path.suffix in endings)
    return sum(path.read_bytes().count(b"\n") for path in paths)


def core_files() -> list[str]:
    """Return the files of the core: the model, the search, the training loop and the update."""
    matched = {path.relative_to(PACKAGE).as_posix() for pattern in CORE for path in PACKAGE.glob(pattern)}
    return sorted(matched - set(NOT_CORE))


def room(file: str) -> str:
    """Return the folder at the top of the package that holds `file`; empty for the package's own files."""
    return file.split("/")[0] if "/" in file else ""


@cache
def names_imported(file: str) -> tuple[tuple[str, bool], ...]:
    """Return (dotted name, True if it is imported with the file) for each import, in functions and for types, too."""
    found: list[tuple[str, bool]] = []

    def visit(node: ast.AST, at_top: bool) -> None:
        if isinstance(node, ast.Import):
            found.extend((alias.name, at_top) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            found.extend((f"{node.module}.{alias.name}", at_top) for alias in node.names)
        in_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for_types = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, ast.expr):  # which holds no import
                visit(child, at_top and not in_function and not for_types)

    visit(tree(file), True)
    return tuple(found)


@cache
def file_of(dotted: str) -> str | None:
    """Return the file of nmt that an import of `dotted` runs; None for other packages."""
    parts = dotted.split(".")[1:] if dotted.split(".")[0] == "nmt" else []
    for length in range(len(parts), 0, -1):
        for name in ("/".join(parts[:length]) + ".py", "/".join(parts[:length]) + "/__init__.py"):
            if name in files():
                return name
    return None


@cache
def imports() -> tuple[Import, ...]:
    """Return all imports between files of the package, except those of nmt itself."""
    return tuple(
        Import(file, imported, name, at_top)
        for file in files()
        for name, at_top in names_imported(file)
        if (imported := file_of(name)) is not None
    )


def circles() -> list[list[str]]:
    """Return the groups of files that import each other, through any number of others.

    Imports in functions and for types count. A package and its own files make no circle.
    """
    graph: dict[str, set[str]] = {file: set() for file in files()}
    for each in imports():
        is_own_package = each.imported.endswith("__init__.py") and each.importer.startswith(each.imported[:-11])
        if not is_own_package:
            graph[each.importer].add(each.imported)

    def reachable(start: str) -> set[str]:
        seen: set[str] = set()
        waiting = [start]
        while waiting:
            new = graph[waiting.pop()] - seen
            seen |= new
            waiting += new
        return seen

    reached = {file: reachable(file) for file in files()}
    groups = {frozenset(other for other in reached[file] if file in reached[other]) for file in files()}
    return sorted(sorted(group) for group in groups if len(group) > 1)


def arrows() -> dict[tuple[str, str], int]:
    """Return the number of imports from each folder at the top of the package to each other one."""
    pairs = ((room(each.importer), room(each.imported)) for each in imports())
    return Counter((importer, imported) for importer, imported in pairs if importer and importer != imported)


def options() -> list[str]:
    """Return the options of all commands, as `nmt translate --beam`; `--help` and arguments are not among them."""
    import typer.main

    from nmt.apps.cli import all_commands, app

    commands = [("", typer.main.get_command(app)), *all_commands()]
    return [
        " ".join(filter(None, ["nmt", name, parameter.opts[0]]))
        for name, command in commands
        for parameter in command.params
        if parameter.param_type_name == "option" and parameter.name != "help"
    ]


def keys() -> list[str]:
    """Return the keys of a configuration, as `training.lr`."""
    from pydantic import BaseModel

    from nmt.config import Config

    def visit(section: type[BaseModel], name: str) -> Iterator[str]:
        for key, field in section.model_fields.items():
            kinds = [field.annotation, *getattr(field.annotation, "__args__", ())]
            sections = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)]
            yield from visit(sections[0], f"{name}{key}.") if sections else (f"{name}{key}",)

    return list(visit(Config, ""))


def surface() -> list[str]:
    """Return every option and every key, in order: what tests/frozen/surface.txt holds."""
    return sorted([*options(), *keys()])


def function_names() -> list[str]:
    """Return the name of each function and method of the package."""
    functions = ast.FunctionDef | ast.AsyncFunctionDef
    return [node.name for file in files() for node in ast.walk(tree(file)) if isinstance(node, functions)]


@cache
def mentions() -> Counter[str]:
    """Return how often the code of the package reads each name or attribute."""
    counts: Counter[str] = Counter()
    for file in files():
        for node in ast.walk(tree(file)):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                counts[node.id] += 1
            elif isinstance(node, ast.Attribute):
                counts[node.attr] += 1
    return counts


def tuples_built_once() -> list[str]:
    """Return the NamedTuples that a single expression of the package creates."""
    classes = (node for file in files() for node in ast.walk(tree(file)) if isinstance(node, ast.ClassDef))
    named = [node.name for node in classes if any(ast.unparse(base).endswith("NamedTuple") for base in node.bases)]
    calls = Counter(
        node.func.id if isinstance(node.func, ast.Name) else node.func.attr
        for file in files()
        for node in ast.walk(tree(file))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute)
    )
    return [name for name in named if calls[name] <= 1]


def structure() -> dict[str, int]:
    """Return every count by its name."""
    folders = {name: size(file for file in files() if room(file) == name) for name in ("", *ROOMS)}
    between = arrows()
    private = [name for name in function_names() if name.startswith("_") and not name.startswith("__")]
    once = [name for name in private if mentions()[name] == 1]
    entries = [path.name for path in PACKAGE.iterdir() if path.name not in (*FACE, "__pycache__")]
    return {
        "nodes": size(files()),
        **{f"nodes of nmt/{name}": nodes for name, nodes in folders.items()},
        "nodes of the core": size(core_files()),
        "lines of C": num_lines(PACKAGE, ".c", ".h"),
        "lines of JavaScript, CSS and HTML": num_lines(PACKAGE, ".js", ".css", ".html"),
        "lines of scripts/": num_lines(ROOT / "scripts", ".py"),
        "files": len(files()),
        "entries of nmt/": len(entries),
        "options": len(options()),
        "keys": len(keys()),
        "circles of imports": len(circles()),
        "arrows between folders": len(between),
        "arrows up": sum(ROOMS.index(b) > ROOMS.index(a) for a, b in between if {a, b} <= set(ROOMS)),
        "NamedTuples built once": len(tuples_built_once()),
        "functions": len(function_names()),
        "private functions": len(private),
        "private functions with one caller": len(once),
    }


def main() -> None:
    """Print the counts and the circles."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="print one JSON object")
    output.add_argument("--surface", action="store_true", help="print every option and key, one a line")
    chosen = parser.parse_args()
    if chosen.surface:
        sys.stdout.writelines(f"{name}\n" for name in surface())
    elif chosen.json:
        sys.stdout.write(json.dumps(structure()) + "\n")
    else:
        sys.stdout.writelines(f"{name:36}{count:>8,}\n" for name, count in structure().items())
        sys.stdout.writelines(f"circle: {', '.join(group)}\n" for group in circles())


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
