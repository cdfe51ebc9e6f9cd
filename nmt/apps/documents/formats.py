"""Read, translate and write documents in the format given by their extension."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple, Protocol

from nmt.apps.documents.blocks import MAX_CHARACTERS, Block
from nmt.apps.documents.docx import DocxFile
from nmt.apps.documents.flags import Flags
from nmt.apps.documents.html import HtmlFile
from nmt.apps.documents.po import PoFile
from nmt.apps.documents.srt import SrtFile
from nmt.apps.documents.translation import Wanted, translate_blocks
from nmt.apps.documents.xliff import XliffFile
from nmt.base.errors import DataError, NmtError, how_to_install
from nmt.base.files import read_at_most, write_atomically
from nmt.base.languages import base_code
from nmt.data.text.glossary import Term
from nmt.translation import Translator

log = logging.getLogger(__name__)

MAX_BYTES = 50_000_000


class Document(Protocol):
    """A document in memory."""

    @property
    def blocks(self) -> list[Block]:
        """The blocks with words in them."""
        ...

    def save(self, translations: list[str]) -> bytes:
        """Return the document with `translations` of its blocks."""
        ...


_READERS: dict[str, tuple[Callable[[bytes], Document], str]] = {
    ".docx": (DocxFile, "docx"),
    ".htm": (HtmlFile, ""),
    ".html": (HtmlFile, ""),
    ".po": (PoFile, "polib"),
    ".srt": (SrtFile, "srt"),
    ".xlf": (XliffFile, "lxml"),
    ".xliff": (XliffFile, "lxml"),
}


def available_suffixes() -> list[str]:
    """Return the extensions of the documents that the installed packages can read."""
    return [suffix for suffix, (_, package) in _READERS.items() if not package or find_spec(package) is not None]


def read_document(content: bytes, name: str, limit: int = 0) -> Document:
    """Return the document in `content`, in the format given by the extension of `name`.

    `limit` is the maximum size in bytes of documents from strangers; `DocxFile` derives others from it. 0: no limit.
    DataError if it is not in that format; NmtError if a package is missing.
    """
    reader, package = _READERS[Path(name).suffix.lower()]
    if package and find_spec(package) is None:
        hint = how_to_install("documents")
        raise NmtError(f"reading {Path(name).suffix} files needs the package {package}", path=name, hint=hint)
    try:
        document = DocxFile(content, limit) if reader is DocxFile else reader(content)
        _refuse_long(document.blocks)
        return document
    except DataError as error:
        raise DataError(error.message, path=name, line=error.line, hint=error.hint) from None


def _refuse_long(blocks: Sequence[Block]) -> None:
    """Raise DataError if a block has more than a million characters."""
    for number, block in enumerate(blocks, 1):
        if block.num_characters > MAX_CHARACTERS:
            message = f"paragraph {number:,} has {block.num_characters:,} characters; the limit is {MAX_CHARACTERS:,}"
            raise DataError(message, line=block.line, hint="divide it into paragraphs")


def open_document(path: Path) -> Document:
    """Return the document `path`. DataError if it cannot be read, or is larger than the limits."""
    try:
        content = read_at_most(path, MAX_BYTES)
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}", path=path) from None
    except ValueError as error:
        raise DataError(f"too large: {error}", path=path) from None
    return read_document(content, str(path))


class BlockReport(NamedTuple):
    """The faults of the translation of a block; `line` is its line in the source, if known."""

    line: int | None
    flags: Flags
    terms_missed: Sequence[Term]


class DocumentFile(NamedTuple):
    """A document, the file it was read from, and the file for its translation."""

    document: Document
    source: Path
    output: Path


def translate_file(
    translator: Translator, file: DocumentFile, wanted: Wanted, advance: Callable[[int], None]
) -> list[BlockReport]:
    """Translate a document into its output, which appears only when complete; report what is wrong with its blocks.

    Calls `advance` with the number of blocks that have been translated since. Raises as `Translator.translate`.
    """
    document, path, output = file
    _name_language(document, path, translator.languages.direction(wanted.to, wanted.from_).tgt)
    blocks, written, reports = document.blocks, [], []
    for block, found in zip(blocks, translate_blocks(translator, blocks, wanted), strict=True):
        written.append(found.written[0])
        if found.flags or found.terms_missed:
            reports.append(BlockReport(block.line, found.flags, found.terms_missed))
        advance(1)
    translated = document.save(written)
    with write_atomically(output) as partial:
        partial.write_bytes(translated)
    return reports


def _name_language(document: Document, path: Path, tgt: str) -> None:
    """Name the language of the translations in an HTML, PO or XLIFF file; warn if it asks for another language."""
    if isinstance(document, HtmlFile):
        document.name_language(tgt)
    elif isinstance(document, PoFile | XliffFile):
        asked = document.target_language
        if not asked:
            document.target_language = tgt
        elif base_code(asked) != base_code(tgt):
            log.warning("%s asks for translations into %s; this model translates into %s", path, asked, tgt)
