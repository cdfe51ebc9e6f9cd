"""The folder of an export appears whole or not at all, and a damaged export.json gives one clear error."""

from __future__ import annotations

import pytest

from nmt.apps.interop.export_folder import new_or_replaced, read_export_info, refuse_existing_export
from nmt.base.errors import RunError


def test_what_is_there_is_replaced_only_if_asked_and_only_an_export(tmp_path):
    out = tmp_path / "out"
    with new_or_replaced(out, refuse_existing_export, overwrite=False) as folder:
        (folder / "export.json").write_text("{}")
        (folder / "sub").mkdir()
    with pytest.raises(RunError, match="this path already exists\n  replace it with --overwrite"):
        refuse_existing_export(out, overwrite=False)
    with new_or_replaced(out, refuse_existing_export, overwrite=True) as folder:
        (folder / "export.json").write_text("[]")
    assert [path.name for path in out.iterdir()] == ["export.json"]
    (out / "export.json").unlink()
    (out / "thesis.txt").write_text("years of work")
    with (
        pytest.raises(RunError, match="not an export, so nmt does not overwrite it"),
        new_or_replaced(out, refuse_existing_export, overwrite=True),
    ):
        pass
    assert (out / "thesis.txt").read_text() == "years of work"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("content", [b"{", b"\xff\xfe\x00", b"[" * 200_000, b"[1]", b"{}", b'{"format": 2}'])
def test_a_damaged_export_json_gives_one_clear_error(content, tmp_path):
    (tmp_path / "export.json").write_bytes(content)
    with pytest.raises(RunError) as caught:
        read_export_info(tmp_path)
    assert (caught.value.path, len(str(caught.value)) < 400) == (tmp_path / "export.json", True)
    assert caught.value.hint == "create it again with `nmt export ctranslate2`"
