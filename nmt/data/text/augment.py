"""Random changes of training pairs that make a model robust to what users type: `data.augment`.

After each kind of change, source and target are still translations of each other. Typos and noise change only the
source, so that the model learns to ignore mistakes and not to make them.
"""

from __future__ import annotations

import random
import re
from collections.abc import Collection, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from nmt.base.languages import LANGUAGE_TAG, Direction, spaces_between_sentences, uppercase
from nmt.config.augment import AugmentConfig
from nmt.data.text.spans import ANY_PLACEHOLDER, PLACEHOLDERS, Span, find_spans
from nmt.data.text.typos import Typist, choose

_FINAL_MARKS = ".!?…。！？．｡؟۔।॥"
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_COMMON = tuple("😀😂😊😍🤔👍🙏🎉🔥✅⭐✨💡📌❌⚠™©®→•★✓")
_BLOCKS = ((0x1F600, 0x1F64F), (0x1F300, 0x1F5FF), (0x1F680, 0x1F6C5), (0x2600, 0x26FF), (0x2190, 0x21FF))


class TextPair(NamedTuple):
    """A source text and its translation."""

    src: str
    tgt: str


class PairChanger:
    """Changes pairs of one direction. `symbols` are the user symbols of the tokenizer, which are never changed.

    Symbols at the start of a source, such as <2de>, stay there. Without `rare_emoji`, only two dozen emoji are used.
    """

    def __init__(self, direction: Direction, symbols: Collection[str], word_rate: float, rare_emoji: bool = True):
        self._direction, self._rare_emoji = direction, rare_emoji
        ordered = sorted(symbols, key=len, reverse=True)
        self._symbols = re.compile("|".join(map(re.escape, ordered)) or "(?!)")
        tags = "|".join(re.escape(symbol) for symbol in ordered if symbol not in PLACEHOLDERS)
        self._tags = re.compile(rf"(?:(?:{tags})\s*)*" if tags else "")
        language_tags = "|".join(re.escape(symbol) for symbol in ordered if LANGUAGE_TAG.fullmatch(symbol))
        self._tgt_tags = re.compile(rf"(?:(?:{language_tags})\s*)?" if language_tags else "")
        self._typist = Typist(direction.src, word_rate)

    def change(self, kind: str, pair: TextPair, draw: random.Random, partner: TextPair | None = None) -> TextPair:
        """Return `pair` with one kind of change of `AugmentConfig`; unchanged if that kind does not apply to it.

        `partner` is the pair that `merge` appends.
        """
        tags, src = _split_at(self._tags, pair.src)
        tgt_tag, tgt = _split_at(self._tgt_tags, pair.tgt)
        match kind:
            case "upper" | "title":
                changed = self._in_case(TextPair(src, tgt), kind)
            case "typos":
                changed = TextPair(self._typist.mistype(src, self.protected(src), draw), tgt)
            case "noise":
                changed = TextPair(self._typist.disturb(src, self.protected(src), draw), tgt)
            case "no_final_punctuation":
                changed = self._without_end(TextPair(src, tgt))
            case "emoji":
                changed = self._with_emoji(TextPair(src, tgt), draw)
            case "merge":
                return pair if partner is None else self._merged(pair, partner)
            case _:
                raise ValueError(f"no kind of change: {kind}")
        whole = TextPair(tags + changed.src, tgt_tag + changed.tgt)
        return whole if changed.src.strip() and changed.tgt.strip() else pair

    def protected(self, text: str) -> list[Span]:
        """Return the spans that must not change, in order: URLs, tags, {name}, %s and the user symbols."""
        found = sorted([*find_spans(text), *(Span(*match.span()) for match in self._symbols.finditer(text))])
        merged: list[Span] = []
        for span in found:
            if merged and span.start < merged[-1].end:
                merged[-1] = Span(merged[-1].start, max(span.end, merged[-1].end))
            else:
                merged.append(span)
        return merged

    def _pieces(self, text: str) -> Iterator[tuple[str, bool]]:
        """Yield the pieces of the text, each with a flag that tells whether it is protected."""
        end = 0
        for span in self.protected(text):
            yield text[end : span.start], False
            yield text[span.start : span.end], True
            end = span.end
        yield text[end:], False

    def _in_case(self, pair: TextPair, kind: str) -> TextPair:
        """Return both sides in upper or title case; the pair itself if most letters of the source have no case."""
        free = "".join(piece for piece, is_protected in self._pieces(pair.src) if not is_protected)
        if 2 * sum(c.lower() != c.upper() for c in free) <= sum(map(str.isalpha, free)):
            return pair
        change = uppercase if kind == "upper" else _title
        return TextPair(
            *(
                "".join(
                    piece if is_protected else change(piece, language) for piece, is_protected in self._pieces(text)
                )
                for text, language in zip(pair, self._direction, strict=True)
            )
        )

    def _without_end(self, pair: TextPair) -> TextPair:
        """Return the pair without its final punctuation, if both sides have some."""
        kept = []
        for text in pair:
            core = _without_final_marks(text)
            if core == text or any(span.end > len(core) for span in self.protected(text)):
                return pair
            kept.append(core)
        return TextPair(*kept)

    def _with_emoji(self, pair: TextPair, draw: random.Random) -> TextPair:
        count = 1 + int(draw.random() ** 3 * 3)  # mostly one, at most three
        symbols = "".join(self._symbol(draw) for _ in range(count))
        at_start, glued = draw.random() < 0.3, draw.random() < 0.25
        sides = []
        for text, language in zip(pair, self._direction, strict=True):
            space = " " if spaces_between_sentences(language) and not glued else ""
            sides.append(symbols + space + text if at_start else text + space + symbols)
        return TextPair(*sides)

    def _symbol(self, draw: random.Random) -> str:
        """Draw a common symbol, or any emoji of their Unicode blocks, so that a model learns to copy them bytewise."""
        if draw.random() < 0.5 or not self._rare_emoji:
            return choose(_COMMON, draw)
        first, last = _BLOCKS[int(draw.random() * len(_BLOCKS))]
        return chr(first + int(draw.random() * (last - first + 1)))

    def _merged(self, first: TextPair, second: TextPair) -> TextPair:
        """Return both pairs as one; only the first if their tags differ, or if both contain placeholders."""
        tags, other_tags = (_split_at(self._tags, pair.src)[0] for pair in (first, second))
        if tags != other_tags or all(ANY_PLACEHOLDER.search(pair.src + pair.tgt) for pair in (first, second)):
            return first
        ends = [_without_final_marks(text) != text for text in first]
        if ends[0] != ends[1]:  # the boundary would be marked on one side only
            return first
        second = TextPair(second.src[len(other_tags) :], _split_at(self._tgt_tags, second.tgt)[1])
        return TextPair(
            *(
                one + (" " if spaces_between_sentences(language) or not ends[0] else "") + two
                for one, two, language in zip(first, second, self._direction, strict=True)
            )
        )


