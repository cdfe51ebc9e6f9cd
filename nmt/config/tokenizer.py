"""The section `tokenizer`: vocabularies."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from nmt.config.base import Count, Section
from nmt.config.corpora import symbol_error

MIN_COVERAGE = 0.98  # of characters; SentencePiece rejects less


class TokenizerConfig(Section):
    """The tokenizers, which split text into tokens."""

    type: Literal["unigram", "bpe", "char", "word"] = Field(
        default="unigram", description="`word` has no byte fallback"
    )
    vocab_size: int = Field(
        default=8000,
        ge=8,
        le=1_000_000,
        description="number of tokens (per language if not joint); reduced if the data supports fewer",
    )
    joint: bool = Field(default=True, description="one vocabulary for both languages")
    normalization: Literal["identity", "nfkc", "nmt_nfkc", "nfkc_cf", "nmt_nfkc_cf"] = Field(
        default="identity", description="nmt_nfkc rewrites ，？！ to ASCII; *_cf folds case too"
    )
    character_coverage: float = Field(
        default=1.0,
        ge=MIN_COVERAGE,
        le=1.0,
        description="share of characters that get their own token; the rest are spelled as bytes",
    )
    user_symbols: tuple[str, ...] = Field(default=(), description="symbols that are never split, such as <2de>")
    max_sentences: Count = Field(
        default=200_000, description="maximum number of sentences per language for training the tokenizer"
    )
    path: str | None = Field(
        default=None,
        description="folder made by `nmt vocab`, or a SentencePiece .model file, instead of training a tokenizer",
    )

    @field_validator("user_symbols")
    @classmethod
    def _not_reserved(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for symbol in value:
            if message := symbol_error(symbol):
                raise ValueError(message)
        if len(set(value)) != len(value):
            raise ValueError("a symbol is listed twice")
        return value
