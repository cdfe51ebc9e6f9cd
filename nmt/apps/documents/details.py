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
from nmt.translation import Translation, Translator
from nmt.translation.segments import alignment

_WORD = re.compile(r"\S+")


class Details(NamedTuple):
    """The words of a segment and of its translation. Joining a list of words gives the text with its white space."""

    source: list[str]
    target: list[str]
    links: list[tuple[int, int]]  # (source word, target word), from 0
    confidence: list[float]  # of each target word: the probability of its least probable token


def explain(translator: Translator, source: str, direction: Direction, translation: Translation) -> Details | None:
    """Return the details of the translation of `source`, which is one segment.

    None if its tokens do not spell it: with byte tokens or normalized characters, or if nmt translated around spans.
    Links come from the attention of the second-to-last layer, or of the last layer if the engine gives no other.
    """
    if not translation.segments and translation.text.strip() == source.strip():  # there was nothing to translate
        words = [word + " " for word in source.split()]
        words[-1:] = [words[-1].rstrip()] if words else []
        return Details(words, words, [(i, i) for i in range(len(words))], [1.0] * len(words))
    if len(translation.segments) != 1:
        return None
    segment = translation.segments[0]
    spans = [source[span.start : span.end] for span in find_spans(source)]
    placeholders = dict(zip(PLACEHOLDERS, spans, strict=False))
    src = _words(translator.tokenizers.src.tokens(segment.src_ids), source, placeholders, direction.src)
    tgt = _words(translator.tokenizers.tgt.tokens(segment.tgt_ids), translation.text, placeholders, direction.tgt)
    if src is None or tgt is None:
        return None
    (src_words, src_word_of), (tgt_words, tgt_word_of) = src, tgt
    try:
        attention = translator.cross_attention(segment, layer=-2)
    except NmtError:
        attention = translator.cross_attention(segment)
    links = {(src_word_of[i], tgt_word_of[j]) for i, j in alignment(attention, len(segment.tgt_ids))}
    (scores,) = translator.engine.score([segment.src_ids], [[*segment.tgt_tag, *segment.tgt_ids]])
    least = [0.0] * len(tgt_words)
    for word, score in zip(tgt_word_of, scores[len(segment.tgt_tag) :], strict=False):  # the score of eos is not used
        if word >= 0:
            least[word] = min(least[word], score)
    links = {link for link in links if min(link) >= 0}
    return Details(src_words, tgt_words, sorted(links), [round(exp(score), 3) for score in least])


def _words(
    tokens: Sequence[str], text: str, placeholders: dict[str, str], language: str
) -> tuple[list[str], list[int]] | None:
    """Return the words of `text`, and the word of each of its `tokens`: -1 for tokens without text, such as tags.

    None if the tokens do not spell the text. In a language written without spaces, each token is a word.
    """
    surfaces = _surfaces(tokens, placeholders)
    spelled = "".join(surfaces)
    if spelled.strip() != text.strip() or not text.strip():
        return None
    end = _margin(text) - _margin(spelled)
    token_starts = list[int]()  # in `text`; -1 for white space
    for surface in surfaces:
        token_starts.append(end + _margin(surface) if surface.strip() else -1)
        end += len(surface)
    if written_without_spaces(language):
        starts = [start for start in token_starts if start >= 0]
    else:
        starts = [match.start() for match in _WORD.finditer(text)]
    words = [text[start:end] for start, end in pairwise([0, *starts[1:], len(text)])]
    return words, [bisect_right(starts, start) - 1 for start in token_starts]


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
