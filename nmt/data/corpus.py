"""Text files to sentence pairs, one line at a time; every complaint about text names its file and line.

A line ends at LF (or CR LF) and nowhere else: U+2028, U+0085 and form feeds are text. A corpus is UTF-8, with or
without a byte order mark, plain or gzip (by its name, `.gz`). White space around a sentence is no part of it.
Tabs alone separate the columns of a tsv; quotation marks are text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from nmt.config.sections import ParallelFiles
from nmt.data.lines import ONE_SENTENCE_PER_LINE, UTF8_MARK, open_text, read_raw_lines, without_line_end
from nmt.errors import DataError

_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_GZIP_MARK = b"\x1f\x8b"
_SAVE_AS_UTF8 = "save the file as UTF-8, or convert it: iconv -f OLD-ENCODING -t UTF-8"


class SentencePair(NamedTuple):
    """A source sentence, its translation, and the line they stand on (from 1). Either side may be empty."""

    src: str
    tgt: str
    line: int
    corpus: int = 0


def paths_of(files: ParallelFiles) -> list[Path]:
    """Return the files that hold the text: source and target, or the one tsv."""
    return [Path(name) for name in (files.src, files.tgt, files.tsv) if name is not None]


def read_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a UTF-8 file, plain or `.gz`, without their line ends; memory holds one line.

    Raises DataError with the path, and the line where there is one: the file cannot be opened or is empty; bytes that
    are not UTF-8, UTF-16, a NUL character, a line of over a megabyte; gzip data that is damaged or cut short.
    """
    number = 0
    with open_text(path) as file:
        for number, raw in enumerate(read_raw_lines(file, path), start=1):
            if number == 1:
                _check_beginning(raw, path)
                raw = raw.removeprefix(UTF8_MARK)
            yield _decode_line(raw, path, number)
    if number == 0:
        raise DataError("the file is empty", path=path, hint=ONE_SENTENCE_PER_LINE)


def read_parallel(files: ParallelFiles) -> Iterator[SentencePair]:
    """Yield the pairs of two aligned files or of one tab-separated file, in order, both sides stripped of white space.

    A blank row yields a pair with an empty side or two; to drop and count it is the caller's part. Raises DataError as
    `read_lines` does, if a file is a pipe, if one aligned file is longer than the other, and if a row has fewer columns
    than needed, or more than the first: a tab inside a sentence would move the columns after it.
    """
    paths = paths_of(files)
    refuse_pipes(paths)
    return _read_tsv(paths[0], *files.columns) if files.tsv is not None else _read_aligned(*paths)


def refuse_pipes(paths: Iterable[Path]) -> None:
    """Raise DataError if one of `paths` is a pipe: nmt reads a corpus several times. Missing files show when read."""
    for path in paths:
        if path.is_fifo() or path.is_socket():
            hint = "a pipe can be read only once, but nmt reads a corpus several times; write it to a file"
            raise DataError("this is a pipe; a file is needed", path=path, hint=hint)


def _read_aligned(src_path: Path, tgt_path: Path) -> Iterator[SentencePair]:
    src_lines, tgt_lines = read_lines(src_path), read_lines(tgt_path)
    for number, (src, tgt) in enumerate(zip_longest(src_lines, tgt_lines), start=1):
        if src is None or tgt is None:
            longer = number + sum(1 for _ in (src_lines if tgt is None else tgt_lines))
            num_src, num_tgt = (longer, number - 1) if tgt is None else (number - 1, longer)
            raise DataError(
                f"{num_src} source lines (in {src_path}) but {num_tgt} target lines",
                path=tgt_path,
                line=number,
                hint="line n of one file must translate line n of the other; check from this line on",
            )
        yield SentencePair(src.strip(), tgt.strip(), number)


def _read_tsv(path: Path, src_column: int, tgt_column: int) -> Iterator[SentencePair]:
    wanted, num_columns = max(src_column, tgt_column), 0
    for number, row in enumerate(read_lines(path), start=1):
        if not row.strip():
            yield SentencePair("", "", number)
            continue
        fields = row.split("\t")
        num_columns = num_columns or len(fields)
        if len(fields) > max(num_columns, wanted):
            raise DataError(
                f"{len(fields)} tab-separated columns, but the first row has {num_columns}",
                path=path,
                line=number,
                hint="sentences must not contain tabs; replace them with spaces",
            )
        if len(fields) < wanted:
            raise DataError(
                f"{len(fields)} tab-separated column{'s' * (len(fields) != 1)}, but column {wanted} is asked for",
                path=path,
                line=number,
                hint="columns are separated by one tab each; `columns` names the source and the target column, from 1",
            )
        yield SentencePair(fields[src_column - 1].strip(), fields[tgt_column - 1].strip(), number)


def _check_beginning(raw: bytes, path: Path) -> None:
    if raw == UTF8_MARK:
        raise DataError("the file is empty", path=path, hint=ONE_SENTENCE_PER_LINE)
    if raw.startswith(_UTF16_MARKS):
        raise DataError(
            "this is UTF-16, not UTF-8", path=path, line=1, hint=_SAVE_AS_UTF8.replace("OLD-ENCODING", "UTF-16")
        )
    if raw.startswith(_GZIP_MARK) and path.suffix != ".gz":
        raise DataError("this is gzip data, but its name does not end in .gz", path=path, line=1, hint="rename it")


def _decode_line(raw: bytes, path: Path, number: int) -> str:
    if b"\0" in raw:
        hint = (
            "text files contain no NUL characters; this may be UTF-16 or a binary file. "
            + _SAVE_AS_UTF8[0].upper()
            + _SAVE_AS_UTF8[1:]
        )
        raise DataError(f"NUL character at byte {raw.index(0) + 1} of the line", path=path, line=number, hint=hint)
    try:
        return without_line_end(raw).decode("utf-8")
    except UnicodeDecodeError as error:
        message = f"not UTF-8: byte 0x{raw[error.start]:02X} at byte {error.start + 1} of the line"
        raise DataError(message, path=path, line=number, hint=_SAVE_AS_UTF8) from None
