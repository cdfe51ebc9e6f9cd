"""Read the sentence pairs of corpora, one at a time; every error in the text names its file and line.

Text is UTF-8, with or without a byte order mark, plain or compressed (by extension: `.gz`, `.bz2`, `.xz`, `.zst`).
White space around a sentence is stripped. `nmt/data/read/formats` has a module for each format of a file with both
languages.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from nmt.base.errors import DataError
from nmt.base.languages import Direction
from nmt.config.base import Characters
from nmt.config.corpora import DATA_SETS, FORMATS, ParallelFiles
from nmt.data.read.formats.records import Record
from nmt.data.read.lines import read_lines
from nmt.data.read.table_names import corpus_named
from nmt.data.text.characters import AS_READ, AS_WRITTEN

if TYPE_CHECKING:
    from nmt.config import DataConfig


class SentencePair(NamedTuple):
    """A source sentence, its translation, and their location: the line (from 1) and the corpus of the set (from 0).

    Either side may be empty. In an XML file, the line is that of the unit; in a workbook, it is the row.
    """

    src: str
    tgt: str
    line: int
    corpus: int = 0

    def swapped(self) -> SentencePair:
        """Return the pair with its sides exchanged."""
        return self._replace(src=self.tgt, tgt=self.src)


def paths_of(files: ParallelFiles | Sequence[ParallelFiles]) -> list[Path]:
    """Return the text files of a set: for each corpus, source and target, or one file."""
    corpora = (files,) if isinstance(files, ParallelFiles) else files
    names = (getattr(corpus, key) for corpus in corpora for key in ("src", "tgt", *FORMATS))
    return [Path(name) for name in names if name is not None]


def all_paths(data: DataConfig) -> list[Path]:
    """Return the text files of all sets, and that of one side."""
    of_sets = [path for name in DATA_SETS for path in paths_of(data.corpora(name))]
    return [*of_sets, Path(data.mono_tgt)] if data.mono_tgt else of_sets


def path_of(corpora: Sequence[ParallelFiles], pair: SentencePair) -> Path:
    """Return the file that `pair.line` refers to; for two aligned files, the source file."""
    return paths_of(corpora[pair.corpus])[0]


def read_parallel(
    files: ParallelFiles | Sequence[ParallelFiles], characters: Characters = "as_written"
) -> Iterator[SentencePair]:
    """Yield the pairs of one or several corpora, in order, with both sides stripped of white space.

    `characters` is that of `data`. A blank row yields a pair with one or two empty sides; the caller drops and counts
    it. Raises DataError as the reader of each format does: if a file is a pipe, if aligned files have different
    lengths, if a row lacks a column or a field, or if a file does not have the languages. A tmx needs `src_lang` and
    `tgt_lang`, which `DataConfig.corpora` fills in; ConfigError if they are missing.
    """
    corpora = (files,) if isinstance(files, ParallelFiles) else tuple(files)
    refuse_pipes(paths_of(corpora))
    return _pairs(corpora, characters)


def _pairs(corpora: Sequence[ParallelFiles], characters: Characters) -> Iterator[SentencePair]:
    read, written = (AS_READ, AS_WRITTEN) if characters == "normalized" else (str, str)
    return (
        SentencePair(read(src).strip(), written(tgt).strip(), line, index)
        for index, corpus in enumerate(corpora)
        for src, tgt, line in read_records(corpus)
    )


def read_records(corpus: ParallelFiles) -> Iterator[Record]:
    """Yield the records of `corpus` as they are written; DataError as `read_parallel`.

    The reader of a format is imported when a file has it: most corpora are plain text, and XML alone takes 8 ms.
    """
    match corpus.form:
        case "tsv":
            from nmt.data.read.formats.delimited import read_tsv as read
        case "csv":
            from nmt.data.read.formats.delimited import read_csv as read
        case "xlsx":
            from nmt.data.read.formats.xlsx import read_xlsx as read
        case "jsonl":
            from nmt.data.read.formats.jsonl import read_jsonl as read
        case "tmx":
            from nmt.data.read.formats.tmx import read_tmx as read
        case _:
            read = _read_aligned
    return read(corpus, paths_of(corpus)[0])


def read_named(name: str, direction: Direction) -> Iterator[SentencePair]:
    """Yield the pairs of a file with both languages named as on a command line (`corpus_named`), by default a tsv.

    It is read as a corpus is whose `data.characters` is normalized, but once, so it may be a pipe. Raises DataError as
    `read_parallel` does.
    """
    languages = {"src_lang": direction.src, "tgt_lang": direction.tgt}
    return _pairs([corpus_named(name, usual="tsv").model_copy(update=languages)], "normalized")


def refuse_pipes(paths: Iterable[Path]) -> None:
    """Raise DataError if one of `paths` is a pipe or a device, because nmt reads a corpus several times, to its end.

    Missing files and folders pass.
    """
    for path in paths:
        if os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path)):
            raise DataError(
                "this is a pipe or a device; a file is needed",
                path=path,
                hint="a pipe can be read only once, but nmt reads a corpus several times; write it to a file",
            )


def _read_aligned(files: ParallelFiles, path: Path) -> Iterator[Record]:
    tgt_path = paths_of(files)[1]
    with closing(read_lines(path)) as src_lines, closing(read_lines(tgt_path)) as tgt_lines:
        for number, (src, tgt) in enumerate(zip_longest(src_lines, tgt_lines), start=1):
            if src is None or tgt is None:
                longer = number + sum(1 for _ in (src_lines if tgt is None else tgt_lines))
                num_src, num_tgt = (longer, number - 1) if tgt is None else (number - 1, longer)
                raise DataError(
                    f"{num_src} source lines (in {path}) but {num_tgt} target lines",
                    path=tgt_path,
                    line=number,
                    hint="line n of one file must translate line n of the other; check from this line on",
                )
            yield src.strip(), tgt.strip(), number
