"""Bad configurations as docs/reliability.md shows them; tests/config/ holds every message, word for word."""

from __future__ import annotations

from pathlib import Path

import pytest

from nmt.base.errors import ConfigError
from nmt.config import load_config
from tests.config.test_load_faults import CONTRADICTIONS, DATA, DATA_FAULTS, FILES, KEYS, SETS, VALUES
from tests.reliability.running import in_table

WHOLE = {text: message for texts in (FILES, DATA_FAULTS) for text, message in texts.items() if len(text) < 200}
ADDED = {text: message for texts in (KEYS, VALUES, CONTRADICTIONS) for text, message in texts.items()}


def complaint(path: Path, text: str, *overrides: str) -> str:
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_config(path, overrides)
    return f"error: {caught.value}"


def test_the_table_in_the_documentation_says_the_same(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NOT_SET", raising=False)
    path = Path("x.yaml")
    rows = {f"`` {text.strip() or 'an empty file'} ``": (1, complaint(path, text)) for text in WHOLE}
    rows |= {f"`` {text.strip()} ``": (1, complaint(path, DATA + text)) for text in ADDED}
    model = "model:\n  num_heads: 4\n"
    rows |= {f"`` --set {override} ``": (1, complaint(path, DATA + model, override)) for override in SETS}
    found, made = in_table("bad configurations", rows)
    assert found == made
