"""Protected spans of a source text: placeholders for them, and whether a translation brings each back exactly once."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from typing import NamedTuple

from nmt.data.spans import ANY_PLACEHOLDER, NUM_PLACEHOLDERS, PLACEHOLDERS, Span, find_spans, replace_spans

_DOUBLE_SPACE = re.compile(r" {2,}")


class Restored(NamedTuple):
    """A translation with its spans put back."""

    text: str
    lost: list[str]  # spans of the source that did not come back exactly once, in their order


def missing(spans: Sequence[str], text: str) -> list[str]:
    """Those of `spans` that are not to be found in `text` as often as there are of them."""
    wanted = Counter(spans)
    found = Counter(text[span.start : span.end] for span in find_spans(text))
    return [span for span, count in wanted.items() if found[span] != count]


class Protected(NamedTuple):
    """A source text with placeholders for its spans."""

    text: str
    spans: list[str]  # what placeholder 1, 2, … stands for

    @classmethod
    def from_spans(cls, text: str, spans: Sequence[Span]) -> Protected:
        """Return `text` with placeholders for `spans`; later ones than there are placeholders stay as they are."""
        kept = spans[:NUM_PLACEHOLDERS]
        masked = replace_spans(text, kept, PLACEHOLDERS[: len(kept)])
        return cls(masked, [text[span.start : span.end] for span in kept])

    def is_only_spans(self) -> bool:
        """Whether there is nothing to translate."""
        return bool(self.spans) and not ANY_PLACEHOLDER.sub("", self.text).strip()

    def restore(self, translation: str) -> Restored:
        """Put the spans back. What stands for none, or for one that is there already, is left out.

        Where a span would run into its neighbor (a URL and the word after it), spaces keep them apart.
        """
        if not self.spans and not ANY_PLACEHOLDER.search(translation):
            return Restored(translation, [])
        found = Counter(ANY_PLACEHOLDER.findall(translation))
        known = dict(zip(PLACEHOLDERS, self.spans, strict=False))
        if not (found.keys() <= known.keys() and max(found.values(), default=0) <= 1):
            translation = _DOUBLE_SPACE.sub(" ", _without_strangers(translation, known)).strip()
        text = ANY_PLACEHOLDER.sub(lambda match: known[match[0]], translation)
        lost = [span for symbol, span in known.items() if found[symbol] != 1]
        if lost or not missing(self.spans, text):
            return Restored(text, lost)
        apart = ANY_PLACEHOLDER.sub(lambda match: f" {known[match[0]]} ", translation)
        apart = _DOUBLE_SPACE.sub(" ", apart).strip()
        return Restored(apart, []) if not missing(self.spans, apart) else Restored(text, missing(self.spans, text))

    def between(self) -> list[str]:
        """The stretches before, between and after the spans: one more than there are spans."""
        return ANY_PLACEHOLDER.split(self.text)


def _without_strangers(translation: str, known: Collection[str]) -> str:
    """`translation` with the first of each known placeholder, and no other."""
    seen: set[str] = set()

    def kept(match: re.Match[str]) -> str:
        if match[0] not in known or match[0] in seen:
            return ""
        seen.add(match[0])
        return match[0]

    return ANY_PLACEHOLDER.sub(kept, translation)
