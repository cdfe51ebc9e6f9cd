"""The architecture of docs/architecture.md, as rules over the folders of nmt/; limits on size and surface."""

from __future__ import annotations

import ast
import re

from scripts.structure import (
    PACKAGE,
    ROOMS,
    ROOT,
    circles,
    core_files,
    file_of,
    files,
    imports,
    names_imported,
    room,
    size,
    surface,
)

MAX_NODES = 189_400  # the aim is 160,000; phrase tables alone have 9,600
MAX_CORE_NODES = 16_500  # 2,130 of them are the kernels for GPUs
MAX_PATCHES = 15
SURFACE = ROOT / "tests" / "frozen" / "surface.txt"
TORCH = (
    "base/device.py",
    "data/store/batching.py",
    "model/",
    "artifacts/checkpoint.py",
    "decoding/",
    "training/",
    "apps/interop/",
)
"""What may import torch at the top of a file. Everything else starts without it."""


def test_the_folders_are_those_of_the_architecture():
    folders = sorted(path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__")
    table = re.findall(
        r"^\| `(\w+)/` \|", (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert folders == sorted(ROOMS)
    assert tuple(table[: len(ROOMS)]) == ROOMS


def test_imports_go_down_the_folders_and_nothing_imports_apps():
    """Imports in functions and for types, too. nmt/__init__.py and nmt/__main__.py stand above all folders.

    nmt/__init__.py is the one exception: `nmt.adapt` and the other recipes are public names, loaded when they are used.
    """
    order = {name: index for index, name in enumerate(ROOMS)}
    upward = [
        f"nmt/{each.importer} imports {each.name}"
        for each in imports()
        if "/" in each.importer and "/" in each.imported and order[room(each.importer)] < order[room(each.imported)]
    ]
    assert upward == []
    outside = {each.importer for each in imports() if each.imported.startswith("apps/") and "/" not in each.importer}
    assert outside == {"__init__.py", "__main__.py"}


def test_no_two_files_import_each_other():
    """Through any number of others, in functions and for types, too."""
    assert circles() == []


def test_torch_is_imported_at_the_top_of_few_files():
    brings_torch = {
        file for file in files() if any(n.split(".")[0] == "torch" and top for n, top in names_imported(file))
    }
    while True:
        more = {each.importer for each in imports() if each.at_top and each.imported in brings_torch} - brings_torch
        if not more:
            break
        brings_torch |= more
    assert [file for file in sorted(brings_torch) if not file.startswith(TORCH)] == []


def test_no_file_imports_a_private_name():
    private = [
        f"nmt/{file}: {name}"
        for file in files()
        for name, _ in names_imported(file)
        if file_of(name)
        and any(re.match("_[a-z]", part) for part in name.split("."))
        and not name.endswith("._decoder")
    ]
    assert private == []


def test_the_package_keeps_its_size():
    """In nodes of the syntax tree, not in lines: a limit on lines makes code dense, not less."""
    assert size(files()) <= MAX_NODES
    assert size(core_files()) <= MAX_CORE_NODES


def test_options_and_keys_are_frozen():
    """Adding one means adding it here, on purpose."""
    frozen = SURFACE.read_text(encoding="utf-8").splitlines()
    assert surface() == frozen, "python scripts/structure.py --surface > tests/frozen/surface.txt"


def test_few_tests_patch_private_names():
    """A constant that a test must change is public, or an argument."""

    def is_private(name: object) -> bool:
        return isinstance(name, str) and re.fullmatch("_[A-Za-z].*", name.rpartition(".")[2]) is not None

    texts = {path: path.read_text(encoding="utf-8") for path in sorted((ROOT / "tests").rglob("*.py"))}
    patched = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path, text in texts.items()
        if re.search(r"""["']([^"'\n]*\.)?_[A-Za-z]""", text)  # few have such a string: the others are not parsed
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if node.func.attr in ("setattr", "delattr", "setitem", "patch", "object")
        if any(isinstance(each, ast.Constant) and is_private(each.value) for each in node.args[:2])
    ]
    assert len(patched) <= MAX_PATCHES, patched
