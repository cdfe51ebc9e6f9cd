"""The page of promises: each has a test that exists."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_promise_names_a_test_that_exists():
    page = (ROOT / "docs" / "reference" / "promises.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if re.match(r"\| (?!promise)[^-]", line)]
    assert len(rows) > 20
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for row in rows:
        named = re.findall(r"`([^`]+)`", row.rstrip(" |").rpartition("|")[2])
        assert named, row
        for name in named:
            target = name.removeprefix("make ")
            assert (ROOT / name).exists() or (target != name and f"\n{target}:" in makefile), name
