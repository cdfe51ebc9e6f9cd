"""Random changes of training pairs that make a model robust to what users type: `data.augment`.

After each kind of change, source and target are still translations of each other. Typos and noise change only the
source, so that the model learns to ignore mistakes and not to make them. All randomness comes from `rng.random()`,
whose numbers are the same in every version of Python.
"""

from __future__ import annotations

import random
import re
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from nmt.base.languages import (
    Direction,
    base_code,
    uppercase,
    written_without_spaces,
)
from nmt.base.patterns import any_of
from nmt.data.text.spans import PLACEHOLDERS, Span, find_spans, matches_outside, replace_spans
from nmt.data.text.words import SPACED_WORD, TITLE_WORD, TYPED_CHARACTERS, TYPED_WORD

if TYPE_CHECKING:
    from nmt.config.data import AugmentConfig

T = TypeVar("T")

_MIN_WORDS_TO_DROP = 4  # in a text from which one is dropped: of fewer, each counts
_MAX_DROPPED = 3  # letters: dropping a longer word would leave a target that cannot be inferred from the source

_QWERTY = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
_QWERTZ = ("qwertzuiopü", "asdfghjklöä", "yxcvbnm")
_AZERTY = ("azertyuiop", "qsdfghjklm", "wxcvbn")
_JCUKEN = ("йцукенгшщзхъ", "фывапролджэ", "ячсмитьбю")
_LAYOUTS = {"de": _QWERTZ, "cs": _QWERTZ, "hu": _QWERTZ, "fr": _AZERTY, "ru": _JCUKEN, "uk": _JCUKEN, "be": _JCUKEN}
_STRAY = {True: ("，", "、", "。", "…"), False: (",", " ,", "..", " -", "…")}  # punctuation, by "without spaces"


def choose(options: Sequence[T], rng: random.Random) -> T:
    """Return one of `options`, drawn uniformly."""
    return options[int(rng.random() * len(options))]


def neighbors(language: str) -> dict[str, str]:
    """Return the keys to the left and right of each lower-case letter, on a common keyboard layout for `language`."""
    rows = _LAYOUTS.get(base_code(language), _QWERTY)
    return {row[at]: row[max(0, at - 1) : at] + row[at + 1 : at + 2] for row in rows for at in range(len(row))}


class Typist:
    """Makes typing mistakes for a text in `language`, in about `word_rate` of the words and at least one."""

    def __init__(self, language: str, word_rate: float):
        self._without_spaces = written_without_spaces(language)
        self._word_rate = word_rate
        self._neighbors = neighbors(language)

    def add_typos(self, text: str, protected: Sequence[Span], rng: random.Random) -> str:
        """Return `text` with typos in its words, but not in its `protected` spans."""
        words = _find_words(TYPED_CHARACTERS if self._without_spaces else TYPED_WORD, text, protected)
        chosen = self._some(words, rng)
        return replace_spans(text, chosen, [self._typo(text[start:end], rng) for start, end in chosen])

    def add_noise(self, text: str, protected: Sequence[Span], rng: random.Random) -> str:
        """Return `text` with words swapped or repeated, short words dropped, or stray spaces and punctuation."""
        words = _find_words(TYPED_CHARACTERS if self._without_spaces else SPACED_WORD, text, protected)
        edits: dict[Span, str] = {}
        for word in self._some(range(len(words)), rng):
            if words[word] not in edits:
                edits.update(self._noise(text, words, word, rng))
        spans = sorted(edits)
        return replace_spans(text, spans, [edits[span] for span in spans])

    def _some(self, items: Sequence[T], rng: random.Random) -> list[T]:
        """Draw a share of `word_rate` of `items`, but at least one."""
        chosen = [item for item in items if rng.random() < self._word_rate]
        return chosen or ([choose(items, rng)] if items else [])

    def _typo(self, word: str, rng: random.Random) -> str:
        """Return `word` with one typo."""
        at = int(rng.random() * len(word))
        others = self._neighbors.get(word[at].lower(), "")
        kind = choose(("swap", "drop", "double", "beside"), rng)
        if kind == "beside" and others:
            letter = choose(others, rng)
            return word[:at] + (letter.upper() if word[at].isupper() else letter) + word[at + 1 :]
        if kind == "double" and not self._without_spaces:
            return word[: at + 1] + word[at:]
        at = min(at, max(0, len(word) - 2))
        pair = word[at : at + 2]
        if kind in ("swap", "beside") and pair[::-1] != pair:
            return word[:at] + pair[::-1] + word[at + 2 :]
        return word[:at] + word[at + 1 :]

    def _noise(self, text: str, words: Sequence[Span], word: int, rng: random.Random) -> dict[Span, str]:
        """Return the replacements, by span, of one piece of noise."""
        span = start, end = words[word]
        written = text[start:end]
        following = words[word + 1] if word + 1 < len(words) else None
        kind = choose(("drop", "repeat", "swap", "space", "punctuation"), rng)
        is_short = len(written) <= _MAX_DROPPED and written.isalpha() and written.islower()
        if kind == "drop" and is_short and len(words) >= _MIN_WORDS_TO_DROP and text.endswith(" ", 0, start):
            return {Span(start - 1, end): ""}
        if kind == "repeat" and not self._without_spaces:
            return {span: f"{written} {written}"}
        if kind == "swap" and following and not text[end : following.start].strip():
            return {span: text[following.start : following.end], following: written}
        if kind == "space":
            return {span: " " + written}
        return {span: written + choose(_STRAY[self._without_spaces], rng)}


