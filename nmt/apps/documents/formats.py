"""Read and write documents in the format given by their extension."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

from nmt.apps.documents import po, strings, xliff
from nmt.apps.documents.archives import read_archive
from nmt.apps.documents.blocks import MAX_CHARACTERS, Document, Template, decode, encode
from nmt.apps.documents.markdown import read_markdown
from nmt.apps.documents.markup import Reader, check_xml, dialect, encoding_of_page, name_page_language
from nmt.apps.documents.plain import Lines, read_text
from nmt.apps.documents.subtitles import read_subtitles
from nmt.apps.documents.tables import read_table
from nmt.base.errors import DataError, require
from nmt.base.files import read_at_most, write_atomically
from nmt.base.languages import base_code

log = logging.getLogger(__name__)

MAX_BYTES = 50_000_000


class _Format(NamedTuple):
    """A format of one file: how it is read, where it names its language, its encoding."""

    read: Callable[[str, Template], object]
    name_language: Callable[[Template, str], str | None] = lambda template, code: None
    encoding_of: Callable[[bytes], str] = lambda content: ""
    is_utf8: bool = False  # when written


def _naming(pattern: str) -> Callable[[Template, str], None]:
    """Return a function that names the language behind what the group of `pattern` matches, if it names one."""

    def name_language(template: Template, code: str) -> None:
        template.text = re.sub(pattern, rf"\g<1>{code}", template.text, count=1)

    return name_language


_ARCHIVES = (".docx", ".epub", ".odp", ".ods", ".odt", ".pptx")
_HTML = _Format(
    lambda text, template: Reader(text, dialect("html"), template), name_page_language, encoding_of=encoding_of_page
)
_CATALOG = _Format(po.read_po, po.name_language, encoding_of=po.encoding_of, is_utf8=True)
_MARKDOWN = _Format(
    read_markdown,
    _naming(r"""(\A---[ \t]*\r?\n(?:(?!---)[^\n]*\n)*?lang:[ \t]*["']?)[a-z]{2,3}(?:-\w+)*(?=["']?[ \t\r]*\n)"""),
)
_BY_ITS_ROOT = _Format(lambda text, template: None)  # of a kind that the root element tells
_BY_ROOT = {
    "resources": _Format(strings.read_android),
    "svg": _Format(lambda text, template: Reader(text, dialect("svg"), template), name_page_language),
    "xliff": _Format(xliff.read_xliff, xliff.name_language),
}
_FORMATS = {
    ".arb": _Format(strings.read_json, _naming(r'("@@locale"\s*:\s*")[^"]*')),
    ".htm": _HTML,
    ".html": _HTML,
    ".json": _Format(strings.read_json),
    **dict.fromkeys((".markdown", ".md", ".mdx", ".qmd", ".rmd"), _MARKDOWN),
    ".po": _CATALOG,
    ".pot": _CATALOG,
    ".srt": _Format(read_subtitles),
    ".txt": _Format(read_text),
    ".vtt": _Format(read_subtitles, _naming(r"(\AWEBVTT[^\n]*\n(?:[^\s][^\n]*\n)*?Language:[ \t]*)[\w-]+")),
    **dict.fromkeys((".mqxliff", ".mxliff", ".sdlxliff", ".svg", ".xlf", ".xliff", ".xml"), _BY_ITS_ROOT),
}


def _read_file(content: bytes, form: _Format) -> Document:
    template = Template()
    text = decode(content, form.encoding_of(content))
    if form is _BY_ITS_ROOT:
        root = check_xml(text)
        if root not in _BY_ROOT:
            raise DataError(f"not a known format: it starts with <{root[:50]}>, not <resources>, <svg> or <xliff>")
        form = _BY_ROOT[root]
    form.read(text, template)
    like = content[:3] if form.is_utf8 else content  # all that may be a byte order mark
    return Document([template], lambda texts: encode(texts[0], like, form.encoding_of(like)), form.name_language)


def available_suffixes() -> list[str]:
    """Return the extensions of the documents that are read without a further choice, and written in their format."""
    return sorted([*_FORMATS, *_ARCHIVES])


def read_document(
    content: bytes, name: str, limit: int = MAX_BYTES, column: str = "", lines: Lines | None = None
) -> Document:
    """Return the document in `content`, in the format given by the extension of `name`.

    `limit` is the maximum size in bytes of an untrusted document; `read_archive` derives others from it.
    `column` is that of a table, as in `read_table`; `lines` says what the lines of plain text are, as in `read_text`.
    DataError if the content is not in that format, or has no such lines; NmtError if a package is missing.
    """
    suffix = Path(name).suffix.lower()
    try:
        is_page = suffix == ".pdf"
        if lines is not None and (column or not (is_page or suffix == ".txt")):
            raise DataError("lines are kept or joined in .txt and .pdf documents only")
        if column:
            document = read_table(content, name, column)
        elif suffix in _ARCHIVES:
            document = read_archive(content, suffix, limit)
        elif is_page or lines:
            text = _pdf_text(content, name) if is_page else content
            document = _read_file(text, _Format(partial(read_text, is_page=is_page, lines=lines)))
        else:
            document = _read_file(content, _FORMATS[suffix])
        for number, block in enumerate(document.blocks, 1):
            if (size := len(block.plain())) > MAX_CHARACTERS:
                raise DataError(
                    f"paragraph {number:,} has {size:,} characters; the limit is {MAX_CHARACTERS:,}",
                    line=block.line,
                    hint="divide it into paragraphs",
                )
        return document
    except DataError as error:
        raise DataError(error.message, path=name, line=error.line, hint=error.hint) from None


def _pdf_text(content: bytes, name: str) -> bytes:
    """Return the text of a PDF file, which is all that is kept of it."""
    pypdf = require("documents", "pypdf", "reading .pdf files", path=name)
    try:
        pages = [page.extract_text() for page in pypdf.PdfReader(BytesIO(content)).pages]
    except Exception as error:  # pypdf raises many types
        raise DataError(f"not a PDF file that can be read ({str(error)[:100]})") from None
    return "\n\n".join(pages).replace("\0", "").encode("utf-8", "replace")


def open_document(path: Path, column: str = "", lines: Lines | None = None) -> Document:
    """Return the document `path`; of a table, its `column`. DataError if it cannot be read, or exceeds the limits.

    `lines` as in `read_document`.
    """
    try:
        content = read_at_most(path, MAX_BYTES)
    except (OSError, ValueError) as error:  # missing, for example, or too large
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"cannot be read: {reason}", path=path) from None
    return read_document(content, str(path), column=column, lines=lines)


def save_document(document: Document, written: list[str], tgt: str, source: Path, output: Path) -> None:
    """Write the translation of the document `source` into the language `tgt`, and warn if it asks for another one.

    `output` appears only when complete.
    """
    named = document.name_language(tgt)
    if named and base_code(named) != base_code(tgt):
        log.warning("%s asks for translations into %s; this model translates into %s", source, named, tgt)
    with write_atomically(output) as partial:
        partial.write_bytes(document.content_with(written))
