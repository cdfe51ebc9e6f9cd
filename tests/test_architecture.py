"""The architecture of docs/architecture.md, as four rules over the folders of nmt/."""

from __future__ import annotations

import re

from scripts.structure import PACKAGE, ROOMS, ROOT, core_files, file_of, files, imports, names_imported, num_lines, room

MAX_CORE_LINES = 3_000
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
    """Imports inside functions too. nmt/__init__.py and nmt/__main__.py stand above all folders."""
    order = {name: index for index, name in enumerate(ROOMS)}
    upward = [
        f"nmt/{each.importer} imports {each.name}"
        for each in imports()
        if "/" in each.importer and "/" in each.imported and order[room(each.importer)] < order[room(each.imported)]
    ]
    assert upward == []


def test_no_two_files_import_each_other():
    """At the top of a file, through any number of others."""
    above = {file: {each.imported for each in imports() if each.at_top and each.importer == file} for file in files()}
    while removable := [file for file, imported in above.items() if not imported & above.keys()]:
        for file in removable:
            del above[file]
    assert sorted(above) == []


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


def test_the_core_reads_in_an_evening():
    """The model, the search, the training loop and the update: without engines, the native decoder and CUDA graphs."""
    assert num_lines(core_files()) <= MAX_CORE_LINES, core_files()
