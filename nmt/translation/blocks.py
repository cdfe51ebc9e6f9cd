"""Translate long streams of texts block by block, with the same results wherever a stream is resumed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple, Protocol

from nmt.config import SearchOptions
from nmt.data.text.glossary import Glossary
from nmt.data.tokens.tokenizer import TokenizerPair
from nmt.translation.languages import LanguagePair
from nmt.translation.stream import grow_blocks
from nmt.translation.translation import Translation
from nmt.translation.translator import Translator


class Request(NamedTuple):
    """The options for all texts of a stream."""

    options: SearchOptions
    prefix: str | None = None  # the beginning of every translation
    to: str | None = None
    from_: str | None = None
    draw_by_line: bool = False  # in sampling: equal texts on different lines get different samples
    glossary: Glossary | None = None


TranslatedBlock = tuple[list[str], list[Translation]]
"""Texts, and their translations."""


class BlockTranslator(Protocol):
    """A translator of blocks of texts, in this process or in others."""

    tokenizers: TokenizerPair
    languages: LanguagePair
    options: SearchOptions  # the defaults of the model
    local: Translator | None  # the model, if it is in this process

    @property
    def precision(self) -> str:
        """The precision of the computation, such as fp32."""
        ...

    @property
    def max_src_len(self) -> int:
        """The maximum source length of the model in tokens, eos included."""
        ...

    def translate_blocks(
        self, blocks: Iterable[list[str]], request: Request, first: int = 1
    ) -> Iterator[TranslatedBlock]:
        """Yield each of `blocks` with its translations, in order. `first` is the line number of the first text."""
        ...


class LocalTranslator:
    """A translator of blocks in this process."""

    def __init__(self, translator: Translator):
        self.local: Translator | None = translator
        self._translator = translator
        self.tokenizers = translator.tokenizers
        self.languages = translator.languages
        self.options = translator.options
        self.precision = translator.precision
        self.max_src_len = translator.max_src_len

    def translate_blocks(
        self, blocks: Iterable[list[str]], request: Request, first: int = 1
    ) -> Iterator[TranslatedBlock]:
        """Yield each of `blocks` with its translations; take the next block only after the previous one is consumed."""
        for block in blocks:
            yield block, translate_block(self._translator, block, request, first)
            first += len(block)


def translate_block(translator: Translator, texts: list[str], request: Request, first: int) -> list[Translation]:
    """Translate `texts`, the lines from number `first` on."""
    return translator.translate(
        texts,
        request.options,
        [request.prefix] * len(texts) if request.prefix else None,
        to=request.to,
        from_=request.from_,
        draws=range(first, first + len(texts)) if request.draw_by_line else None,
        glossary=request.glossary,
    )


def translate_texts(
    translator: BlockTranslator, texts: Iterable[str], request: Request, first: int = 1
) -> Iterator[tuple[str, Translation]]:
    """Yield each of `texts` with its translation, in order; only a few blocks of texts are in memory.

    To resume a stream after n texts, pass the remaining texts and `first` = n + 1. Their translations are the same as
    in the whole stream.
    """
    blocks = translator.translate_blocks(grow_blocks(texts), request, first)
    return chain.from_iterable(zip(block, translations, strict=True) for block, translations in blocks)
