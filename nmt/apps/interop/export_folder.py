"""The folder that `nmt export ctranslate2` creates: a CTranslate2 model, the tokenizer and export.json."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from nmt.artifacts.rundir import MAX_JSON_BYTES
from nmt.base.errors import RunError
from nmt.base.files import new_folder, read_at_most, write_text
from nmt.config.base import Section

Quantization = Literal["none", "int8", "int8_float32", "int8_float16", "int8_bfloat16", "int16", "float16", "bfloat16"]
"""The data type of an export's weights; none: fp32."""


class ExportInfo(Section):
    """The contents of export.json."""

    format: Literal[1] = 1
    engine: Literal["ctranslate2"] = "ctranslate2"
    quantization: Quantization
    directions: tuple[str, ...] = Field(description="such as en-de")
    max_src_len: int = Field(description="longest source in tokens, eos included")
    max_tgt_len: int = Field(description="longest target in tokens, eos included")
    origin: dict[str, Any] = Field(description="the run, its checkpoint, and the versions it was exported with")
    agreement: dict[str, Any] = Field(description="how well the outputs of export and run agreed after the export")


def write_export_info(folder: Path, info: ExportInfo) -> None:
    """Write export.json."""
    write_text(folder / "export.json", json.dumps(info.model_dump(), indent=2, ensure_ascii=False) + "\n")


def read_export_info(folder: Path) -> ExportInfo:
    """Read export.json. RunError if it is damaged, or of another version of nmt."""
    path, hint = folder / "export.json", "create it again with `nmt export ctranslate2`"
    try:
        return ExportInfo.model_validate_json(read_at_most(path, MAX_JSON_BYTES))
    except ValidationError as error:
        first = error.errors()[0]
        raise RunError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}", path=path, hint=hint) from None
    except (OSError, ValueError) as error:
        raise RunError(f"cannot read this file of the export ({error})", path=path, hint=hint) from None


def is_export(path: Path) -> bool:
    """Return whether the folder `path` is an export: it contains an export.json, valid or not."""
    return os.path.lexists(path / "export.json")


def refuse_existing_export(path: Path, *, overwrite: bool) -> None:
    """Raise RunError if `path` exists, unless it is an export and `overwrite` is given."""
    refuse_existing(path, is_export, "an export", overwrite=overwrite)


def refuse_existing(path: Path, is_kind: Callable[[Path], bool], kind: str, *, overwrite: bool) -> None:
    """Raise RunError if `path` exists, unless `is_kind` says that it is of the `kind`, and `overwrite` is given."""
    if not os.path.lexists(path):
        return
    if not overwrite:
        hint = "replace it with --overwrite, or choose another folder"
        raise RunError("this path already exists", path=path, hint=hint)
    if not is_kind(path):
        raise RunError(f"not {kind}, so nmt does not overwrite it", path=path, hint="choose another folder")


def new_or_replaced(path: Path, refuse: Callable[..., None], *, overwrite: bool) -> AbstractContextManager[Path]:
    """Yield an empty folder that becomes `path`, as `new_folder` does, unless `refuse` raises for what is there."""

    @contextmanager
    def guard(existing: Path) -> Iterator[None]:
        refuse(existing, overwrite=overwrite)
        yield

    return new_folder(path, replace=guard)
