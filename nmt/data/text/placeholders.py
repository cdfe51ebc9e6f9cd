"""Put placeholders into training pairs, so that a model learns to copy them.

Spans (URLs, tags, `{name}`, …) that occur on both sides of a pair are replaced by the same placeholder. In addition,
some pairs are copied with placeholders at corresponding positions, so that a model learns placeholders even from a
corpus without such spans. The result depends only on the pair, its line and the seed.
"""

from __future__ import annotations

import random
import re
import zlib
from collections import Counter, defaultdict, deque
from collections.abc import Collection, Sequence
from typing import NamedTuple

from nmt.base.languages import Direction, written_without_spaces
from nmt.data.read.pairs import SentencePair
from nmt.data.text.spans import ANY_PLACEHOLDER, NUM_PLACEHOLDERS, PLACEHOLDERS, Span, find_spans, replace_spans

VERSION = 7  # the version of this module's output; part of a store's fingerprint

# Words that may be the same in two languages: numbers and names. Not CJK, where a run of letters is a sentence.
_SHARED = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_\u2e80-\u9fff\uac00-\ud7ff\uf900-\ufaff]{2,}")
_WORD_START = re.compile(r"(?<=\s)(?=\S)")
_END_MARKS = ".!?。！？…"
# The number of placeholders in one copy: mostly few, but training must cover all of them.
_COUNTS = (1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 4, 5, 6, 7, 8)
# Where a copy gets placeholders; what occurs twice is drawn twice as often.
_KINDS = ("shared word", "around a shared word", "start", "end", "after the end", "around all", "within", "within")


class _Slot(NamedTuple):
    """The texts on both sides that a placeholder replaces, and its form "{}" with the spaces around it."""

    sides: tuple[Span, Span]
    form: str = "{}"  # without its spaces where words are not separated by spaces


def insert_placeholders(pair: SentencePair, not_these: Collection[str] = ()) -> SentencePair:
    """Replace the spans shared by both sides of `pair` with placeholders, numbered in source order.

    Surplus occurrences of a span on one side, and spans beyond the last placeholder, stay unchanged.
    """
    src_spans = find_spans(pair.src, not_these)
    if not src_spans:
        return pair
    waiting: dict[str, deque[Span]] = defaultdict(deque)
    for span in find_spans(pair.tgt, not_these):
        waiting[pair.tgt[span.start : span.end]].append(span)
    matched: list[tuple[Span, Span]] = []
    for span in src_spans:
        same = waiting[pair.src[span.start : span.end]]
        if same and len(matched) < NUM_PLACEHOLDERS:
            matched.append((span, same.popleft()))
    numbered = sorted(zip((tgt for _, tgt in matched), PLACEHOLDERS, strict=False))
    src = replace_spans(pair.src, [src for src, _ in matched], PLACEHOLDERS[: len(matched)])
    tgt = replace_spans(pair.tgt, [span for span, _ in numbered], [placeholder for _, placeholder in numbered])
    return pair._replace(src=src, tgt=tgt)


def copy_with_placeholders(pair: SentencePair, direction: Direction, *, share: float, seed: int) -> SentencePair | None:
    """Return a copy of `pair` with placeholders if the pair is in the drawn `share`; None if not, or if it has some.

    A placeholder replaces a number or name that both sides share, or two placeholders enclose it or the sentence.
    Others are inserted at either end, or at the same relative position of both sides.
    """
    key = f"{seed} {pair.line} {pair.src}".encode("utf-8", "surrogatepass")
    if zlib.crc32(key) >= share * 2**32 or ANY_PLACEHOLDER.search(pair.src + pair.tgt):
        return None
    spaced = not written_without_spaces(direction.src, pair.src), not written_without_spaces(direction.tgt, pair.tgt)
    rng = random.Random(key)
    slots: list[_Slot] = []
    wanted = rng.choice(_COUNTS)
    for _ in range(8 * wanted):  # some draws find no slot, or an occupied one
        found = _draw_slots(pair, spaced, rng)
        if len(slots) + len(found) <= wanted and not _clash(slots, found):
            slots += found
        if len(slots) == wanted:
            break
    if not slots:
        return None
    slots.sort(key=lambda slot: slot.sides[0])  # stable: insertions at one position keep their order
    numbered = list(zip(slots, PLACEHOLDERS, strict=False))
    sides = []
    for side, text in enumerate(pair[:2]):
        ordered = sorted(numbered, key=lambda item: item[0].sides[side])
        symbols = [slot.form.format(symbol) if spaced[side] else symbol for slot, symbol in ordered]
        sides.append(replace_spans(text, [slot.sides[side] for slot, _ in ordered], symbols))
    return pair._replace(src=sides[0], tgt=sides[1])


def _draw_slots(pair: SentencePair, spaced: tuple[bool, bool], rng: random.Random) -> list[_Slot]:
    """Draw one slot, or two that enclose something; empty if the pair has no slot of the drawn kind."""
    kind = rng.choice(_KINDS)
    src, tgt = pair[:2]
    start = (0, 0)
    end = (len(src.rstrip(_END_MARKS)), len(tgt.rstrip(_END_MARKS)))
    match kind:
        case "start":
            return [_at(start, "{} ")]
        case "end":
            return [_at(end, " {}")]
        case "after the end":
            return [_at((len(src), len(tgt)), " {}")]
        case "around all":
            return [_at(start), _at(end)]
        case "within":
            gaps = _gaps(src, spaced[0]), _gaps(tgt, spaced[1])
            proportion, glued = rng.random(), rng.random() < 0.25  # glued to the next word, like a tag
            if not all(gaps):
                return []
            places = [some[int(proportion * len(some))] for some in gaps]
            return [_at(places, "{}" if glued else "{} ")]
    words = _shared_words(src, tgt)
    if not words:
        return []
    word = rng.choice(words)
    if kind == "shared word":
        return [_Slot(word)]
    return [_at([side.start for side in word]), _at([side.end for side in word])]


def _at(places: Sequence[int], form: str = "{}") -> _Slot:
    src, tgt = places
    return _Slot((Span(src, src), Span(tgt, tgt)), form)


def _shared_words(src: str, tgt: str) -> list[tuple[Span, Span]]:
    """Return the spans of the words that occur exactly once on each side."""
    sides = [[(match[0], Span(*match.span())) for match in _SHARED.finditer(text)] for text in (src, tgt)]
    counts = [Counter(word for word, _ in side) for side in sides]
    in_tgt = dict(sides[1])
    return [(span, in_tgt[word]) for word, span in sides[0] if counts[0][word] == counts[1][word] == 1]


def _gaps(text: str, has_spaces: bool) -> list[int]:
    """Return the start of every word except the first; without spaces, every position between two characters."""
    return [match.start() for match in _WORD_START.finditer(text)] if has_spaces else list(range(1, len(text)))


def _clash(slots: list[_Slot], found: list[_Slot]) -> bool:
    """Return whether a slot of `found` overlaps one of `slots` on either side; touching is allowed."""
    sides = (both for old in slots for new in found for both in zip(old.sides, new.sides, strict=True))
    return any(old.overlaps(new) for old, new in sides)
