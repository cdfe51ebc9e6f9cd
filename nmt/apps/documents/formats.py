"""Read, translate and write documents in the format given by their extension."""

from __future__ import annotations

import logging
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

from nmt.apps.documents.blocks import MAX_CHARACTERS, Block
from nmt.apps.documents.docx import DocxFile
from nmt.apps.documents.html import HtmlFile
from nmt.apps.documents.po import PoFile
from nmt.apps.documents.srt import SrtFile
from nmt.apps.documents.translation import BlockOptions, TranslatedBlock, translate_blocks
from nmt.apps.documents.xliff import XliffFile
from nmt.base.errors import DataError, require
from nmt.base.files import read_at_most, write_atomically
from nmt.base.languages import base_code
from nmt.translation import Translator

log = logging.getLogger(__name__)

MAX_BYTES = 50_000_000


class Document(Protocol):
    """A document in memory."""

    blocks: list[Block]  # those with words in them

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
    if package:
        require("documents", package, f"reading {Path(name).suffix} files", path=name)
    try:
        document = DocxFile(content, limit) if reader is DocxFile else reader(content)
        for number, block in enumerate(document.blocks, 1):
            if (size := sum(len(item.text) for item in block.items if not item.tag)) > MAX_CHARACTERS:
                message = f"paragraph {number:,} has {size:,} characters; the limit is {MAX_CHARACTERS:,}"
                raise DataError(message, line=block.line, hint="divide it into paragraphs")
        return document
    except DataError as error:
        raise DataError(error.message, path=name, line=error.line, hint=error.hint) from None


def open_document(path: Path) -> Document:
    """Return the document `path`. DataError if it cannot be read, or is larger than the limits."""
    try:
        content = read_at_most(path, MAX_BYTES)
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}", path=path) from None
    except ValueError as error:
        raise DataError(f"too large: {error}", path=path) from None
    return read_document(content, str(path))


def translate_file(
    translator: Translator,
    document: Document,
    source: Path,
    output: Path,
    options: BlockOptions,
    advance: Callable[[int], None],
) -> list[tuple[int | None, TranslatedBlock]]:
    """Translate a document into `output`, which appears only when complete.

    Calls `advance` with the number of blocks that have been translated since. Returns the faulty translations,
    with their lines in the source if they are known. Raises as `Translator.translate`.
    """
    tgt = translator.languages.direction(options.to, options.from_).tgt
    if isinstance(document, HtmlFile | PoFile | XliffFile):
        named = document.name_language(tgt)
        if named and base_code(named) != base_code(tgt):
            log.warning("%s asks for translations into %s; this model translates into %s", source, named, tgt)
    written, faulty = [], []
    translations = translate_blocks(translator, document.blocks, options)
    for block, translated in zip(document.blocks, translations, strict=True):
        written.append(translated.written[0])
        if translated.flags or translated.terms_missed:
            faulty.append((block.line, translated))
        advance(1)
    content = document.save(written)
    with write_atomically(output) as partial:
        partial.write_bytes(content)
    return faulty
