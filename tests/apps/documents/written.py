"""Write documents with known translations."""

from __future__ import annotations

import re

from nmt.apps.documents.blocks import Block
from nmt.apps.documents.formats import read_document


def upper(content: bytes, name: str, column: str = "") -> bytes:
    """Write a document whose translation is its text in brackets."""
    document = read_document(content, name, column=column)
    return document.content_with(
        [block.from_texts([f"[{text}]" for text in block.texts()]) for block in document.blocks]
    )


def capitals(content: bytes, name: str, column: str = "") -> bytes:
    """Write a document that is translated into capitals, with all tags where they are."""
    document = read_document(content, name, column=column)
    return document.content_with([in_capitals(block) for block in document.blocks])


def in_capitals(block: Block) -> str:
    """Return a block in capitals."""
    parts = re.split(r"(\{h\d+\})", block.with_marks())
    written = block.from_marks("".join(part if n % 2 else part.upper() for n, part in enumerate(parts)))
    return block.from_texts([text.upper() for text in block.texts()]) if written is None else written


def unchanged(content: bytes, name: str) -> bytes:
    """Write a document that is translated by the identity."""
    document = read_document(content, name)
    return document.content_with([block.from_texts(block.texts()) for block in document.blocks])
