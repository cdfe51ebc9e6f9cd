"""The folder that `nmt export` creates. Only this module knows the file names inside it.

The folder contains everything that `nmt translate` needs. CTranslate2's files are at its top level, so it is also an
ordinary CTranslate2 model.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, ValidationError

from nmt.artifacts.model_bin import find_corruption
from nmt.artifacts.rundir import MAX_JSON_BYTES
from nmt.base.errors import RunError
from nmt.base.files import new_folder, read_at_most, refuse_special_files, write_text
from nmt.config.base import Section
from nmt.config.model import LanguageTags
from nmt.config.search import SearchOptions
from nmt.data.text.text_statistics import TextStatistics

FORMAT = 1  # version of the folder's format, recorded in each export
Quantization = Literal["none", "int8", "int8_float32", "int8_float16", "int8_bfloat16", "int16", "float16", "bfloat16"]
"""The data type of an export's weights; none: fp32."""

_EXPORT_AGAIN = "create it again with `nmt export ctranslate2`"
_CHUNK = 1 << 20
_MAX_BYTES = 100_000_000  # limit for files other than the model


class FileMark(Section):
    """Size and hash of a file when the export was created. They reveal damage, but not tampering."""

    size: int = Field(ge=0)
    crc32: int = Field(ge=0, lt=2**32)

    @classmethod
    def from_file(cls, path: Path) -> Self:
        """Compute the mark of the file at `path` as it is now."""
        size = crc = 0
        with open(path, "rb") as file:
            while chunk := file.read(_CHUNK):
                crc = zlib.crc32(chunk, crc)
                size += len(chunk)
        return cls(size=size, crc32=crc)


class ExportInfo(Section):
    """The contents of export.json."""

    format: Literal[1] = 1  # FORMAT
    engine: Literal["ctranslate2"] = "ctranslate2"
    quantization: Quantization
    src_lang: str
    tgt_lang: str
    user_symbols: tuple[str, ...] = ()  # tokens that are never split, such as placeholders
    directions: tuple[tuple[str, str], ...] = Field((), description="pairs of source and target language; empty: one")
    language_tags: LanguageTags = Field("source", description="model.language_tags of the run")
    max_src_len: int = Field(ge=2, description="longest source in tokens, eos included")
    max_tgt_len: int = Field(ge=2, description="longest target in tokens, eos included")
    decoding: SearchOptions
    statistics: TextStatistics | None = Field(None, description="statistics.json of the run; null: unknown")
    origin: dict[str, Any] = Field(description="the run, its checkpoint, and the versions it was exported with")
    agreement: dict[str, Any] = Field(description="how well the outputs of export and run agreed after the export")
    files: dict[str, FileMark]


