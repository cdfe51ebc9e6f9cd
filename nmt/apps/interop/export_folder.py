"""The folder of an export: what is there is replaced only if it is an export too. Imports no torch."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from nmt.base.errors import RunError

Quantization = Literal["none", "int8", "int8_float32", "int8_float16", "int8_bfloat16", "int16", "float16", "bfloat16"]
"""The data type of the weights of an export to CTranslate2; none: fp32."""


def refuse_existing_export(path: Path, *, overwrite: bool) -> None:
    """Raise RunError if `path` exists, unless it is an export to CTranslate2 and `overwrite` is given."""
    refuse_existing(path, lambda path: os.path.lexists(path / "export.json"), "an export", overwrite=overwrite)


def refuse_existing(path: Path, is_kind: Callable[[Path], bool], kind: str, *, overwrite: bool) -> None:
    """Raise RunError if `path` exists, unless `is_kind` says that it is of the `kind`, and `overwrite` is given."""
    if not os.path.lexists(path):
        return
    if not overwrite:
        raise RunError(
            "this path already exists", path=path, hint="replace it with --overwrite, or choose another folder"
        )
    if not is_kind(path):
        raise RunError(f"not {kind}, so nmt does not overwrite it", path=path, hint="choose another folder")
