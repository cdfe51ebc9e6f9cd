"""The bytes of a document as text."""

from __future__ import annotations

from nmt.errors import DataError


def decode(content: bytes) -> str:
    """Return the text of a file in UTF-8, or in UTF-16 with its mark. DataError if it is in another encoding."""
    encoding = "utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        return content.decode(encoding).replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise DataError("neither UTF-8 nor UTF-16", hint="convert it: iconv -f ENCODING -t UTF-8") from None
