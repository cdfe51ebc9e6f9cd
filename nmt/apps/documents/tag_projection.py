"""Project inline tags from source words to the aligned words of a translation."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from nmt.apps.documents.word_links import Details

_MAX_GAP = 2  # words; links farther away are noise
_MAX_TAGS = 500  # per text; each pair of elements is compared


class Tag(NamedTuple):
    """A tag at a position in a text."""

    offset: int  # characters before it
    number: int  # among the tags of the text
    name: str  # b: an opening tag, /b: a closing tag, !: standalone markup


@dataclass
class _Element:
    """An element in the source: characters [start, end). In the translation: words [first, last]."""

    start: int
    end: int
    opening: Tag
    closing: Tag
    depth: int
    first: int = -1
    last: int = -1


def join_details(text: str, segments: Sequence[tuple[str, Details | None, str]]) -> Details | None:
    """Join the words of the segments of a text (with white space before and after); None if any are unknown."""
    joined = Details([], [], [], [])
    at = 0
    for before, details, after in segments:
        start = -1 if details is None else text.find("".join(details.source), at)
        if details is None or start < 0 or not details.target:
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


def project(tags: Sequence[Tag], aligned: Details) -> list[str | Tag] | None:
    """Return the translation with its `tags` in place; None if they are not nested, or have no position in it.

    Also None if there are more than 500 tags.
    """
    elements = _elements(tags) if len(tags) <= _MAX_TAGS else None
    if elements is None:
        return None
    ends = list(accumulate(map(len, aligned.source)))
    starts = [0, *ends[:-1]]
    linked: defaultdict[int, set[int]] = defaultdict(set)
    for i, j in aligned.links:
        linked[i].add(j)
    for element in elements:
        words = range(bisect_right(ends, element.start), bisect_left(starts, element.end))
        tgt_words = sorted({j for i in words for j in linked.get(i, ())})
        if not tgt_words and words:  # use its relative position in the source
            tgt_words = [words[0] * len(aligned.target) // len(ends)]
        if not tgt_words:
            return None
        element.first, element.last = _largest_cluster(tgt_words)
    if not _nest(elements):
        return None
    alone = defaultdict[int, list[Tag]](list)
    for tag in tags:
        if tag.name == "!":  # behind the last word that is linked with the nearest source word before it
            before = next((i for i in reversed(range(bisect_left(starts, tag.offset))) if i in linked), None)
            alone[-1 if before is None else max(linked[before])].append(tag)
    return _join(elements, alone, aligned.target)


def pair_tags(tags: Sequence[str]) -> tuple[dict[int, int], list[int]] | None:
    """Return the number of the closing tag of each opening one, and the tags without another; None if elements cross.

    `tags` are names as in `Tag`; texts have none.
    """
    opened, alone, ends = list[int](), list[int](), dict[int, int]()
    for number, tag in enumerate(tags):
        if not tag.startswith("/"):
            opened += [number] if tag not in ("", "!") else []
        elif not opened:
            alone.append(number)
        elif tags[opened[-1]] == tag[1:]:
            ends[opened.pop()] = number
        else:
            return None
    return ends, alone + opened


def _elements(tags: Sequence[Tag]) -> list[_Element] | None:
    """Return the elements that `tags` form, outer ones first; None if they are not nested, or one is empty."""
    ends, alone = pair_tags([tag.name for tag in tags]) or ({}, [0])
    elements = []
    for start, end in sorted(ends.items()):
        first, last = tags[start], tags[end]
        depth = sum(other < start and end < ends[other] for other in ends)
        elements.append(_Element(first.offset, last.offset, first, last, depth))
    return None if alone or any(each.start == each.end for each in elements) else elements


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
            if outer.depth < inner.depth and outer.start <= inner.start and inner.end <= outer.end:
                outer.first, outer.last = min(outer.first, inner.first), max(outer.last, inner.last)
    for number, element in enumerate(elements):
        for other in elements[number + 1 :]:
            if element.depth < other.depth and element.start <= other.start and other.end <= element.end:
                continue
            left, right = (element, other) if element.first <= other.first else (other, element)
            if left.last >= right.first:
                if left.first == right.first or element.depth or other.depth:
                    return False
                left.last = right.first - 1
    return True


def _join(elements: Sequence[_Element], alone: Mapping[int, Sequence[Tag]], words: Sequence[str]) -> list[str | Tag]:
    opening, closing = defaultdict[int, list[Tag]](list), defaultdict[int, list[Tag]](list)  # by the number of a word
    for element in elements:
        opening[element.first].append(element.opening)
        closing[element.last].insert(0, element.closing)
    joined: list[str | Tag] = [*alone.get(-1, ())]
    for number, word in enumerate(words):
        body = word.strip()
        lead, tail = word[: len(word) - len(word.lstrip())], word[len(word.rstrip()) :] if body else ""
        joined += [lead, *opening[number], body, *closing[number]]
        for tag in alone.get(number, ()):
            joined += [" ", tag]
        joined.append(tail)
    return joined
