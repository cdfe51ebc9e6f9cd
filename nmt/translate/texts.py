"""Turn texts of any length into segments: split them at the model's limit, with placeholders for protected spans."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from nmt.config import SearchOptions
from nmt.data.glossary import TERM_SYMBOLS, Glossary, Match, Term, annotation
from nmt.data.sentencepiece_training import without_surrogates
from nmt.data.spans import NUM_PLACEHOLDERS, PLACEHOLDERS, Span, find_spans
from nmt.data.tags import output_tags
from nmt.data.tokenizer import TokenizerPair
from nmt.languages import Direction, written_without_spaces
from nmt.translate.languages import DirectedText, LanguagePair
from nmt.translate.protect import Protected
from nmt.translate.segments import Segment, SegmentTranslation
from nmt.translate.split import Part, split_text, whole

_TOO_MANY = 1 << 30  # tokens; reported for a part with more spans than placeholders, so that it is split


@dataclass
class TextSegment:
    """A segment of a text, with its translations so far."""

    segment: Segment
    protected: Protected
    part: Part
    tags: tuple[str, str]  # prepended to the segment, and to later parts of it that are translated separately
    prefix: str = ""
    hypotheses: list[SegmentTranslation] = field(default_factory=list)  # best first
    loop_retried: bool = False
    protected_retried: bool = False
    # Translations of the text between the protected spans, if no hypothesis keeps all spans.
    around: list[SegmentTranslation] | None = None
    terms: list[Term] = field(default_factory=list)  # glossary terms in the source


class SegmentedText(NamedTuple):
    """A text with its segments; a blank text has no segments."""

    text: str
    lead: str  # white space before the first segment
    segments: list[TextSegment]
    spans: list[str] | None  # the protected spans, in order; None if protection is off
    direction: Direction


class TextSegmenter:
    """Turns texts into segments for a model."""

    def __init__(self, tokenizers: TokenizerPair, languages: LanguagePair, max_src_len: int):
        """Set the limit to `max_src_len`, the maximum source length in tokens, eos included."""
        self.tokenizers = tokenizers
        self.languages = languages
        self.limit = max_src_len - 1  # eos
        self.knows_placeholders = tokenizers.know(PLACEHOLDERS)
        self.knows_terms = tokenizers.know(TERM_SYMBOLS)
        symbols = "|".join(re.escape(symbol) for symbol in sorted(languages.user_symbols, key=len, reverse=True))
        self.output_tags = output_tags(tokenizers.tgt, languages.language_tags)
        self._leading_symbols = re.compile(rf"\s*(?:(?:{symbols})\s*)+") if symbols else None
        self._symbol = re.compile(symbols) if symbols else None

    def segment(
        self,
        texts: Sequence[DirectedText],
        options: SearchOptions,
        prefixes: Sequence[str] | None = None,
        glossary: Glossary | None = None,
    ) -> list[SegmentedText]:
        """Split each of `texts` into segments according to `options.split` and `options.protect`.

        The translation of text i must begin with `prefixes[i]`. The tag of a text and the user symbols at its beginning
        are prepended to each of its segments. If the model was trained with terms, the terms of `glossary` are
        annotated in the segments.
        """
        protect = self.protects(options)
        splits = [_Splitter(self, text, protect, glossary) for text in texts]
        plain = self.tokenizers.src.encode_batch(split.whole_source() for split in splits)
        segmented = [split.segment(ids, options.split) for split, ids in zip(splits, plain, strict=True)]
        for text, prefix in zip(segmented, prefixes or (), strict=bool(prefixes)):
            if text.segments and prefix:
                first = text.segments[0]
                first.prefix = without_surrogates(prefix)
                first.segment = first.segment._replace(prefix_ids=self.tokenizers.tgt.encode(prefix))
        return segmented

    def tgt_tag(self, direction: Direction) -> Sequence[int]:
        """Return the tokens at the beginning of an output in `direction`: the tag of its language, if there is one."""
        return self.output_tags.ids.get(direction.tgt, ())

    def protects(self, options: SearchOptions) -> bool:
        """Return True if `options` protect spans, and the model was trained to copy their placeholders."""
        return options.protect and self.knows_placeholders

    def terms_to_keep(self, glossary: Glossary, text: str, options: SearchOptions) -> list[Match]:
        """Return the terms that a translation of `text` must keep: those outside of the spans `options` protect."""
        spans = find_spans(text, self.languages.user_symbols) if self.protects(options) else []
        return self.find_terms(glossary, text, spans)

    def find_terms(self, glossary: Glossary, text: str, spans: Sequence[Span]) -> list[Match]:
        """Return the terms in `text` that are not inside any of `spans` or a user symbol."""
        symbols = (Span(*match.span()) for match in self._symbol.finditer(text)) if self._symbol else ()
        return glossary.find(text, sorted([*spans, *symbols]))

    def leading_symbols(self, text: str, start: int = 0) -> str:
        """Return the user symbols at position `start` of `text`, with the white space after them."""
        match = self._leading_symbols.match(text, start) if self._leading_symbols else None
        return match[0].lstrip() if match else ""


class _Splitter:
    """Splits one text."""

    def __init__(
        self, segmenter: TextSegmenter, directed: DirectedText, protect: bool, glossary: Glossary | None = None
    ):
        self.segmenter = segmenter
        self.text = text = without_surrogates(directed.text)
        self.direction = directed.direction
        self.protect = protect
        self.spans = find_spans(text, segmenter.languages.user_symbols) if protect else []
        self.starts = [span.start for span in self.spans]
        self.ends = [span.end for span in self.spans]
        self.terms = segmenter.find_terms(glossary, text, self.spans) if glossary is not None else []
        self.whole = whole(text)
        self.tag = directed.tag
        self.tgt_tag = segmenter.tgt_tag(self.direction)
        self.symbols = segmenter.leading_symbols(text)
        self.protected = [self._stretch(part.start, part.end) for part in self.whole.parts]  # one, or none if blank

    def whole_source(self) -> str:
        """Return the whole text as one source, with its tag and placeholders; empty if it is blank."""
        return self.tag + self.protected[0].text if self.protected else ""

    def segment(self, ids: list[int], split: bool) -> SegmentedText:
        """Return the text's segments; `ids` are the tokens of the whole text as one source."""
        spans = [self.text[span.start : span.end] for span in self.spans] if self.protect else None
        has_lines = "\n" in self.text and "\n" in self.text.strip()
        too_many = len(self.spans) > NUM_PLACEHOLDERS
        if not split or not (has_lines or too_many or len(ids) > self.segmenter.limit):
            pairs = zip(self.protected, self.whole.parts, strict=True)
            tags = self.tag, self.tag + self.symbols
            terms = [match.term for match in self.terms]
            segments = [
                TextSegment(Segment(ids, tgt_tag=self.tgt_tag), protected, part, tags, terms=terms)
                for protected, part in pairs
            ]
            return SegmentedText(self.text, self.whole.lead, segments, spans, self.direction)
        whole = sorted([*self.spans, *(Span(match.start, match.end) for match in self.terms)])
        lead, parts = split_text(self.text, whole, self.direction.src, self.segmenter.limit, self._size)
        segments = []
        for part in parts:
            protected = self._stretch(part.start, part.end)
            before = self._tag_before(part.start)
            ids = self.segmenter.tokenizers.src.encode(before + protected.text)
            source = Segment(ids, tgt_tag=self.tgt_tag)
            later = self.tag + (self.segmenter.leading_symbols(self.text, part.start) or self.symbols)
            terms = [match.term for match in self._terms_inside(part.start, part.end)]
            segments.append(TextSegment(source, protected, part, (before, later), terms=terms))
        return SegmentedText(self.text, lead, segments, spans, self.direction)

    def _tag_before(self, start: int) -> str:
        """Return the tag to prepend to a segment at `start`, with the symbols unless the segment has its own."""
        is_first = start <= len(self.whole.lead)
        return self.tag + ("" if is_first or self.segmenter.leading_symbols(self.text, start) else self.symbols)

    def _inside(self, start: int, end: int) -> list[Span]:
        return self.spans[bisect_left(self.starts, start) : bisect_right(self.ends, end)]

    def _terms_inside(self, start: int, end: int) -> list[Match]:
        first = bisect_left(self.terms, start, key=lambda match: match.start)
        return self.terms[first : bisect_right(self.terms, end, key=lambda match: match.end)]

    def _stretch(self, start: int, end: int) -> Protected:
        if not self.spans and not self.terms:
            return Protected(self.text[start:end], [])
        inside = [Span(span.start - start, span.end - start) for span in self._inside(start, end)]
        return Protected.from_spans(self.text[start:end], inside, self._annotations(start, end))

    def _annotations(self, start: int, end: int) -> list[tuple[Span, str]]:
        """Return the terms in a range, as spans relative to it, with their replacements."""
        if not self.segmenter.knows_terms:
            return []
        spaced, stretch = not written_without_spaces(self.direction.tgt), self.text[start:end]
        moved = (m._replace(start=m.start - start, end=m.end - start) for m in self._terms_inside(start, end))
        return [(Span(match.start, match.end), annotation(stretch, match, spaced)) for match in moved]

    def _size(self, start: int, end: int) -> int:
        """Return the number of tokens in a range; `_TOO_MANY` if it has more spans than there are placeholders."""
        if len(self._inside(start, end)) > NUM_PLACEHOLDERS:
            return _TOO_MANY
        source = self._tag_before(start) + self._stretch(start, end).text
        return len(self.segmenter.tokenizers.src.encode(source))
