"""What `nmt info` says of folders that are no runs."""

from __future__ import annotations

import pytest

from nmt.apps.interop.describe import describe_model
from nmt.base.errors import RunError


def test_an_export_for_ctranslate2_is_named_as_such(tmp_path):
    for name in ("export.json", "config.json"):
        (tmp_path / name).write_text("{}")
    with pytest.raises(RunError, match="an export for CTranslate2, which nmt does not load"):
        describe_model(str(tmp_path))
