"""For each word of a translation, find its source words and the model's confidence."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from math import exp
from typing import NamedTuple
from unicodedata import normalize

from nmt.base.languages import Direction, language_tag, written_without_spaces
from nmt.data.text.characters import AS_READ
from nmt.data.text.spans import PLACEHOLDERS, find_spans
from nmt.data.text.words import BARE_WORD, SPACED_WORD
from nmt.translation.alignment import Links
from nmt.translation.segments import SegmentTranslation
from nmt.translation.translation import Translation
from nmt.translation.translator import Translator

# Characters in a row that no token spells, which are skipped to find the next token. Chosen by hand.
_MAX_UNKNOWN = 20


class Details(NamedTuple):
    """The words of a segment and of its translation. Joining a list of words gives the text with its white space."""

    source: list[str]
    target: list[str]
    links: Links  # (source word, target word), from 0
    confidence: list[float]  # of each target word: the probability of its least probable token


def explain(translator: Translator, source: str, direction: Direction, translation: Translation) -> Details | None:
    """Return the details of the translation of `source`, which is one segment.

    Links are those of `align`. None if its tokens do not spell it, as with byte tokens, or if nmt translated around
    spans.
    """
    if not translation.segments and translation.text.strip() == source.strip():  # there was nothing to translate
        words = re.findall(r"\S+\s*", source.strip())
        return Details(words, words, [(i, i) for i in range(len(words))], [1.0] * len(words))
    if len(translation.segments) != 1:
        return None
    segment = translation.segments[0]
    src, tgt = _surfaces(translator, source, [segment])
    if not (_spell(src[0], source) and _spell(tgt[0], translation.text)):
        return None
    src_words, src_word_of = _words(src, source, direction.src)
    tgt_words, tgt_word_of = _words(tgt, translation.text, direction.tgt)
    links = _between_words(translator.align(segment, direction), src_word_of, tgt_word_of)
    (scores,) = translator.engine.score([segment.src_ids], [[*segment.tgt_tag, *segment.tgt_ids]])
    least = [0.0] * len(tgt_words)
    for word, score in zip(tgt_word_of, scores[len(segment.tgt_tag) :], strict=False):  # the score of eos is not used
        if word >= 0:
            least[word] = min(least[word], score)
    return Details(src_words, tgt_words, links, [round(exp(score), 3) for score in least])


def _spell(surfaces: Sequence[str], written: str) -> bool:
    """Return whether tokens spell the words of a text; around them may be symbols that the model did not see."""
    before, found, after = _letters(written)[0].partition(_letters("".join(surfaces))[0] or " ")
    return bool(found) and not any(map(str.isalnum, before + after))


def align_words(translator: Translator, source: str, translation: Translation) -> tuple[Links, Links]:
    """Return the links (source word, target word) of a text, and those of its tokens; both from 0, sorted.

    Words are what stands between white space; in a language written without spaces, each token that is not blank.
    """
    if (direction := translation.direction) is None:
        return [], []
    links: list[tuple[int, int]] = []
    num_src = 0
    num_tgt = 0
    for segment in translation.segments:
        if segment.tgt_ids:
            links += [(num_src + i, num_tgt + j) for i, j in translator.align(segment, direction)]
        num_src, num_tgt = num_src + len(segment.src_ids), num_tgt + len(segment.tgt_ids)
    src, tgt = _surfaces(translator, source, translation.segments)
    _, src_word_of = _words(src, source, direction.src, SPACED_WORD)
    _, tgt_word_of = _words(tgt, translation.text, direction.tgt, SPACED_WORD)
    return _between_words(links, src_word_of, tgt_word_of), links


def _between_words(links: Links, src_word_of: Sequence[int], tgt_word_of: Sequence[int]) -> Links:
    """Return the links of words, given those of tokens, sorted."""
    by_word = {(src_word_of[i], tgt_word_of[j]) for i, j in links}
    return sorted(link for link in by_word if min(link) >= 0)


def _surfaces(
    translator: Translator, source: str, segments: Sequence[SegmentTranslation]
) -> tuple[list[list[str]], list[list[str]]]:
    """Return the texts of the tokens of each segment of `source`, and of each translation."""
    spans = (source[span.start : span.end] for span in find_spans(source))
    src: list[list[str]] = []
    tgt: list[list[str]] = []
    for segment in segments:
        tokens = translator.tokenizers.src.tokens(segment.src_ids)
        symbols = dict.fromkeys(symbol for token in tokens if (symbol := token.removeprefix("▁")) in PLACEHOLDERS)
        placeholders = {symbol: next(spans, symbol) for symbol in symbols}
        src.append([_surface(token, placeholders) for token in tokens])
        tgt.append([_surface(token, placeholders) for token in translator.tokenizers.tgt.tokens(segment.tgt_ids)])
    return src, tgt


def _words(
    segments: Sequence[Sequence[str]], text: str, language: str, word: re.Pattern[str] = BARE_WORD
) -> tuple[list[str], list[int]]:
    """Return the words of `text`, and the word of each token of its segments: -1 for tokens without text, such as tags.

    `segments` are the texts of their tokens. Tokens that are not in the text, such as unknown ones, have no words. In a
    language written without spaces, each token is a word.
    """
    letters, places = _letters(text)
    spans: list[range] = []  # of each token, in `places`
    at = 0
    for surfaces in segments:
        at = max(at, letters.find(_letters("".join(surfaces))[0], at))  # behind text that was not translated
        for spelled in (_letters(surface)[0] for surface in surfaces):
            start = letters.find(spelled, at, at + len(spelled) + _MAX_UNKNOWN)
            spans.append(range(start, start + len(spelled)) if start >= 0 else range(0))
            at = max(at, spans[-1].stop)
    if written_without_spaces(language, text):
        starts = [places[span.start] for span in spans if span]
    else:
        starts = [match.start() for match in word.finditer(text)]
    words = [text[start:end] for start, end in pairwise([0, *starts[1:], len(text)])]
    # The middle of a token, because a protected span may begin or end with punctuation.
    return words, [bisect_right(starts, places[span[(len(span) - 1) // 2]]) - 1 if span else -1 for span in spans]


def _letters(text: str) -> tuple[str, list[int]]:
    """Return the characters of `text` as a tokenizer may normalize them, without white space, and their positions."""
    letters: list[str] = []
    places: list[int] = []
    for at, character in enumerate(text):
        spelled = "".join(normalize("NFKD", AS_READ(character)).split())
        letters.append(spelled)
        places += [at] * len(spelled)
    return "".join(letters), places


def _surface(token: str, spans: dict[str, str]) -> str:
    """Return the text of a token: its characters, or a protected span; empty for a language tag."""
    symbol = token.removeprefix("▁")
    if symbol in spans:
        return (" " if symbol != token else "") + spans[symbol]
    if symbol.startswith("<2") and symbol == language_tag(symbol[2:-1]):
        return ""
    return token.replace("▁", " ")
