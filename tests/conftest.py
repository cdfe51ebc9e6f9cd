"""Fixtures for all tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real parallel text: `$NMT_DATA`, else `../shared/data` beside the checkout; skips where absent."""
    named = os.environ.get("NMT_DATA")
    folder = Path(named) if named else Path(__file__).parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"no real data at {folder}; name its folder in $NMT_DATA")
    return folder
