"""For each word of a translation, find its source words and the model's confidence."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from math import exp
from typing import NamedTuple

from nmt.base.errors import NmtError
from nmt.base.languages import Direction, language_tag, written_without_spaces
from nmt.data.text.glossary import TERM_SYMBOLS
from nmt.data.text.spans import PLACEHOLDERS, find_spans
from nmt.data.tokens.tokenizer import Tokenizer
from nmt.translation import SegmentTranslation, Translation, Translator
from nmt.translation.segments import alignment

_WORD = re.compile(r"\S+")


class Details(NamedTuple):
    """The words of a unit and of its translation. Joining a list of words gives the text with its white space."""

    source: list[str]
    target: list[str]
    links: list[tuple[int, int]]  # (source word, target word), from 0
    confidence: list[float]  # of each target word: the probability of its least probable token


def explain(translator: Translator, unit: str, direction: Direction, translation: Translation) -> Details | None:
    """Return the details of the translation of `unit`.

    None if its tokens do not spell it: with byte tokens or normalized characters, or if nmt translated around spans.
    Links come from the attention of the second-to-last layer, or of the last layer if the engine gives no other.
    """
    if not translation.segments and translation.text.strip() == unit.strip():  # there was nothing to translate
        words = [word + " " for word in unit.split()]
        words[-1:] = [words[-1].rstrip()] if words else []
        return Details(words, words, [(i, i) for i in range(len(words))], [1.0] * len(words))
    if len(translation.segments) != 1:
        return None
    segment = translation.segments[0]
    src_words = _Words.spell(translator.tokenizers.src, segment.src_ids, unit, unit, direction.src)
    tgt_words = _Words.spell(translator.tokenizers.tgt, segment.tgt_ids, translation.text, unit, direction.tgt)
    if src_words is None or tgt_words is None:
        return None
    pairs = alignment(_attention(translator, segment), len(segment.tgt_ids))
    links = {(src_words.of_token[i], tgt_words.of_token[j]) for i, j in pairs}
    (scores,) = translator.engine.score([segment.src_ids], [[*segment.tgt_tag, *segment.tgt_ids]])
    scores = scores[len(segment.tgt_tag) :]
    least = [0.0] * len(tgt_words.words)
    for word, score in zip(tgt_words.of_token, scores, strict=False):  # the score of eos is not used
        if word >= 0:
            least[word] = min(least[word], score)
    known = sorted(link for link in links if min(link) >= 0)
    return Details(src_words.words, tgt_words.words, known, [round(exp(score), 3) for score in least])


def _attention(translator: Translator, segment: SegmentTranslation) -> list[list[float]]:
    try:
        return translator.cross_attention(segment, layer=-2)
    except NmtError:
        return translator.cross_attention(segment)


class _Words(NamedTuple):
    """The words of a text, and the word of each token; -1 for tokens without text, such as tags."""

    words: list[str]
    of_token: list[int]

    @classmethod
    def spell(cls, tokenizer: Tokenizer, ids: Sequence[int], text: str, unit: str, language: str) -> _Words | None:
        """Return the words of `text`, given as `ids` with placeholders for the spans of `unit`; None if they differ.

        In a language written without spaces, each token is a word.
        """
        spans = [unit[span.start : span.end] for span in find_spans(unit)]
        known = dict(zip(PLACEHOLDERS, spans, strict=False))
        spelled = _surfaces(tokenizer.tokens(ids), known)
        whole = "".join(spelled)
        if whole.strip() != text.strip() or not text.strip():
            return None
        end = _margin(text) - _margin(whole)
        tokens = list[int]()  # the start of each in `text`; -1 for white space
        for piece in spelled:
            tokens.append(end + _margin(piece) if piece.strip() else -1)
            end += len(piece)
        if written_without_spaces(language):
            starts = [start for start in tokens if start >= 0]
        else:
            starts = [match.start() for match in _WORD.finditer(text)]
        words = [text[start:end] for start, end in pairwise([0, *starts[1:], len(text)])]
        return cls(words, [bisect_right(starts, start) - 1 for start in tokens])


def _margin(text: str) -> int:
    """Return the number of leading white-space characters of `text`."""
    return len(text) - len(text.lstrip())


def _surfaces(tokens: Sequence[str], spans: dict[str, str]) -> list[str]:
    """Return the text of each token; empty for the annotation of a term."""
    begin, between, end = TERM_SYMBOLS
    spelled, is_target, is_first = list[str](), False, False
    for token in tokens:
        symbol = token.removeprefix("▁")
        is_target = (is_target or symbol == between) and symbol != end
        surface = "" if is_target or symbol in TERM_SYMBOLS else _surface(token, spans)
        # The space that the annotation adds before the first word of a term is not part of the text.
        spelled.append(surface.removeprefix(" ") if is_first and spelled[-2].endswith(" ") else surface)
        is_first = symbol == begin and len(spelled) > 1
    return spelled


def _surface(token: str, spans: dict[str, str]) -> str:
    """Return the text of a token: its characters, or a protected span; empty for a language tag."""
    symbol = token.removeprefix("▁")
    if symbol in spans:
        return (" " if symbol != token else "") + spans[symbol]
    if symbol.startswith("<2") and symbol == language_tag(symbol[2:-1]):
        return ""
    return token.replace("▁", " ")
