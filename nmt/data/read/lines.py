"""Open text files, read their lines with limits and error messages, and write new ones; no other module does.

Lines end only at LF (or CR LF): U+2028, U+0085 and form feeds are text. A file is plain, or compressed if its name ends
in `.gz`, `.bz2`, `.xz` or `.zst`.
"""

from __future__ import annotations

import gzip
import importlib
import io
import logging
import re
import sys
from collections.abc import Generator, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from nmt.base.errors import DataError, how_to_install
from nmt.base.files import write_atomically

log = logging.getLogger(__name__)

MAX_LINE_BYTES = 1_000_000  # longer lines are rejected before they fill the memory: it is not text, or has no line ends

_ZSTD = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
COMPRESSIONS = {
    ".gz": ("gzip", "gzip", ""),
    ".bz2": ("bzip2", "bz2", "this Python was built without it; unpack the file with bunzip2"),
    ".xz": ("xz", "lzma", "this Python was built without it; unpack the file with unxz"),
    ".zst": ("Zstandard", _ZSTD, f"{how_to_install('zst')}, or unpack the file with unzstd"),
}
"""The compressions by file extension: the name, the module, and a hint if the module is missing."""

UTF8_MARK = b"\xef\xbb\xbf"
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
ONE_SENTENCE_PER_LINE = "write one sentence per line, each line ending in LF"
_COPY_AGAIN = "copy or download the file again"
_SAVE_AS_UTF8 = "save the file as UTF-8, or convert it: iconv -f OLD-ENCODING -t UTF-8"
_IF_UTF16 = (
    "if it is UTF-16 without a byte order mark, convert it: iconv -f UTF-16LE -t UTF-8; else give a file of text"
)
_CHUNK_BYTES = 1 << 16
_MAX_LISTED = 10  # lines with broken bytes, each with a warning
_SURROGATES = re.compile("[\ud800-\udfff]")
_KINDS = {  # by the first bytes: the kind of file, its extension, a hint for other extensions
    b"\x1f\x8b": ("gzip data", ".gz", "rename it"),
    b"\xfd7zXZ\0": ("xz data", ".xz", "rename it"),
    b"\x28\xb5\x2f\xfd": ("Zstandard data", ".zst", "rename it"),
    b"PK\x03\x04": (
        "a zip archive, a workbook or a Word document",
        ".xlsx",
        "unpack an archive; use the key xlsx for a workbook; to translate a Word document, leave out --input",
    ),
    b"BZh": ("bzip2 data", ".bz2", "rename it"),
    b"PAR1": (
        "a Parquet file",
        ".parquet",
        "write its rows as JSON Lines: pandas.read_parquet(FILE).to_json(NEW, orient='records', lines=True)",
    ),
    b"%PDF": ("a PDF", ".pdf", "save its text as a plain file"),
    b"\x89PNG": ("a picture", ".png", "give a file of text"),
    **dict.fromkeys(
        (b"<srcset", b"<refset", b"<tstset"),
        ("a set of WMT in SGML", ".sgm", "write the text of each <seg> as one line"),
    ),
}


def compression_of(path: Path) -> str:
    """Return the ending of a file's name that stands for a compression, in lower case; empty if it has none."""
    ending = path.suffix.lower()
    return ending if ending in COMPRESSIONS else ""


def without_compression(path: Path) -> Path:
    """Return `path` without the ending that stands for a compression, if it has one."""
    return path.with_suffix("") if compression_of(path) else path


def open_text(path: Path) -> BinaryIO:
    """Open a file as bytes, decompressed according to its extension. Raises DataError if it cannot be opened."""
    try:
        if path.is_dir():
            raise DataError("this is a folder; a text file is needed", path=path)
        return cast(BinaryIO, (compression_module(path).open if compression_of(path) else open)(path, "rb"))
    except FileNotFoundError:
        escaped = "in double quotes, YAML reads \\t as a tab and \\n as a line end; write / for each \\"
        raise DataError(
            "no such file",
            path=path,
            hint=f"paths are relative to {Path.cwd()}" if str(path).isprintable() else escaped,
        ) from None
    except PermissionError:
        raise DataError("no permission to read this file", path=path) from None
    except OSError as error:
        raise DataError(f"cannot be opened: {error.strerror or error}", path=path) from None


