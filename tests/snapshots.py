"""The whole messages to users, in the files of messages/. Elsewhere tests check type, path, line and a key word."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

FOLDER = Path(__file__).parent / "messages"
UPDATE = "NMT_UPDATE_MESSAGES"


def assert_messages(name: str, rows: Mapping[str, str]) -> None:
    """Compare `rows` (what was tried: what was said) with messages/`name`.txt; $NMT_UPDATE_MESSAGES rewrites it."""
    text = "\n".join(f"# {tried}\n{said.strip()}\n" for tried, said in rows.items())
    text = "".join(char if char.isprintable() or char == "\n" else repr(char)[1:-1] for char in text)
    snapshot = FOLDER / f"{name}.txt"
    if os.environ.get(UPDATE):
        snapshot.write_text(text, encoding="utf-8")
    assert text == snapshot.read_text(encoding="utf-8"), f"if the new messages are right, run with {UPDATE}=1"
