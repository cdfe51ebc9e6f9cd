"""Translate documents on the command line: `nmt translate report.docx -o out.docx`."""

from __future__ import annotations

import logging
import shlex
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from nmt.base.errors import DataError, counted
from nmt.base.progress import Progress
from nmt.config import SearchOptions
from nmt.data.read.table_names import format_of

if TYPE_CHECKING:
    from nmt.apps.documents.translation import TranslatedBlock
    from nmt.data.text.glossary import Glossary
    from nmt.translation import Translator

log = logging.getLogger(__name__)

SUFFIXES = (".docx", ".htm", ".html", ".po", ".srt", ".xlf", ".xliff")
_MAX_LISTED = 20  # missing terms


class DocumentPaths(NamedTuple):
    """A document, and the file for its translation."""

    source: Path
    output: Path


def document_in(texts: list[str], output: Path | None, for_texts: dict[str, object]) -> DocumentPaths | None:
    """Return the document that the only text of a command line names; None if it is a text.

    typer.BadParameter if `output` is not a suitable name, one of the options `for_texts` is given, or a text names a
    file that is not a document. DataError if there is no such document.
    """
    if len(texts) != 1 or not texts[0].lower().endswith(SUFFIXES) or not _is_file(texts[0]):
        _refuse_files(texts)
        _refuse_missing(texts, output)
        return None
    source = Path(texts[0])
    if output is None or output.suffix.lower() != source.suffix.lower():
        raise typer.BadParameter(f"{source} is a document: name its translation with --output NAME{source.suffix}")
    if given := [name for name, value in for_texts.items() if value]:
        raise typer.BadParameter(f"{', '.join(given)} cannot be used with documents")
    return DocumentPaths(source, output)


def _refuse_files(texts: list[str]) -> None:
    """Raise typer.BadParameter if a text is the name of a file: nmt would translate the name, not the contents."""
    for text in texts:
        if Path(text).suffix and _is_file(text):
            is_document = text.lower().endswith(SUFFIXES)
            hint = "give one document at a time" if is_document else f"--input {shlex.quote(text)} translates its lines"
            raise typer.BadParameter(f"{text} is a file, not a text: {hint}")


def _refuse_missing(texts: list[str], output: Path | None) -> None:
    """Raise DataError if a text can only be the name of a document that does not exist."""
    for text in texts:
        suffix = Path(text).suffix.lower()
        into_document = output is not None and output.suffix.lower() == suffix
        if suffix in SUFFIXES and (into_document or not any(map(str.isspace, text))):
            raise DataError("no such file", path=text, hint=f"paths are relative to {Path.cwd()}")


def refuse_corpus(path: Path) -> None:
    """Raise DataError if the extension of a text file says that it has other columns, fields or markup than the text.

    Only warn of a document, whose markup would be translated, too.
    """
    name, suffix = shlex.quote(str(path)), path.suffix.lower()
    if suffix in SUFFIXES:
        again = f"nmt translate {name} --output NAME{path.suffix} keeps its format"
        log.warning("%s: this document is translated line by line, markup included; %s", path, again)
    elif (form := format_of(path.name)) is not None:
        how = {".tsv": f", such as: cut -f 1 {name} > NAME.txt", ".jsonl": f", such as: jq -r .src {name} > NAME.txt"}
        hint = f"write the texts to translate into a file with one per line{how.get(suffix, '')}"
        raise DataError(f"a {form} file is not plain text with one sentence per line", path=path, hint=hint)


def _is_file(name: str) -> bool:
    try:
        return Path(name).is_file()
    except (OSError, ValueError):  # too long for a name
        return False


def translate_document(
    translator: Translator,
    paths: DocumentPaths,
    options: SearchOptions,
    to: str | None,
    from_: str | None,
    glossary: Glossary | None,
) -> None:
    """Translate a document."""
    from nmt.apps.documents.formats import open_document, translate_file
    from nmt.apps.documents.translation import BlockOptions

    document = open_document(paths.source)
    on_terminal = sys.stderr.isatty()
    total = len(document.blocks)
    with Progress(total=total, bar=on_terminal, log_lines=not on_terminal, unit="paragraphs") as progress:
        block_options = BlockOptions(options, to, from_, glossary)
        faulty = translate_file(translator, document, *paths, block_options, progress.add)
    log.info("%s: %s paragraphs, cells or lines translated", paths.output, f"{total:,}")
    for term, count in Counter(term for _, each in faulty for term in each.terms_missed).most_common(_MAX_LISTED):
        log.warning("%s: glossary term missing in the translation: %s (%d times)", paths.output, term, count)
    _warn_of_flags(paths, faulty)


def _warn_of_flags(paths: DocumentPaths, faulty: Sequence[tuple[int | None, TranslatedBlock]]) -> None:
    """Warn of each flag once, with what is missing, and with lines of the source if they are known."""
    from nmt.apps.documents.translation import FLAGS, merge

    for name, meaning in FLAGS.items():
        flagged = [(line, each) for line, each in faulty if name in each.flags]
        if not flagged:
            continue
        lines = sorted({line for line, _ in flagged if line is not None})[:_MAX_LISTED]
        where = f" (line{'s' * (len(lines) > 1)} {', '.join(map(str, lines))} of {paths.source})" if lines else ""
        value = merge([each.flags for _, each in flagged])[name]
        what = f": {', '.join(value[:_MAX_LISTED])}" if isinstance(value, list) else ""
        log.warning("%s: %s: %s%s%s", paths.output, counted(len(flagged), "paragraph"), meaning, what, where)
