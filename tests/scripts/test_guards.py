"""Every guard of scripts/guards.py stands where it says, and its test exists: seconds instead of `make guards`."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location("guards", ROOT / "scripts" / "guards.py")
SCRIPT = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(SCRIPT)


@pytest.mark.parametrize("guard", SCRIPT.GUARDS, ids=lambda guard: guard.name)
def test_a_guard_can_be_taken_away_and_its_test_exists(guard):
    whole = (ROOT / guard.file).read_text(encoding="utf-8")
    assert whole.count(guard.source) == 1
    ast.parse(whole.replace(guard.source, guard.without))
    path, name = guard.test.partition("[")[0].split("::")
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
