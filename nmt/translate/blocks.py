"""Translate long streams of texts block by block, with the same results wherever the stream is taken up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple, Protocol

from nmt.config import SearchOptions
from nmt.data.glossary import Glossary
from nmt.data.tokenizer import TokenizerPair
from nmt.translate.languages import LanguagePair
from nmt.translate.stream import grow_blocks
from nmt.translate.translation import Translation
from nmt.translate.translator import Translator


class Request(NamedTuple):
    """The options that hold for all texts of a stream."""

    options: SearchOptions
    prefix: str | None = None  # what every translation begins with
    to: str | None = None
    from_: str | None = None
    draw_by_line: bool = False  # in sampling: equal texts on other lines get other samples
    glossary: Glossary | None = None


TranslatedBlock = tuple[list[str], list[Translation]]
"""Texts, and the translation of each."""


class BlockTranslator(Protocol):
    """A translator of blocks of texts: in this process, or in others."""

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
        """Yield each of `blocks` with its translations; take the next block when the one before is used."""
        for block in blocks:
            yield block, translate_block(self._translator, block, request, first)
            first += len(block)


def translate_block(translator: Translator, texts: list[str], request: Request, first: int) -> list[Translation]:
    """Translate `texts`, which are the lines from number `first` on."""
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
    """Yield each of `texts` with its translation, in order; memory holds some blocks of texts.

    To take up a stream after n texts, pass the texts after them and `first` = n + 1: they get the translations that
    they have in the whole stream.
    """
    blocks = translator.translate_blocks(grow_blocks(texts), request, first)
    return chain.from_iterable(zip(block, translations, strict=True) for block, translations in blocks)
