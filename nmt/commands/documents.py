"""Translate documents on the command line: `nmt translate report.docx -o out.docx`."""

from __future__ import annotations

import logging
import shlex
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from nmt.commands.outputs import refuse_replacing
from nmt.config import SearchOptions

if TYPE_CHECKING:
    from nmt.data.glossary import Glossary
    from nmt.translate import Translator

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
    file that is not a document.
    """
    if len(texts) != 1 or not texts[0].lower().endswith(SUFFIXES) or not _is_file(texts[0]):
        _refuse_files(texts)
        return None
    source = Path(texts[0])
    if output is None or output.suffix.lower() != source.suffix.lower():
        raise typer.BadParameter(f"{source} is a document: name its translation with --output NAME{source.suffix}")
    if given := [name for name, value in for_texts.items() if value]:
        raise typer.BadParameter(f"{', '.join(given)} cannot be used with documents")
    refuse_replacing([output], [source])
    return DocumentPaths(source, output)


def _refuse_files(texts: list[str]) -> None:
    """Raise typer.BadParameter if a text is the name of a file: nmt would translate the name, not the contents."""
    for text in texts:
        if Path(text).suffix and _is_file(text):
            is_document = text.lower().endswith(SUFFIXES)
            hint = "give one document at a time" if is_document else f"--input {shlex.quote(text)} translates its lines"
            raise typer.BadParameter(f"{text} is a file, not a text: {hint}")


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
    from nmt.documents.formats import translate_file
    from nmt.documents.translation import Wanted

    found = translate_file(translator, paths.source, paths.output, Wanted(options, to, from_, glossary))
    log.info("%s: %s paragraphs, cells or lines translated", paths.output, f"{found.num_blocks:,}")
    for term, count in Counter(found.terms_missed).most_common(_MAX_LISTED):
        log.warning("%s: glossary term missing in the translation: %s (%d times)", paths.output, term, count)
