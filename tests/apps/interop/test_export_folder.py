"""The folder of an export appears whole or not at all, and replaces nothing but an export."""

from __future__ import annotations

from functools import partial

import pytest

from nmt.apps.interop.export_folder import refuse_existing_export
from nmt.base.errors import RunError
from nmt.base.files import new_folder


def test_what_is_there_is_replaced_only_if_asked_and_only_an_export(tmp_path):
    out = tmp_path / "out"
    with new_folder(out, replace=partial(refuse_existing_export, overwrite=False)) as folder:
        (folder / "export.json").write_text("{}")
        (folder / "sub").mkdir()
    with pytest.raises(RunError, match="this path already exists\n  replace it with --overwrite"):
        refuse_existing_export(out, overwrite=False)
    with new_folder(out, replace=partial(refuse_existing_export, overwrite=True)) as folder:
        (folder / "export.json").write_text("[]")
    assert [path.name for path in out.iterdir()] == ["export.json"]
    (out / "export.json").unlink()
    (out / "thesis.txt").write_text("years of work")
    with (
        pytest.raises(RunError, match="not an export, so nmt does not overwrite it"),
        new_folder(out, replace=partial(refuse_existing_export, overwrite=True)),
    ):
        pass
    assert (out / "thesis.txt").read_text() == "years of work"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