def compression_module(path: Path) -> Any:
    """Return the module for the compression given by the extension of `path`. DataError if it is not installed."""
    _, name, hint = COMPRESSIONS[compression_of(path)]
    try:
        return importlib.import_module(name)
    except ImportError:
        raise DataError(f"{path.suffix} files need the module {name}", path=path, hint=hint) from None


def read_fault(error: Exception, path: Path | str, line: int) -> DataError:
    """Return the error for an exception that reading `line` raised; each compression has exceptions of its own."""
    ending = compression_of(Path(path))
    if not ending or (isinstance(error, OSError) and error.errno is not None):  # the disk's, not the compression's
        return DataError(f"cannot be read: {error}", path=path, line=line, hint=_COPY_AGAIN)
    kind = COMPRESSIONS[ending][0]
    if isinstance(error, MemoryError):
        return DataError(f"unpacking this {kind} data needs more memory than is available", path=path, line=line)
    if isinstance(error, EOFError):
        return DataError(f"the {kind} data is truncated", path=path, line=line, hint=_COPY_AGAIN)
    unknown = ("Not a gzipped file", "format not supported", "Unknown frame", "Invalid data stream")
    hint = _COPY_AGAIN
    if line == 1 and any(words in str(error) for words in unknown):
        with open(path, "rb") as file:
            start = file.read(8)
        actual = next(
            (f"rename this file of {other}" for first, (other, _, _) in _KINDS.items() if start.startswith(first)), ""
        )
        hint = f"a {ending} file must be {kind} data; {actual or 'rename a plain text file'}"
    return DataError(f"not readable as {kind} ({error})", path=path, line=line, hint=hint)


def read_raw_lines(file: BinaryIO, path: Path | str) -> Iterator[bytes]:
    """Yield the lines of an open file, each with its line end, without a byte order mark. `path`: for error messages.

    Raises DataError with the path and the line: a line over `MAX_LINE_BYTES`; damaged or truncated compressed data; a
    disk or a pipe that cannot be read; what is no text at all, such as UTF-16 or a zip archive.
    """
    number = 1
    try:
        while raw := file.readline(MAX_LINE_BYTES + 1):
            if len(raw) > MAX_LINE_BYTES:
                raise DataError("this line is longer than 1 MB", path=path, line=number, hint=ONE_SENTENCE_PER_LINE)
            if number == 1:
                check_beginning(raw, Path(path))
                raw = raw.removeprefix(UTF8_MARK)
            yield raw
            number += 1
    except DataError:
        raise
    except Exception as error:
        raise read_fault(error, path, number) from None


def read_lines(path: Path) -> Generator[str, None, None]:
    """Yield the lines of a UTF-8 file, plain or compressed, without their line ends; only one line is in memory.

    Raises DataError with the path, and the line if there is one: the file cannot be opened or is empty; bytes that are
    not UTF-8, UTF-16, a NUL character, a line longer than 1 MB; damaged or truncated compressed data.
    """
    number = 0
    with open_text(path) as file:
        for number, raw in enumerate(read_raw_lines(file, path), start=1):
            if b"\0" in raw:
                raise DataError(
                    f"NUL character at byte {raw.index(0) + 1} of the line",
                    path=path,
                    line=number,
                    hint="text files contain no NUL characters; this may be UTF-16 or a binary file. "
                    f"S{_SAVE_AS_UTF8[1:]}",
                )
            try:
                line = raw.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")  # without a call: each line counts
            except UnicodeDecodeError as error:
                raise DataError(
                    f"not UTF-8: byte 0x{raw[error.start]:02X} at byte {error.start + 1} of the line",
                    path=path,
                    line=number,
                    hint=_SAVE_AS_UTF8,
                ) from None
            yield line
    if number == 0:
        check_beginning(b"", path)


def read_text_file(path: Path) -> Iterator[str]:
    """Yield the lines of a file, plain or `.gz`. DataError, with the line if known, if it cannot be read."""
    with open_text(path) as file:
        yield from decode_lines(file, str(path))


