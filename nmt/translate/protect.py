"""Protected spans of a source text: placeholders for them, and whether a translation brings each back exactly once."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from nmt.data.spans import ANY_PLACEHOLDER, NUM_PLACEHOLDERS, PLACEHOLDERS, Span, replace_spans

_DOUBLE_SPACE = re.compile(r" {2,}")


class Restored(NamedTuple):
    """A translation with its spans put back."""

    text: str
    lost: list[str]  # spans of the source that did not come back exactly once, in their order


class Masked(NamedTuple):
    """A source text with placeholders for its spans."""

    text: str
    spans: list[str]  # what placeholder 1, 2, … stands for

    @classmethod
    def of(cls, text: str, spans: Sequence[Span]) -> Masked:
        """`text` with `spans` masked, as far as there are placeholders; later ones stay as they are."""
        kept = spans[:NUM_PLACEHOLDERS]
        masked = replace_spans(text, kept, PLACEHOLDERS[: len(kept)])
        return cls(masked, [text[span.start : span.end] for span in kept])

    def is_only_spans(self) -> bool:
        """Whether there is nothing to translate."""
        return bool(self.spans) and not ANY_PLACEHOLDER.sub("", self.text).strip()

    def restore(self, translation: str) -> Restored:
        """Put the spans back. What stands for none, or for one that is there already, is left out."""
        found = Counter(ANY_PLACEHOLDER.findall(translation))
        known = dict(zip(PLACEHOLDERS, self.spans, strict=False))
        lost = [span for symbol, span in known.items() if found[symbol] != 1]
        seen: set[str] = set()

        def put_back(match: re.Match[str]) -> str:
            first = match[0] not in seen
            seen.add(match[0])
            return known.get(match[0], "") if first else ""

        text = ANY_PLACEHOLDER.sub(put_back, translation)
        if found.keys() - known.keys() or max(found.values(), default=0) > 1:
            text = _DOUBLE_SPACE.sub(" ", text).strip()
        return Restored(text, lost)

    def between(self) -> list[str]:
        """The stretches before, between and after the spans: one more than there are spans."""
        return ANY_PLACEHOLDER.split(self.text)
