"""Read and write documents that are zip archives of XML: Word, slides, OpenDocument, EPUB."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from io import BytesIO

from nmt.apps.documents.blocks import Document, Template, decode, encode
from nmt.apps.documents.markup import Reader, check_xml, descriptions, dialect, name_page_language
from nmt.apps.documents.runs import RunReader
from nmt.base.errors import DataError
from nmt.base.languages import script_of

MAX_BYTES = 200_000_000  # of all files, unpacked
_MIN_LIMIT = 400_000  # for documents from strangers; the styles alone may have 50,000 elements and attributes
_MAX_UNPACKED = 10  # times that limit, in bytes
_MIN_BYTES = 2  # of that limit, per element or attribute
_MAX_FILES = 10_000
_OLE = b"\xd0\xcf\x11\xe0"
_MANIFESTS = ("META-INF/manifest.xml", "META-INF/encryption.xml")
_OUTSIDE = re.compile(r"[/\\]|\Z|(?:[\s\S]*[/\\])?\.\.(?:[/\\]|\Z)")  # paths that lead out of the archive
_ENCRYPTED = re.compile(rb"encryption-data|CipherReference[^>]*\.(?:x?html?|xml|opf|ncx)\"")
# What names the language of a text, for the spelling checker, too; in Word, that of some scripts has another attribute.
_NAMED = r"<dc:language\b[^>]*>"
_OPEN_DOCUMENT = rf'(\sfo:language="|{_NAMED})[^"<]*("?(?:\sfo:country=")?)(?:(?<=country=")[^"]*)?'
_LANGUAGES = {
    ".docx": rf'(<w:lang\b[^>]*?\sw:{{}}="|{_NAMED})[^"<]*()',
    ".pptx": rf'(<a:(?:rPr|endParaRPr|defRPr)\b[^>]*?\slang="|{_NAMED})[^"<]*()',
    ".odt": _OPEN_DOCUMENT,
    ".odp": _OPEN_DOCUMENT,
    ".ods": _OPEN_DOCUMENT,
    ".epub": rf"({_NAMED})[^<]*()",
}
_ATTRIBUTES = {"Hani": "eastAsia", "Jpan": "eastAsia", "Kore": "eastAsia", "Arab": "bidi", "Hebr": "bidi"}


@contextmanager
def unpack(content: bytes, suffix: str, max_bytes: int = MAX_BYTES) -> Iterator[zipfile.ZipFile]:
    """Open an archive. DataError if it is none, is encrypted, too large when unpacked, or has names to mislead."""
    if content.startswith(_OLE):
        raise DataError("encrypted, or in an old format", hint=f"save it as {suffix}, without a password")
    try:
        with zipfile.ZipFile(BytesIO(content)) as archive:
            files = archive.infolist()
            if len(files) > _MAX_FILES or sum(file.file_size for file in files) > max_bytes:
                raise DataError(f"larger than {max_bytes:,} bytes when unpacked, or more than {_MAX_FILES:,} files")
            paths = {file.filename for file in files}
            if len(paths) < len(files) or any(map(_OUTSIDE.match, paths)):
                raise DataError("two of its files have one name, or a path leads out of it")
            manifests = [archive.read(path) for path in _MANIFESTS if path in paths]
            if any(file.flag_bits & 1 for file in files) or any(map(_ENCRYPTED.search, manifests)):
                raise DataError("encrypted", hint="save it without a password")
            yield archive
    except DataError:
        raise
    except Exception as error:  # zipfile and the compressions raise many types
        raise DataError(f"not a {suffix} file ({str(error)[:100]})") from None


def repack(content: bytes, changed: Mapping[str, bytes]) -> bytes:
    """Return the archive with the content of some files `changed`."""
    packed = BytesIO()
    with zipfile.ZipFile(BytesIO(content)) as source, zipfile.ZipFile(packed, "w") as target:
        for file in source.infolist():
            target.writestr(file, changed[file.filename] if file.filename in changed else source.read(file))
    return packed.getvalue()


def read_archive(content: bytes, suffix: str, limit: int) -> Document:
    """Read a document of XML files; all files without text stay as they are.

    DataError as `unpack`, and if its XML cannot be read. `limit`, in bytes, is for documents from strangers: it keeps
    the memory that a small file can take within a multiple of it. The language of the translation is named in the pages
    and the description of a book, and for spellers.
    """
    limit = max(limit, _MIN_LIMIT)
    max_bytes = min(MAX_BYTES, _MAX_UNPACKED * limit)
    kinds = descriptions()[suffix].items()
    with unpack(content, suffix, max_bytes) as archive:
        found = {name: kind for name in archive.namelist() for path, kind in kinds if re.fullmatch(path, name)}
        files = {name: archive.read(name) for name in found}
    if not {*found.values()} - {"properties"}:
        raise DataError(f"not a {suffix} file: it lacks the files that hold the text of this format")
    # About the number of elements and attributes; each takes 100 bytes of memory or more.
    sizes = (xml.count(b"<") - xml.count(b"</") + xml.count(b"=") for xml in files.values())
    if sum(sizes) > limit // _MIN_BYTES:
        raise DataError(f"more than {limit // _MIN_BYTES:,} elements and attributes")

    def name_language(template: Template, code: str) -> None:
        named = _LANGUAGES[suffix].format(_ATTRIBUTES.get(script_of(code) or "", "val"))
        template.finish = partial(re.sub, named, rf"\g<1>{code}\g<2>")
        name_page_language(template, code)

    def write(texts: list[str]) -> bytes:
        return repack(content, {name: encode(text, files[name]) for name, text in zip(files, texts, strict=True)})

    return Document([_read(name, xml, found[name], max_bytes) for name, xml in files.items()], write, name_language)


def _read(name: str, content: bytes, kind: str, limit: int) -> Template:
    template = Template()
    form = dialect(kind)
    try:
        text = decode(content)
        if not form.is_html:
            check_xml(text)
        if form.run_text:
            RunReader(text, form, template, limit)
        else:
            Reader(text, form, template)
    except DataError as error:
        raise DataError(f"{name}: {error.message}") from None
    return template
