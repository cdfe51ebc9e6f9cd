"""Protected spans of a source text: replace them by placeholders, restore them, and find lost ones."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from nmt.data.text.spans import ANY_PLACEHOLDER, PLACEHOLDERS, Span, find_spans, has_letters, numbers_in, replace_spans

_DOUBLE_SPACE = re.compile(r" {2,}")


def lost_spans(spans: Sequence[str], text: str) -> list[str]:
    """Return the spans that `text` does not contain exactly as often as `spans` does."""
    wanted = Counter(spans)
    found = Counter(text[span.start : span.end] for span in find_spans(text))
    return [span for span, count in wanted.items() if found[span] != count]


class Protected(NamedTuple):
    """A source text with placeholders for its spans."""

    text: str
    spans: list[str]  # the texts that placeholders 1, 2, … stand for
    unmasked: str | None = None  # the text with its spans, for a model that does not copy placeholders

    @classmethod
    def from_spans(cls, text: str, spans: Sequence[Span], others: Sequence[tuple[Span, str]] = ()) -> Protected:
        """Replace `spans` in `text` by placeholders; spans beyond the number of placeholders stay unchanged.

        `others` are additional spans, each with its replacement.
        """
        kept = spans[: len(PLACEHOLDERS)]
        edits = sorted([*zip(kept, PLACEHOLDERS, strict=False), *others])
        masked = replace_spans(text, [span for span, _ in edits], [replacement for _, replacement in edits])
        return cls(masked, [text[span.start : span.end] for span in kept])

    @property
    def source(self) -> str:
        """The text that the model reads."""
        return self.text if self.unmasked is None else self.unmasked

    def has_letters(self) -> bool:
        """Return True if there are letters outside of the spans."""
        return has_letters(ANY_PLACEHOLDER.sub("", self.text) if self.spans else self.text)

    def is_only_spans(self) -> bool:
        """Return True if the text consists only of spans, so that there is nothing to translate."""
        return bool(self.spans) and not ANY_PLACEHOLDER.sub("", self.text).strip()

    def numbers(self) -> list[str]:
        """Return the numbers outside of the spans."""
        return numbers_in(ANY_PLACEHOLDER.sub(" ", self.text) if self.spans else self.text)

    def without_spans(self, text: str) -> str:
        """Return `text`, the translation or its source, without the spans and placeholders."""
        for span in sorted(self.spans, key=len, reverse=True):  # one may begin with another
            text = text.replace(span, " ")
        return ANY_PLACEHOLDER.sub(" ", text) if self.spans else text

    def begins_with_span(self) -> bool:
        """Return True if there is nothing to translate before the first span."""
        return bool(self.spans) and not self.between()[0].strip()

    def restore(self, translation: str) -> tuple[str, list[str]]:
        """Restore the spans; return the text, and the spans that it does not contain exactly once, in source order.

        Placeholders that are unknown or repeated are dropped. Spaces separate a span from its neighbor if the two would
        merge, such as a URL and the word after it.
        """
        if self.unmasked is not None:
            if ANY_PLACEHOLDER.search(translation) and not ANY_PLACEHOLDER.search(self.unmasked):
                translation = _DOUBLE_SPACE.sub(" ", ANY_PLACEHOLDER.sub("", translation)).strip()
            return translation, lost_spans(self.spans, translation)
        if not self.spans and not ANY_PLACEHOLDER.search(translation):
            return translation, []
        found = Counter(ANY_PLACEHOLDER.findall(translation))
        known = dict(zip(PLACEHOLDERS, self.spans, strict=False))
        if not (found.keys() <= known.keys() and max(found.values(), default=0) <= 1):
            unused = dict(zip(known, known, strict=True))
            translation = ANY_PLACEHOLDER.sub(lambda match: unused.pop(match[0], ""), translation)
            translation = _DOUBLE_SPACE.sub(" ", translation).strip()
        text = ANY_PLACEHOLDER.sub(lambda match: known[match[0]], translation)
        lost = [span for symbol, span in known.items() if found[symbol] != 1]
        if lost or not lost_spans(self.spans, text):
            return text, lost
        apart = ANY_PLACEHOLDER.sub(lambda match: f" {known[match[0]]} ", translation)
        apart = _DOUBLE_SPACE.sub(" ", apart).strip()
        return (apart, []) if not lost_spans(self.spans, apart) else (text, lost_spans(self.spans, text))

    def between(self) -> list[str]:
        """Return the text before, between and after the spans: n + 1 strings for n spans."""
        return ANY_PLACEHOLDER.split(self.text)