def _find_words(pattern: re.Pattern[str], text: str, protected: Sequence[Span]) -> list[Span]:
    """Return the words that overlap none of the `protected` spans."""
    return [Span(*match.span()) for match in matches_outside(pattern, text, protected)]


class TextPair(NamedTuple):
    """A source text and its translation."""

    src: str
    tgt: str


class PairChanger:
    """Changes pairs of one direction. `symbols` are the user symbols of the tokenizer, which are never changed.

    Symbols at the start of a text, such as <2de>, stay there.
    """

    def __init__(self, direction: Direction, symbols: Collection[str], word_rate: float = 0.1):
        self._direction = direction
        self._symbols = re.compile(any_of(symbols))
        tags = any_of({*symbols}.difference(PLACEHOLDERS))
        self._tags = re.compile(rf"\A(?:(?:{tags})\s*)*")
        self._typist = Typist(direction.src, word_rate)

    def change(self, kind: str, pair: TextPair, rng: random.Random) -> TextPair:
        """Return `pair` with one kind of change of `AugmentConfig`; unchanged if that kind does not apply to it."""
        src, tgt = (self._tags.sub("", each) for each in pair)
        text = TextPair(src, tgt)
        match kind:
            case "upper" | "title":
                text = self._in_case(text, kind)
            case "typos" | "noise":
                edit = self._typist.add_typos if kind == "typos" else self._typist.add_noise
                text = TextPair(edit(src, self._protected(src), rng), tgt)
            case _:
                raise ValueError(f"no kind of change: {kind}")
        if not (text.src.strip() and text.tgt.strip()):
            return pair
        return TextPair(pair.src.removesuffix(src) + text.src, pair.tgt.removesuffix(tgt) + text.tgt)

    def _protected(self, text: str) -> list[Span]:
        """Return the spans that must not change, in order: URLs, tags, {name}, %s and the user symbols."""
        spans = find_spans(text)
        symbols = matches_outside(self._symbols, text, spans)
        return sorted([*spans, *(Span(*symbol.span()) for symbol in symbols)])

    def _in_case(self, pair: TextPair, kind: str) -> TextPair:
        """Return both sides in upper or title case; the pair itself if most letters of the source have no case."""
        gaps = [self._gaps(text) for text in pair]
        free = "".join(pair.src[gap.start : gap.end] for gap in gaps[0])
        if 2 * sum(c.lower() != c.upper() for c in free) <= sum(map(str.isalpha, free)):
            return pair
        change = uppercase if kind == "upper" else _title
        sides = []
        for text, some, language in zip(pair, gaps, self._direction, strict=True):
            changed = [change(text[gap.start : gap.end], language) for gap in some]
            sides.append(replace_spans(text, some, changed))
        return TextPair(*sides)

    def _gaps(self, text: str) -> list[Span]:
        """Return what is between the protected spans."""
        protected = self._protected(text)
        begins = [0, *(span.end for span in protected)]
        ends = [*(span.start for span in protected), len(text)]
        return [*map(Span, begins, ends)]


class CopyMaker:
    """Makes changed copies of pairs for training a tokenizer, so that it covers their characters."""

    def __init__(self, config: AugmentConfig, changers: Sequence[PairChanger], seed: int):
        """`changers` has one entry per corpus."""
        shares = config.shares()
        self._kinds = [*shares, ""]
        self._shares = [*shares.values(), 1 - sum(shares.values())]
        self._is_on = config.is_on
        self._changers = changers
        self._seed = seed

    def copy_of(self, number: int, corpus: int, pair: TextPair) -> TextPair | None:
        """Return a changed copy of pair `number` of `corpus`, or None if the pair is not drawn for a change."""
        if not self._is_on:  # seeding takes longer than reading a pair
            return None
        rng = random.Random((self._seed << 64) + number)  # no two seeds share a number of a pair
        (kind,) = rng.choices(self._kinds, self._shares)
        changed = self._changers[corpus].change(kind, pair, rng) if kind else pair
        return changed if changed != pair else None


def _title(text: str, language: str) -> str:
    """Return `text` with the first letter of each lower-case word capitalized."""

    def capitalized(match: re.Match[str]) -> str:
        word = match[0]
        first = uppercase(word[0], language)
        return (first if len(first) == 1 else word[0]).title() + word[1:] if word.islower() else word

    return TITLE_WORD.sub(capitalized, text)
