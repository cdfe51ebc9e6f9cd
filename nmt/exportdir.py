"""The folder that `nmt export` makes: the only place that knows file names inside it.

It holds all that `nmt translate` needs. CTranslate2's files lie at its top, so it is an ordinary CTranslate2 model too.
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

from nmt.config.sections import DecodingConfig, Section
from nmt.errors import RunError
from nmt.files import new_folder, write_text
from nmt.rundir import RunDir, find_run, restore_replaced

FORMAT = 1  # of the folder; an export says which one it is
Quantization = Literal["none", "int8", "int8_float32", "int8_float16", "int8_bfloat16", "int16", "float16", "bfloat16"]
"""How an export keeps the weights; none: fp32."""

_EXPORT_AGAIN = "make it again with `nmt export ctranslate2`"
_CHUNK = 1 << 20


class FileMark(Section):
    """What a file of the export was when it was made: damage is found by it, not malice."""

    size: int = Field(ge=0)
    crc32: int = Field(ge=0, lt=2**32)

    @classmethod
    def from_file(cls, path: Path) -> Self:
        """The mark of the file at `path` as it is now."""
        size = crc = 0
        with open(path, "rb") as file:
            while chunk := file.read(_CHUNK):
                crc = zlib.crc32(chunk, crc)
                size += len(chunk)
        return cls(size=size, crc32=crc)


class ExportInfo(Section):
    """What export.json says."""

    format: Literal[1] = 1  # FORMAT
    engine: Literal["ctranslate2"] = "ctranslate2"
    quantization: Quantization
    src_lang: str
    tgt_lang: str
    user_symbols: tuple[str, ...] = ()  # never to be split: placeholders and the like
    max_src_len: int = Field(ge=2, description="longest source in tokens, eos included")
    max_tgt_len: int = Field(ge=2, description="longest target in tokens, eos included")
    decoding: DecodingConfig
    origin: dict[str, Any] = Field(description="the run, its checkpoint, and the versions it was exported with")
    agreement: dict[str, Any] = Field(description="how the export and the run agreed when it was made")
    files: dict[str, FileMark]


class ExportDir:
    """Paths of one export, and what it says of itself."""

    def __init__(self, path: Path):
        self.path = path
        self.info_file = path / "export.json"
        self.tokenizer = path / "tokenizer"
        self.card = path / "README.md"

    def info(self) -> ExportInfo:
        """What the export says of itself; RunError if it is missing, damaged, or of another format."""
        try:
            value = json.loads(self.info_file.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise self._damaged(f"cannot read this file of the export ({error})") from error
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
        """RunError if a file is not what it was when the export was made. Reads every file once."""
        for name in self._names_needed(info):
            path = self.path / name
            if name not in info.files:
                raise RunError(f"export.json does not list {name}", path=self.path, hint=_EXPORT_AGAIN)
            try:
                damaged = FileMark.from_file(path) != info.files[name]
            except OSError as error:
                reason = f"cannot read this file of the export ({error.strerror or error})"
                raise RunError(reason, path=path, hint=_EXPORT_AGAIN) from error
            if damaged:
                raise RunError("this file is not as it was exported: damaged", path=path, hint=_EXPORT_AGAIN)

    def write_info(self, info: ExportInfo) -> None:
        """Write export.json."""
        write_text(self.info_file, json.dumps(info.model_dump(), indent=2, ensure_ascii=False) + "\n")

    def mark_files(self) -> dict[str, FileMark]:
        """The marks of all files of the export, by name."""
        paths = sorted(path for path in self.path.rglob("*") if path.is_file() and path != self.info_file)
        return {path.relative_to(self.path).as_posix(): FileMark.from_file(path) for path in paths}

    def _names_needed(self, info: ExportInfo) -> list[str]:
        """Names of the files that an engine reads: fixed ones, never what export.json may say."""
        joint = "tokenizer/joint.model" in info.files
        sides = ("tokenizer/joint.model",) if joint else ("tokenizer/src.model", "tokenizer/tgt.model")
        shared = "shared_vocabulary.json" in info.files
        vocabularies = ("shared_vocabulary.json",) if shared else ("source_vocabulary.json", "target_vocabulary.json")
        return ["model.bin", "config.json", *vocabularies, *sides]

    def vocabulary(self, side: Literal["source", "target"]) -> list[str]:
        """The tokens by id, as CTranslate2 reads them; RunError if damaged."""
        shared = self.path / "shared_vocabulary.json"
        path = shared if shared.exists() else self.path / f"{side}_vocabulary.json"
        try:
            return json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise RunError(f"cannot read this file of the export ({error})", path=path, hint=_EXPORT_AGAIN) from error

    def _damaged(self, message: str) -> RunError:
        return RunError(message, path=self.info_file, hint=_EXPORT_AGAIN)


def is_export(path: Path) -> bool:
    """Whether `path` is a folder that `nmt export` made."""
    return (path / "export.json").is_file()


def find_model(model: str | None) -> RunDir | ExportDir:
    """What to translate with: as `find_run`, but the folder named may be an export too."""
    named = model or os.environ.get("NMT_MODEL")
    if named:
        restore_replaced(Path(named))
    return ExportDir(Path(named)) if named and is_export(Path(named)) else find_run(model)


def refuse_existing_export(path: Path, *, overwrite: bool) -> None:
    """RunError if something is at `path`, unless it is an export and is to be overwritten."""
    if not os.path.lexists(path):
        return
    if not overwrite:
        hint = "replace it by --overwrite, or choose another folder"
        raise RunError("there is something here already", path=path, hint=hint)
    if not is_export(path):
        raise RunError("not an export, so it is not overwritten", path=path, hint="choose another folder")


@contextmanager
def new_export(path: Path, *, overwrite: bool) -> Iterator[ExportDir]:
    """Yield an export in an empty folder beside `path`; on success flush its files to the disk and rename it to `path`.

    If the block raises, the folder is removed and `path` stays as it was. RunError if something is at `path`, unless it
    is an export and `overwrite` is given.
    """

    @contextmanager
    def guard(existing: Path) -> Iterator[None]:
        refuse_existing_export(existing, overwrite=overwrite)
        yield

    with new_folder(path, replace=guard) as folder:
        yield ExportDir(folder)
