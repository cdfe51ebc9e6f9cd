"""The names that `nmt.model` offers, and that the tutorial and the reference page use."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import nmt.model

DOCS = Path(__file__).parents[2] / "docs"


def test_every_part_can_be_imported_by_name_and_is_in_the_reference():
    assert [name for name in nmt.model.__all__ if not hasattr(nmt.model, name)] == []
    page = (DOCS / "reference" / "python-api.md").read_text(encoding="utf-8")
    table = page.partition("| name from `nmt.model` |")[2].partition("\n\n")[0]
    named = [name for row in table.splitlines() for name in re.findall(r"`(\w+)`", row.split("|")[1])]
    assert sorted(named) == sorted(nmt.model.__all__)


def test_the_tutorials_import_from_nmt_and_its_three_faces_only():
    allowed = {"nmt", "nmt.model", "nmt.evaluation", "nmt.evaluation.plots", "torch", "matplotlib.pyplot"}
    allowed |= sys.stdlib_module_names
    for page in sorted(DOCS.glob("tutorials/**/*.md")):
        imported = re.findall(r"^ *(?:from|import) ([\w.]+)", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
        assert [name for name in imported if name not in allowed] == [], page.name


def test_the_shapes_of_a_model_need_no_torch():
    code = "import sys, nmt.model.shapes; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
