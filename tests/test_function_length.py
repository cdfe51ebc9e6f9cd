"""No function of nmt has 40 lines: one that grows that long is several."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1]
MAX_LINES = 39  # from `def` to the last line, docstring included


def test_no_function_has_40_lines():
    functions = [
        (f"{path.relative_to(ROOT)}:{node.lineno} {node.name}", node.end_lineno - node.lineno + 1)
        for path in sorted((ROOT / "nmt").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    assert [(name, lines) for name, lines in functions if lines > MAX_LINES] == []
