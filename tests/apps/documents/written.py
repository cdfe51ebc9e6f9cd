"""Write documents with known translations."""

from __future__ import annotations

from nmt.apps.documents.formats import read_document


def upper(content: bytes, name: str, column: str = "") -> bytes:
    """Write a document whose translation is its text in brackets."""
    document = read_document(content, name, column=column)
    return document.save([block.from_texts([f"[{text}]" for text in block.texts()]) for block in document.blocks])


def unchanged(content: bytes, name: str) -> bytes:
    """Write a document that is translated by the identity."""
    document = read_document(content, name)
    return document.save([block.from_texts(block.texts()) for block in document.blocks])