def decode_lines(stream: BinaryIO, name: str) -> Iterator[str]:
    """Yield lines as text; bytes that are not UTF-8 become U+FFFD, with warnings that name the first such lines.

    DataError as `read_raw_lines`.
    """
    num_broken = 0
    for number, raw in enumerate(read_raw_lines(stream, name), start=1):
        line = raw.removesuffix(b"\n").removesuffix(b"\r")
        try:
            yield line.decode("utf-8")
        except UnicodeDecodeError:
            num_broken += 1
            if num_broken <= _MAX_LISTED:
                log.warning("%s:%d: not valid UTF-8; the broken bytes are replaced", name, number)
            yield line.decode("utf-8", errors="replace")
    if num_broken > _MAX_LISTED:
        log.warning("%s: %s lines in all are not valid UTF-8; is the file in UTF-8?", name, f"{num_broken:,}")


def check_beginning(raw: bytes, path: Path, *, xml: bool = False) -> None:
    """Raise DataError if a file that starts with the line `raw` is empty, is not text, or has a wrong extension.

    XML may be UTF-16, which it declares, and its lines may end in CR.
    """
    if raw in (b"", UTF8_MARK):
        raise DataError("the file is empty", path=path, hint=ONE_SENTENCE_PER_LINE if not xml else "")
    if raw.startswith(UTF16_MARKS) and not xml:
        raise DataError(
            "this is UTF-16, not UTF-8", path=path, line=1, hint=_SAVE_AS_UTF8.replace("OLD-ENCODING", "UTF-16")
        )
    if raw.count(b"\r") > 1 and not raw.endswith(b"\n") and not xml:
        raise DataError(
            "the lines end in CR without LF",
            path=path,
            line=1,
            hint="save the file with LF or CR LF, or convert it: tr '\\r' '\\n' < OLD > NEW",
        )
    for first, (kind, ending, hint) in _KINDS.items():
        if raw.startswith(first):
            message = f"this is {kind}, but its name does not end in {ending}"
            if compression_of(path) or path.suffix == ending:
                message = f"this is {kind}, not text"  # compressed twice, or a workbook given as another format
                hint = hint.replace("rename it", "unpack it")
            raise DataError(message, path=path, line=1, hint=hint)
    if raw[257:262] == b"ustar":
        raise DataError("this is a tar archive, not text", path=path, line=1, hint="unpack it with tar -xf")
    if b"\0" in raw and not xml and "\ufffd" in raw.decode("utf-8", "replace"):  # a lone NUL may be a slip in a text
        raise DataError("this is binary data, not text", path=path, line=1, hint=_IF_UTF16)


def without_surrogates(text: str) -> str:
    """Return `text` with each lone surrogate, which UTF-8 cannot encode, replaced by U+FFFD."""
    return _SURROGATES.sub("\ufffd", text)


def count_lines(path: Path) -> int:
    """Count the lines of a file up to the first damaged data, which `read_raw_lines` reports."""
    count = 0
    last = b"\n"
    with open_text(path) as file, suppress(Exception):
        while chunk := file.read(_CHUNK_BYTES):
            count += chunk.count(b"\n")
            last = chunk[-1:]
    return count + (last != b"\n")


def open_new_text(stack: ExitStack, path: Path) -> IO[str]:
    """Open a file that appears under its name when `stack` closes: it is closed and flushed, then renamed.

    Files that end in `.gz`, `.bz2`, `.xz` or `.zst` are compressed; equal text gives equal bytes. DataError if the
    module for the compression is missing.
    """
    module = compression_module(path) if compression_of(path) else None
    partial = stack.enter_context(write_atomically(path))
    file: BinaryIO = stack.enter_context(open(partial, "wb"))  # noqa: SIM115 (the stack closes it)
    if compression_of(path) == ".gz":  # without name and time in its header, so that equal text gives equal bytes
        file = cast(BinaryIO, stack.enter_context(gzip.GzipFile("", "wb", fileobj=file, mtime=0)))
    elif module is not None:
        file = stack.enter_context(module.open(file, "wb"))
    return stack.enter_context(io.TextIOWrapper(file, encoding="utf-8", newline="\n"))


def as_cell(text: str) -> str:
    """Return `text` as a cell of tab-separated text: a tab inside it becomes a space."""
    return text.replace("\t", " ")