def _split_at(tags: re.Pattern[str], text: str) -> tuple[str, str]:
    """Return the tags at the start of `text`, with the spaces after them, and the rest."""
    match = tags.match(text)
    end = match.end() if match else 0
    return text[:end], text[end:]


def change_all(changer: PairChanger, kind: str, pairs: Sequence[TextPair]) -> list[TextPair]:
    """Return all `pairs` of a test set with one kind of change, deterministically; `merge` appends the next pair."""
    following = [*pairs[1:], *pairs[:1]]
    return [
        changer.change(kind, pair, random.Random(number), partner)
        for number, (pair, partner) in enumerate(zip(pairs, following, strict=True))
    ]


class CopyMaker:
    """Makes changed copies of pairs for training a tokenizer, so that it covers their characters."""

    def __init__(self, config: AugmentConfig, changers: Sequence[PairChanger], seed: int):
        """`changers` has one entry per corpus. Pairs are not merged, because that adds no new text.

        The changers must not draw rare emoji, because each would take a token of the vocabulary.
        """
        shares = {kind: share for kind, share in config.shares().items() if share and kind != "merge"}
        self._bounds = list(zip(accumulate(shares.values()), shares, strict=True))
        self._changers, self._seed = changers, seed

    def copy_of(self, number: int, corpus: int, pair: TextPair) -> TextPair | None:
        """Return a changed copy of pair `number` of `corpus`, or None if the pair is not drawn for a change."""
        if not self._bounds:  # seeding takes longer than reading a pair
            return None
        draw = random.Random((self._seed << 64) + number)
        drawn = draw.random()
        for bound, kind in self._bounds:
            if drawn < bound:
                changed = self._changers[corpus].change(kind, pair, draw)
                return changed if changed != pair else None
        return None


def _without_final_marks(text: str) -> str:
    """Return `text` without its final punctuation, if it has some."""
    end = text.rstrip()
    core = end.rstrip(_FINAL_MARKS)
    return text if core == end else core.rstrip()


def _title(text: str, language: str) -> str:
    """Return `text` with the first letter of each lower-case word capitalized."""

    def capitalized(match: re.Match[str]) -> str:
        word = match[0]
        first = uppercase(word[0], language)
        return (first if len(first) == 1 else word[0]).title() + word[1:] if word.islower() else word

    return _WORD.sub(capitalized, text)
