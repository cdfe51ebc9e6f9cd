"""Decode the bytes of a document to text, and encode them again."""

from __future__ import annotations

import codecs

from nmt.base.errors import DataError


def decode(content: bytes) -> str:
    """Return the text of a file in UTF-8, or in UTF-16 with a byte order mark. DataError for other encodings."""
    encoding = "utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        return content.decode(encoding).replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise DataError("neither UTF-8 nor UTF-16", hint="convert it: iconv -f ENCODING -t UTF-8") from None


def encode(text: str, like: bytes) -> bytes:
    """Return `text` in UTF-8, with the byte order mark and the line ends of the file content `like`.

    The line ends are those of its first line. UTF-16 becomes UTF-8 without a mark.
    """
    first_line = like.split(b"\n", 1)[0].rstrip(b"\0")  # in UTF-16 a zero byte is beside the CR
    mark = codecs.BOM_UTF8 if like.startswith(codecs.BOM_UTF8) else b""
    return mark + (text.replace("\n", "\r\n") if first_line.endswith(b"\r") else text).encode()
