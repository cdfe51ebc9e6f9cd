"""Translate documents on the command line: `nmt translate report.docx -o out.docx`."""

from __future__ import annotations

import logging
import os
import shlex
import sys
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from nmt.base.errors import DataError, counted
from nmt.base.patterns import lazy_pattern
from nmt.base.progress import Progress
from nmt.data.read.table_names import format_of, split_choice

if TYPE_CHECKING:
    from nmt.apps.documents.plain import Lines
    from nmt.translation.chain import Chain
    from nmt.translation.request import Request

log = logging.getLogger(__name__)

_TABLES = (".csv", ".tsv", ".xlsx")
SUFFIXES = (
    ".arb", ".docx", ".epub", ".htm", ".html", ".json", ".markdown", ".md", ".mdx", ".mqxliff", ".mxliff", ".odp",
    ".ods", ".odt", ".pdf", ".po", ".pot", ".pptx", ".qmd", ".rmd", ".sdlxliff", ".srt", ".svg", ".txt", ".vtt", ".xlf",
    ".xliff", ".xml",
)  # fmt: skip
_ALL_SUFFIXES = (*SUFFIXES, *_TABLES)
_NO_TEXT = (".docx", ".epub", ".odp", ".ods", ".odt", ".pdf", ".pptx", ".xlsx")
_FILE_NAME = lazy_pattern(r"\S+\.(?:[a-z][a-z0-9]{0,4}|[A-Z]{3,4})")
MAX_LISTED = 20  # lines, and parts of texts, in a warning


def is_document(texts: Sequence[str]) -> bool:
    """Return whether the only text of a command line names a document, or a column of a table."""
    name = split_choice(texts[0])[0] if len(texts) == 1 else ""
    return name.lower().endswith(_ALL_SUFFIXES) and os.path.isfile(name)


def document_in(texts: list[str], output: Path | None, *, as_json: bool) -> tuple[Path | None, str]:
    """Return the document that the only text of a command line names, and the column of a table; None if it is a text.

    typer.BadParameter if `output` is not a suitable name (with `as_json`, any is), or a text names a file that is not a
    document: nmt would translate the name. DataError if there is no such document.
    """
    if is_document(texts):
        name, column = split_choice(texts[0])
        source = Path(name)
        suffix = ".txt" if source.suffix.lower() == ".pdf" else source.suffix
        if name.lower().endswith(_TABLES) and not column:
            again = shlex.quote(f"{name}#2")
            raise typer.BadParameter(f"{name} is a table; name the column to translate: nmt translate {again}")
        if as_json and output is not None and output.suffix.lower() in _ALL_SUFFIXES:
            raise typer.BadParameter(f"--output {output}: --format jsonl writes JSON lines; name them NAME.jsonl")
        if not as_json and (output is None or output.suffix.lower() != suffix.lower()):
            kind = "of a PDF file, only the text is translated" if suffix != source.suffix else "is a document"
            raise typer.BadParameter(f"{name}: {kind}: name its translation with --output NAME{suffix}")
        return source, column or ""
    for text in texts:
        name = split_choice(text)[0]
        suffix = Path(name).suffix.lower()
        is_known = suffix in _ALL_SUFFIXES
        if (suffix or os.sep in name) and os.path.exists(name):  # a word may be the name of a file, too
            kept = "to keep its form, save or convert it as .docx, .html, .md, .po, .pptx, .srt or .xlsx"
            command = f"--input {shlex.quote(name)} translates its lines, keys and markup included; {kept}"
            hint = "give one document at a time" if is_known else command
            if not os.path.isfile(name):
                raise typer.BadParameter(f"{name} is a folder, a pipe or a device: --input reads pipes and devices")
            raise typer.BadParameter(f"{name} is a file, not a text: {hint}")
        into_document = output is not None and output.suffix.lower() == suffix
        if is_known and (into_document or not any(map(str.isspace, text))):
            raise DataError("no such file", path=name, hint=f"paths are relative to {Path.cwd()}")
        if _FILE_NAME.fullmatch(text):  # of a kind that nmt does not know, or an address
            log.warning("%s: there is no such file; this is translated as a text", text)
    if output is not None and output.suffix.lower() in _NO_TEXT:
        raise typer.BadParameter(f"--output {output}: texts and lines are written as plain text; name a .txt file")
    return None, ""


