"""Translate with a translation memory: texts that it has are not translated, similar ones serve as drafts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from nmt.translation.request import Request
from nmt.translation.translation import Translation
from nmt.translation.translator import Blocks, TranslatedBlock, Translator

if TYPE_CHECKING:
    from nmt.translation.memory import TranslationMemory  # with numpy, which few commands need


class MemoryTranslator:
    """A translator with a memory. It translates blocks as `Translator` does."""

    def __init__(self, translator: Translator, memory: TranslationMemory):
        self._translator, self.memory = translator, memory
        self.languages, self.options, self.tokenizers = translator.languages, translator.options, translator.tokenizers
        self.precision, self.max_src_len = translator.precision, translator.max_src_len

    def translate_blocks(self, blocks: Blocks, request: Request, first: int = 1) -> Iterator[TranslatedBlock]:
        """Yield each of `blocks` with its translations, as `Translator.translate_blocks` does."""
        for block in blocks:
            yield block, self.translate_block(block, request, first)
            first += len(block)

    def translate_block(self, texts: list[str], request: Request, first: int) -> list[Translation]:
        """Return the targets of the `texts` that are in the memory, and the translations of the others.

        The target of a similar source is the draft of a translation.
        """
        matches = [self.memory.find(text) for text in texts]
        new = [
            (text, match) for text, match in zip(texts, matches, strict=True) if not (match and match.similarity == 1)
        ]
        segmented = self._translator.segment([text for text, _ in new], request, first)
        for text, (_, match) in zip(segmented, new, strict=True):
            if match:
                self._translator.segmenter.add_draft(text, match.target, request.options)
        rest = iter(self._translator.translate_segmented(segmented, request))
        return [
            Translation(match.target, memory=match)
            if match and match.similarity == 1
            else replace(next(rest), memory=match)
            for match in matches
        ]
