"""Count the structure of the package: lines, files, imports between folders, options, keys, small functions.

    python scripts/structure.py [--json]

Run it before and after a change of the architecture. tests/test_architecture.py holds the limits.
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
NOT_CORE = ("decoding/cuda_graphs.py", "decoding/static_cache.py", "model/kernels/linear.py")


class Import(NamedTuple):
    """An import of a module of nmt by another."""

    importer: str  # file, relative to the package
    imported: str
    name: str  # as written, such as nmt.base.errors.NmtError
    at_top: bool  # when the importer is imported; else inside a function


@cache
def files() -> tuple[str, ...]:
    """Return the Python files of the package, relative to it."""
    return tuple(path.relative_to(PACKAGE).as_posix() for path in sorted(PACKAGE.rglob("*.py")))


@cache
def tree(file: str) -> ast.Module:
    """Return the syntax tree of a file of the package."""
    return ast.parse((PACKAGE / file).read_text(encoding="utf-8"))


def num_lines(names: Iterable[str]) -> int:
    """Count the lines of these files of the package."""
    return sum((PACKAGE / name).read_bytes().count(b"\n") for name in names)


def core_files() -> list[str]:
    """Return the files of the core: the model, the search, the training loop and the update."""
    matched = {path.relative_to(PACKAGE).as_posix() for pattern in CORE for path in PACKAGE.glob(pattern)}
    return sorted(matched - set(NOT_CORE))


def room(file: str) -> str:
    """Return the folder at the top of the package that holds `file`; empty for the package's own files."""
    return file.split("/")[0] if "/" in file else ""


def names_imported(file: str) -> Iterator[tuple[str, bool]]:
    """Yield (dotted name, True if imported at the top) for each import of a file, except those for type checkers."""

    def visit(node: ast.AST, at_top: bool) -> Iterator[tuple[str, bool]]:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            return
        if isinstance(node, ast.Import):
            yield from ((alias.name, at_top) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((f"{node.module}.{alias.name}", at_top) for alias in node.names)
        in_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for child in ast.iter_child_nodes(node):
            yield from visit(child, at_top and not in_function)

    yield from visit(tree(file), True)


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
        f"nmt {name} {parameter.opts[0]}"
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


def structure() -> dict[str, object]:
    """Return every count by its name."""
    between = arrows()
    private = [name for name in function_names() if name.startswith("_") and not name.startswith("__")]
    once = [name for name in private if mentions()[name] == 1]
    entries = [path.name for path in PACKAGE.iterdir() if path.name not in (*FACE, "__pycache__")]
    return {
        "lines": num_lines(files()),
        "files": len(files()),
        "entries of nmt/": len(entries),
        "lines of the core": num_lines(core_files()),
        "options": len(options()),
        "keys": len(keys()),
        "arrows between folders": len(between),
        "arrows up": sum(ROOMS.index(b) > ROOMS.index(a) for a, b in between if {a, b} <= set(ROOMS)),
        "NamedTuples built once": len(tuples_built_once()),
        "functions": len(function_names()),
        "private functions": len(private),
        "private functions with one caller": len(once),
    }


def main() -> None:
    """Print the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    counts = structure()
    if parser.parse_args().json:
        sys.stdout.write(json.dumps(counts) + "\n")
        return
    sys.stdout.writelines(f"{name:36}{count:>8,}\n" for name, count in counts.items())


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
