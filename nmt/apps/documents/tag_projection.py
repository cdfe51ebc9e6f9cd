"""Project inline tags from source words to the aligned words of a translation."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, combinations
from typing import NamedTuple

from nmt.translation.word_links import Details

_MAX_GAP = 2  # words; links farther away are noise
MAX_TAGS = 500  # per text; each pair of elements is compared


class Tag(NamedTuple):
    """A tag at a position in a text."""

    offset: int  # characters before it
    name: str  # b: an opening tag, /b: a closing tag, !: standalone markup


@dataclass
class _Element:
    """An element: the numbers of its tags and, in the translation, of its first and its last word."""

    opening: int
    closing: int
    first: int
    last: int
    is_inner: bool = False

    def encloses(self, other: _Element) -> bool:
        return self.opening < other.opening and other.closing < self.closing


def join_details(text: str, segments: Sequence[tuple[str, Details | None, str]]) -> Details | None:
    """Join the words of the segments of a text (with white space before and after); None if any are unknown."""
    joined = Details([], [], [], [])
    at = 0
    for before, details, after in segments:
        if details is None or not details.target or (start := text.find("".join(details.source), at)) < 0:
            return None
        if joined.source:
            joined.source[-1] += text[at:start]
        joined.links.extend((i + len(joined.source), j + len(joined.target)) for i, j in details.links)
        joined.source.extend(details.source)
        words = [*details.target]
        words[0] = before + words[0]
        words[-1] += after
        joined.target.extend(words)
        joined.confidence.extend(details.confidence)
        at = start + sum(map(len, details.source))
    return joined


def mark_of(number: int) -> str:
    """Return what stands for the tag of a number, from 0, in a text."""
    return f"{{h{number}}}"


def project(tags: Sequence[Tag], aligned: Details) -> str | None:
    """Return the translation with marks for its `tags`; None if they are not nested, or have no position in it.

    Also None if there are more than 500 tags.
    """
    ends, alone = pair_tags([tag.name for tag in tags])
    if alone or len(tags) > MAX_TAGS:
        return None
    word_ends = list(accumulate(map(len, aligned.source)))
    word_starts = [0, *word_ends[:-1]]
    linked: defaultdict[int, list[int]] = defaultdict(list)
    for i, j in aligned.links:
        linked[i].append(j)
    elements: list[_Element] = []
    for opening, closing in sorted(ends.items()):
        start, end = tags[opening].offset, tags[closing].offset
        words = range(bisect_right(word_ends, start), bisect_left(word_starts, end))
        tgt_words = sorted({j for i in words for j in linked.get(i, ())})
        if not tgt_words and words:  # use its relative position in the source
            tgt_words = [words[0] * len(aligned.target) // len(aligned.source)]
        if not tgt_words or start == end:
            return None
        elements.append(_Element(opening, closing, *_largest_cluster(tgt_words)))
    if not _nest(elements):
        return None
    before: defaultdict[int, list[str]] = defaultdict(list)
    after: defaultdict[int, list[str]] = defaultdict(list)
    for element in elements:
        before[element.first].append(mark_of(element.opening))
        after[element.last].insert(0, mark_of(element.closing))
    joined: list[str] = []
    for number, tag in enumerate(tags):
        if tag.name == "!":  # behind the last word that is linked with the nearest source word before it
            nearest = max((i for i in linked if word_starts[i] < tag.offset), default=None)
            if nearest is None:
                joined.append(mark_of(number))
            else:
                after[max(linked[nearest])] += [" ", mark_of(number)]
    for number, word in enumerate(aligned.target):
        body = word.strip()
        lead, _, tail = word.partition(body) if body else (word, "", "")
        joined += [lead, *before[number], body, *after[number], tail]
    return "".join(joined)


def pair_tags(tags: Sequence[str]) -> tuple[dict[int, int], list[int]]:
    """Return the number of the closing tag of each opening one, and the tags without another: all, if elements cross.

    `tags` are names as in `Tag`; texts have none.
    """
    opened: list[int] = []
    alone: list[int] = []
    ends: dict[int, int] = {}
    for number, tag in enumerate(tags):
        if not tag.startswith("/"):
            opened += [number] if tag not in ("", "!") else []
        elif not opened:
            alone.append(number)
        elif tags[opened[-1]] == tag[1:]:
            ends[opened.pop()] = number
        else:
            return {}, [number for number, tag in enumerate(tags) if tag not in ("", "!")]
    return ends, alone + opened


def _largest_cluster(words: Sequence[int]) -> tuple[int, int]:
    """Return the first and the last word of the largest group without a large gap."""
    clusters = [[words[0]]]
    for word in words[1:]:
        if word - clusters[-1][-1] > _MAX_GAP:
            clusters.append([])
        clusters[-1].append(word)
    best = max(clusters, key=len)
    return best[0], best[-1]


def _nest(elements: Sequence[_Element]) -> bool:
    """Extend each element over its inner ones, and trim others that overlap; return whether each keeps a word."""
    for inner in reversed(elements):
        for outer in elements:
            if outer.encloses(inner):
                inner.is_inner = True
                outer.first, outer.last = min(outer.first, inner.first), max(outer.last, inner.last)
    for one, other in combinations(elements, 2):
        left, right = (one, other) if one.first <= other.first else (other, one)
        if not one.encloses(other) and left.last >= right.first:
            if left.first == right.first or one.is_inner or other.is_inner:
                return False
            left.last = right.first - 1
    return True