def refuse_corpus(path: Path) -> None:
    """Raise DataError if the extension of a text file says that it has other columns, fields or markup than the text.

    Only warn of a document, whose markup would be translated, too.
    """
    name = shlex.quote(str(path))
    suffix = path.suffix.lower()
    if suffix in SUFFIXES and suffix != ".txt":
        again = f"nmt translate {name} --output NAME{path.suffix} keeps its format"
        log.warning("%s: this document is translated line by line, markup included; %s", path, again)
    elif (form := format_of(path.name)) is not None:
        hint = "write the texts to translate into a file with one per line"
        if suffix in _TABLES:
            hint += f"; nmt translate {shlex.quote(f'{path}#2')} --output NEW{suffix} translates column 2 of a table"
        raise DataError(f"a {form} file is not plain text with one sentence per line", path=path, hint=hint)


def read_paragraphs(source: Path, column: str, lines: Lines | None, records: deque[dict[str, object]]) -> Iterator[str]:
    """Yield the texts of a document, without their formatting; append each with its line, if known, to `records`."""
    from nmt.apps.documents.formats import open_document

    for block in open_document(source, column, lines).blocks:
        text = block.plain()
        records.append({"src": text, "line": block.line})
        yield text


def review_file(path: Path | None) -> Path | None:
    """Return the name of a list of translations. typer.BadParameter if its extension is no format of such a list."""
    if path is not None:
        from nmt.apps.documents.review import SUFFIXES as FORMATS  # only here: other translations need no documents

        if path.suffix.lower() not in FORMATS:
            raise typer.BadParameter(f"{path}: the list of translations is one of {', '.join(FORMATS)}")
    return path


def translate_document(
    chain: Chain,
    source: Path,
    column: str,
    lines: Lines | None,
    output: Path,
    request: Request,
    review: Path | None = None,
    reviewed: Path | None = None,
) -> None:
    """Translate a document, and warn of each flag of its paragraphs once, with lines of the source if known.

    `review` is a list of the translations to write. `reviewed` is such a list, of which the translations are taken.
    """
    from nmt.apps.documents.formats import open_document, save_document
    from nmt.apps.documents.review import entry_of, read_reviewed, write_review
    from nmt.apps.documents.translation import translate_blocks, with_parts
    from nmt.translation.translation import union

    document = open_document(source, column, lines)
    direction = chain.languages.direction(request.to, request.from_)
    if reviewed is not None:
        written = read_reviewed(reviewed.read_bytes(), reviewed, document.blocks)
        save_document(document, written, direction.tgt, source, output)
        log.info(
            "%s: as in %s; the model translated nothing, and options of the search had no effect", output, reviewed
        )
        return
    on_terminal = sys.stderr.isatty()
    total = len(document.blocks)
    with Progress(total=total, bar=on_terminal, log_lines=not on_terminal, unit="paragraphs") as progress:
        translated = translate_blocks(chain, document.blocks, request)
        pairs = []
        for pair in zip(document.blocks, translated, strict=True):
            pairs.append(pair)
            progress.add(1)
        save_document(document, [each.written[0] for _, each in pairs], direction.tgt, source, output)
    if review is not None:
        write_review(review, [entry_of(number, *pair) for number, pair in enumerate(pairs, 1)], direction)
    log.info("%s: %s paragraphs, cells or lines translated", output, f"{total:,}")
    signs: defaultdict[str, list[tuple[int | None, list[str]]]] = defaultdict(list)
    for block, each in pairs:
        for sign, parts in each.signs.items():
            signs[sign].append((block.line, parts))
    for sign, found in signs.items():
        numbers = sorted({line for line, _ in found if line is not None})[:MAX_LISTED]
        where = f" ({source}:{', '.join(map(str, numbers))})" if numbers else ""
        said = with_parts(sign, union(*(parts for _, parts in found))[:MAX_LISTED])
        log.warning("%s: %s: %s%s", output, counted(len(found), "paragraph"), said, where)