class ExportDir:
    """Paths of one export, and the contents of its export.json."""

    def __init__(self, path: Path):
        self.path = path
        self.info_file = path / "export.json"
        self.tokenizer = path / "tokenizer"
        self.card = path / "README.md"

    def info(self) -> ExportInfo:
        """Read export.json. RunError if it is missing, damaged, or of another format.

        Also raises RunError if the folder contains pipes, devices, or links that point outside it.
        """
        refuse_special_files(self.path, "export")
        value = self._read_json(self.info_file, MAX_JSON_BYTES)
        if not isinstance(value, dict):
            raise self._damaged("not a JSON object")
        if value.get("format") != FORMAT:
            found = f"this export has format {value.get('format')!r}; this version of nmt reads format {FORMAT}"
            raise self._damaged(found)
        try:
            return ExportInfo.model_validate(value)
        except ValidationError as error:
            first = error.errors()[0]
            raise self._damaged(f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}") from None

    def check_files(self, info: ExportInfo) -> None:
        """Raise RunError if a file is too large or has changed since the export. Reads every file once."""
        for name in self._names_needed(info):
            if name not in info.files:
                raise RunError(f"export.json does not list {name}", path=self.path, hint=_EXPORT_AGAIN)
            try:
                fault = self._find_fault(name, info.files[name])
            except OSError as error:
                fault = f"cannot read this file of the export ({error.strerror or error})"
            if fault:
                raise RunError(fault, path=self.path / name, hint=_EXPORT_AGAIN)

    def _find_fault(self, name: str, mark: FileMark) -> str:
        """Describe what is wrong with a file, if anything. Reads at most the size of the largest valid file."""
        path = self.path / name
        size = path.stat().st_size
        if size != mark.size:
            return f"this file has changed since the export: it has {size:,} bytes, but had {mark.size:,}"
        if name != "model.bin" and size > _MAX_BYTES:
            return f"cannot read this file of the export (over {_MAX_BYTES:,} bytes)"
        if name == "model.bin" and (fault := find_corruption(path)):
            return f"not a CTranslate2 model, or {fault}"
        return "" if FileMark.from_file(path) == mark else "this file is damaged: it has changed since the export"

    def write_info(self, info: ExportInfo) -> None:
        """Write export.json."""
        write_text(self.info_file, json.dumps(info.model_dump(), indent=2, ensure_ascii=False) + "\n")

    def mark_files(self) -> dict[str, FileMark]:
        """Return the marks of all files of the export, by name."""
        paths = sorted(path for path in self.path.rglob("*") if path.is_file() and path != self.info_file)
        return {path.relative_to(self.path).as_posix(): FileMark.from_file(path) for path in paths}

    def _names_needed(self, info: ExportInfo) -> list[str]:
        """Return the names of the files that an engine reads. They are fixed, because export.json may be malicious."""
        forms = ("joint",), ("joint-src", "joint-tgt")
        form = next((form for form in forms if f"tokenizer/{form[0]}.model" in info.files), ("src", "tgt"))
        sides = [f"tokenizer/{name}.model" for name in form]
        shared = "shared_vocabulary.json" in info.files
        vocabularies = ("shared_vocabulary.json",) if shared else ("source_vocabulary.json", "target_vocabulary.json")
        return ["model.bin", "config.json", *vocabularies, *sides]

    def vocabulary(self, side: Literal["source", "target"]) -> list[str]:
        """Read the tokens in order of their ids, as CTranslate2 does. RunError if the file is damaged."""
        shared = self.path / "shared_vocabulary.json"
        path = shared if shared.exists() else self.path / f"{side}_vocabulary.json"
        tokens = self._read_json(path, _MAX_BYTES)
        if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
            raise RunError("not a list of tokens", path=path, hint=_EXPORT_AGAIN)
        return tokens

    def _read_json(self, path: Path, limit: int) -> object:
        try:
            return json.loads(read_at_most(path, limit))
        except RecursionError:
            reason: object = "nested too deeply"
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
        raise RunError(f"cannot read this file of the export ({reason})", path=path, hint=_EXPORT_AGAIN)

    def _damaged(self, message: str) -> RunError:
        return RunError(message, path=self.info_file, hint=_EXPORT_AGAIN)


def is_export(path: Path) -> bool:
    """Return whether the folder `path` is an export: it contains an export.json, valid or not."""
    return os.path.lexists(path / "export.json")


def refuse_existing_export(path: Path, *, overwrite: bool) -> None:
    """Raise RunError if `path` exists, unless it is an export and `overwrite` is given."""
    if not os.path.lexists(path):
        return
    if not overwrite:
        hint = "replace it with --overwrite, or choose another folder"
        raise RunError("this path already exists", path=path, hint=hint)
    if not is_export(path):
        raise RunError("not an export, so nmt does not overwrite it", path=path, hint="choose another folder")


@contextmanager
def new_export(path: Path, *, overwrite: bool) -> Iterator[ExportDir]:
    """Yield an export in an empty folder beside `path`; on success flush its files to disk and rename it to `path`.

    If the block raises, the folder is removed and `path` stays unchanged. RunError if `path` exists, unless it is an
    export and `overwrite` is given.
    """

    @contextmanager
    def guard(existing: Path) -> Iterator[None]:
        refuse_existing_export(existing, overwrite=overwrite)
        yield

    with new_folder(path, replace=guard) as folder:
        yield ExportDir(folder)
