"""Turn texts of any length into segments: one or a few sentences each, with placeholders for protected spans."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import cache, cached_property
from typing import NamedTuple

from nmt.base.languages import Direction, spaces_between_sentences, written_without_spaces
from nmt.base.machine import num_cores
from nmt.base.patterns import any_of
from nmt.config import SearchOptions
from nmt.data.read.lines import without_surrogates
from nmt.data.text.characters import AS_READ, AS_WRITTEN, CharacterRule, edges, list_marker, within_symbols
from nmt.data.text.glossary import Glossary, TermMatch
from nmt.data.text.spans import (
    NUM_PLACEHOLDERS,
    OWNED_SIGN,
    PLACEHOLDERS,
    Span,
    find_spans,
    is_symbol,
    matches_outside,
    within,
)
from nmt.data.text.tags import output_tags
from nmt.data.text.text_statistics import UNKNOWN, TextStatistics
from nmt.data.text.words import UNSEEN, unseen_words
from nmt.data.tokens.tokenizer import TokenizerPair
from nmt.translation.languages import DirectedText, LanguagePair
from nmt.translation.protect import Protected, words_lacking
from nmt.translation.request import Request
from nmt.translation.segments import Frame, Habits, MemoryMatch, Segment
from nmt.translation.split import Range, TextSpan, TextSplitter

_TEXTS_OF_A_THREAD = 128  # to tokenize; with fewer, starting the thread would cost more than it saves
# Tokens, more than any text has. A part with more spans than placeholders counts as so long, and is split. If nothing
# may be split, this is also the limit, which such a part then keeps.
_TOO_MANY = 1 << 30
_LETTERS = "A-Za-zÀ-ÖØ-öø-ıĴ-žЀ-џ"
PLAIN = re.compile(
    rf"[{_LETTERS}](?:[{_LETTERS} ,]++|-(?=[{_LETTERS}]{{2}})|(?<=[{_LETTERS}])'(?=[{_LETTERS}])"
    rf"|(?<= )\d{{1,4}}(?=[ ,]))*+(?<=[{_LETTERS}])[.!?]?"
)
"""One sentence of plain words, as 98% of the lines of Multi30k are (docs/log/translation-speed.md, 2026-11-28).

Without two spaces in a row, no rule for texts applies to it: it has no span, no symbol, no list marker, no number to
split at, and one reading. So it may become a segment at once.
"""


class SegmentedText(NamedTuple):
    """A text with its segments; a blank text has no segments."""

    text: str
    lead: str  # white space before the first segment
    segments: list[Segment]
    spans: list[Span] | None  # the protected spans, in order; None if protection is off
    direction: Direction
    tag: str = ""  # prepended to each segment
    statistics: TextStatistics | None = None  # of the training text; None: unknown

    @property
    def num_tokens(self) -> int:
        """The number of source tokens, before truncation."""
        return sum(len(segment.src_ids) for segment in self.segments)

    @property
    def known(self) -> MemoryMatch | None:
        """The translation that the memory has for all of the text; None if there is none."""
        written = [segment.known.target + segment.space for segment in self.segments if segment.known is not None]
        if not written or len(written) < len(self.segments):
            return None
        return MemoryMatch(self.text.strip(), "".join(written).strip(), 1.0)

    def separate(self) -> list[tuple[SegmentedText, str]]:
        """Return each segment as a text of its own, with the white space to write after its translation.

        `lead`, and then each translation with its white space, is the translation of the whole text.
        """
        texts: list[tuple[SegmentedText, str]] = []
        for segment in self.segments:
            start, end, _, cut = segment.span
            symbols = segment.tags[0][len(self.tag) :]  # the user symbols of the text, repeated before each segment
            text = symbols + self.text[start:end]
            inside = [span.shifted(len(symbols) - start) for span in within(self.spans or [], start, end)]
            alone = replace(segment, span=TextSpan(0, len(text), "", cut), space="")
            of_segment = None if self.spans is None else inside
            texts.append((self._replace(text=text, lead="", segments=[alone], spans=of_segment), segment.space))
        return texts


class TextSegmenter:
    """Turns texts into segments for a model."""

    def __init__(
        self,
        tokenizers: TokenizerPair,
        languages: LanguagePair,
        max_src_len: int,
        statistics: TextStatistics | None = None,
    ):
        """Set the limit to `max_src_len`, the maximum source length in tokens, eos included.

        `statistics` tell what the model was trained on. Without them, it is assumed to translate single sentences, and
        no text without letters.
        """
        self.tokenizers = tokenizers
        self.languages = languages
        self.statistics = statistics
        self.limit = max_src_len - 1  # eos
        known = statistics or UNKNOWN
        self._max_sentences = known.max_sentences  # computed once
        # The model was trained with data.protect, long enough to copy placeholders.
        self.knows_placeholders = known.copies_placeholders and tokenizers.know(PLACEHOLDERS)
        self.habits = cache(self._habits)
        self._known = known
        self._not_spans = {*languages.user_symbols, *known.left_out_tokens.split()}
        symbol = any_of(languages.user_symbols)
        self._symbol = re.compile(symbol)
        self._leading_symbols = re.compile(rf"\s*(?:(?:{symbol})\s*)+")
        self.output_tags = output_tags(tokenizers.tgt, languages.language_tags)
        self._cannot_read = cache(tokenizers.src.lacks)
        self.lacks = cache(lambda character: self._cannot_read(character) or tokenizers.tgt.lacks(character))

    @cached_property
    def characters(self) -> CharacterRule:
        """The rule by which the model reads characters: that of its training, or one that its vocabulary tells."""
        if self.languages.characters == "normalized":
            return AS_READ
        return replace(AS_READ, learned=frozenset(" ".join(self.tokenizers.src.vocabulary)))

    def segment(self, texts: Sequence[str], request: Request) -> list[SegmentedText]:
        """Split each of `texts` into segments as `request` asks.

        The tag of a text and the user symbols at its beginning are prepended to each of its segments.
        """
        directed = [self.languages.direct(text, request.to, request.from_) for text in texts]
        prefixes = request.prefixes(len(texts))
        plain = replace(request, prefix="")
        segmentations = [
            self._segmentation(text, replace(request, prefix=prefix) if prefix else plain)
            for text, prefix in zip(directed, prefixes, strict=True)
        ]
        sources = (source for segmentation in segmentations for source in segmentation.sources())
        share = len(texts) // _TEXTS_OF_A_THREAD
        threads = min(num_cores(), share) if share > 1 else 1  # files tell the number of cores
        encoded = iter(self.tokenizers.src.encode_batch(sources, threads))
        segmented = [segmentation.finish(encoded) for segmentation in segmentations]
        for text, prefix in zip(segmented, prefixes, strict=True):
            if text.segments and prefix:
                first = text.segments[0]
                first.prefix = AS_WRITTEN(without_surrogates(prefix))
                first.prefix_ids = self.tokenizers.tgt.encode(first.prefix)
        return segmented

    def _segmentation(self, directed: DirectedText, request: Request) -> _Segmentation | _PlainSegmentation:
        text = directed.text
        is_plain = PLAIN.fullmatch(text) is not None and "  " not in text and not self.leading_symbols(text)
        kind = _PlainSegmentation if is_plain and request.glossary is None else _Segmentation
        return kind(self, directed, request)

    def add_draft(self, text: SegmentedText, draft: str) -> None:
        """Give a text of one segment a translation to expect."""
        if len(text.segments) == 1:
            (segment,) = text.segments
            for symbol, span in zip(PLACEHOLDERS, segment.protected.spans, strict=False):
                draft = draft.replace(span, symbol, 1)
            segment.draft_ids = self.tokenizers.tgt.encode(without_surrogates(draft).strip())

    def tgt_tag(self, direction: Direction) -> Sequence[int]:
        """Return the tokens at the beginning of an output in `direction`: the tag of its language, if there is one."""
        return self.output_tags.ids.get(direction.tgt, ())

    def _habits(self, direction: Direction) -> Habits:
        known = self._known
        left_out = known.kinds_left_out(direction)
        return Habits(direction, self.tgt_tag(direction), left_out, known.keeps_numbers, known.translates_numbers_alone)

    def protects(self, options: SearchOptions) -> bool:
        """Return True if `options` protect spans, and the model was trained to copy their placeholders."""
        return options.protect and self.knows_placeholders

    def max_sentences(self, options: SearchOptions) -> int | None:
        """Return the largest number of sentences that one line may have without being split; None: any number."""
        return {"auto": self._max_sentences, "always": 1}.get(options.split)

    def find_spans(self, text: str, request: Request) -> list[Span]:
        """Return the spans of `text` that `request` protects, in order, with the signs that the vocabulary lacks.

        Those that most targets of training lack are none.
        """
        if not request.options.protect:
            return []
        spans = find_spans(text, self._not_spans)
        signs = matches_outside(OWNED_SIGN, text, spans)
        lacking = [sign for sign in signs if self.lacks(sign["sign"]) and sign[0] not in self._not_spans]
        return sorted(spans + [Span(*sign.span()) for sign in lacking])

    def unknown_words(self, text: str, left_out: Collection[str]) -> list[str]:
        """Return the words of `text`, without its spans, in alphabets, with a letter that the source vocabulary lacks.

        With them, words and tokens that training has not seen, but not of kinds that are often `left_out`.
        """
        rest = self._symbol.sub(" ", text)
        unseen = unseen_words(rest, self._known.octaves, self._known.trigrams) if UNSEEN not in left_out else ()
        return words_lacking(text, self._cannot_read) + [word for word, kind in unseen if kind not in left_out]

    def find_terms(self, text: str, spans: Sequence[Span], glossary: Glossary) -> list[TermMatch]:
        """Return the terms in `text` that are not inside any of `spans` or a user symbol."""
        symbols = (Span(*match.span()) for match in self._symbol.finditer(text))
        return glossary.find(text, sorted([*spans, *symbols]))

    def leading_symbols(self, text: str, start: int = 0) -> str:
        """Return the user symbols at position `start` of `text`, with the white space after them."""
        match = self._leading_symbols.match(text, start)
        return match[0].lstrip() if match else ""


class _PlainSegmentation(NamedTuple):
    """A `PLAIN` text on its way to its segment: the same one as by `_Segmentation`, in a quarter of the time."""

    segmenter: TextSegmenter
    directed: DirectedText
    request: Request

    def sources(self) -> list[str]:
        """Return what the model reads."""
        return [self.directed.tag + self.directed.text]

    def finish(self, encoded: Iterator[list[int]]) -> SegmentedText:
        """Return the text with its segment; `encoded` begins with the tokens of `sources`."""
        ids = next(encoded)
        segmenter = self.segmenter
        text, direction, tag = self.directed
        if len(ids) > segmenter.limit:  # it has to be split
            return _Segmentation(segmenter, self.directed, self.request).finish(iter([ids]))
        habits = segmenter.habits(direction)
        segment = Segment(
            ids,
            tgt_tag=habits.tgt_tag,
            text=text,
            protected=Protected([text], []),
            span=TextSpan(0, len(text), ""),
            habits=habits,
            tags=(tag, tag),
            terms=[],
            unknown=segmenter.unknown_words(text, habits.left_out),
        )
        spans: list[Span] | None = [] if self.request.options.protect else None
        return SegmentedText(text, "", [segment], spans, direction, tag, segmenter.statistics)


class _Segmentation:
    """A text on its way to its segments: what the tokenizer has to know of it, then the segments."""

    def __init__(self, segmenter: TextSegmenter, directed: DirectedText, request: Request):
        self.segmenter = segmenter
        self.direction = directed.direction
        self.tag = directed.tag
        self.options = options = request.options
        # The text as written, and `text`, as the model reads it: position i of that is `places[i]` as written.
        self.written = without_surrogates(directed.text)
        self.written_spans = segmenter.find_spans(self.written, request)
        self.text, self.spans, self.places = segmenter.characters.read(self.written, self.written_spans)
        text = self.text
        self.symbol_spans = {span for span in self.spans if is_symbol(text[span.start : span.end])}
        self.terms = segmenter.find_terms(text, self.spans, request.glossary) if request.glossary is not None else []
        self.symbols = segmenter.leading_symbols(text)
        # A prefix or a user symbol begins the text: no bracket or list marker is to be written before it.
        self.may_have_edges = request.prefix == "" and not self.symbols
        terms = (Span(match.start, match.end) for match in self.terms)
        unbroken = sorted([*terms, *(span for span in self.spans if span not in self.symbol_spans)])
        self.limit = segmenter.limit
        if options.split == "never":
            unbroken = [Span(0, len(text))]
            self.limit = _TOO_MANY
        self.splitter = TextSplitter(text, unbroken, self.direction.src, segmenter.max_sentences(options))
        self.units = {unit: self._protect(*unit) for unit in self.splitter.units}
        self._encoded: dict[Range, tuple[Protected, list[int]]] = {}  # by range: as the model reads it, and its tokens

    def sources(self) -> list[str]:
        """Return what the model reads of each line or sentence, to be tokenized."""
        return [self._tag_before(start) + protected.source for (start, _), protected in self.units.items()]

    def finish(self, encoded: Iterator[list[int]]) -> SegmentedText:
        """Return the text's segments; `encoded` are the tokens of `sources`, and of texts after this one."""
        self._encoded |= {unit: (protected, next(encoded)) for unit, protected in self.units.items()}
        lead, parts = self.splitter.split(self.limit, self._size)
        segments = [self._segment(part) for part in parts]
        for segment in segments[:-1]:
            segment.space = self._space_between(segment.span.space)
        spans = self.written_spans if self.options.protect else None
        return SegmentedText(self.written, lead, segments, spans, self.direction, self.tag, self.segmenter.statistics)

    def _size(self, start: int, end: int) -> int:
        """Return the number of tokens in a range; `_TOO_MANY` if it has more spans than there are placeholders."""
        is_over = self.segmenter.knows_placeholders and len(self._inside(start, end)) > NUM_PLACEHOLDERS
        return _TOO_MANY if is_over else len(self._encode(start, end)[1])

    def _encode(self, start: int, end: int) -> tuple[Protected, list[int]]:
        """Return a range of the text as the model reads it, and its tokens; keep them if they are within the limit."""
        if (encoded := self._encoded.get((start, end))) is None:
            protected = self._protect(start, end)
            encoded = protected, self.segmenter.tokenizers.src.encode(self._tag_before(start) + protected.source)
            if len(encoded[1]) <= self.segmenter.limit:
                self._encoded[start, end] = encoded
        return encoded

    def _segment(self, span: TextSpan) -> Segment:
        """Return the segment for a part of the text."""
        segmenter = self.segmenter
        protected, ids = self._encode(span.start, span.end)
        text = self.text[span.start : span.end]
        lead, tail = self._edges(span.start, span.end) if self.may_have_edges else ("", "")
        # The model does not see a pair of brackets, which it may leave open, nor marks that its vocabulary lacks.
        if is_hidden := any(mark in "([{" or segmenter.lacks(mark) for mark in lead + tail):
            protected, ids = self._encode(span.start + len(lead), span.end - len(tail))
        terms = [match.term for match in within(self.terms, span.start, span.end)]
        symbols = segmenter.leading_symbols(self.text, span.start)
        habits = segmenter.habits(self.direction)
        # Numbers and symbols alone are translated only by a model that was trained on such texts.
        is_translated = protected.has_words() or (
            not protected.is_only_spans() and (habits.translates_numbers_alone or bool(symbols))
        )
        marker = list_marker(protected.source) if self.may_have_edges else ""
        return Segment(
            ids,
            tgt_tag=habits.tgt_tag,
            text=text,
            protected=protected,
            span=span._replace(start=self.places[span.start], end=self.places[span.end]),
            habits=habits,
            space=span.space,
            tags=(self._tag_before(span.start), self.tag + (symbols or self.symbols)),
            terms=terms,
            frame=Frame(marker, lead, tail, is_hidden),
            is_verbatim=not (terms or is_translated),
            unknown=segmenter.unknown_words(protected.outside_spans(), habits.left_out),
        )

    def _tag_before(self, start: int) -> str:
        """Return the tag to prepend to a segment at `start`, with the symbols unless the segment has its own."""
        has_symbols = start <= self.splitter.units[0][0] or self.segmenter.leading_symbols(self.text, start)
        return self.tag + ("" if has_symbols else self.symbols)

    def _edges(self, start: int, end: int) -> tuple[str, str]:
        """Return the symbols and brackets around the words and the other spans of a range."""
        others = [span for span in self._inside(start, end) if span not in self.symbol_spans]
        return edges(Protected.from_spans(self.text, others, start, end).source)

    def _inside(self, start: int, end: int) -> Sequence[Span]:
        """Return the spans of a range, except for the symbols around it."""
        inside = within(self.spans, start, end)
        if self.symbol_spans.isdisjoint(inside):
            return inside
        words = within_symbols(self.text[start:end])
        return [
            span for span in inside if span not in self.symbol_spans or words.start <= span.start - start < words.end
        ]

    def _protect(self, start: int, end: int) -> Protected:
        """Return a range of the text, cut at its spans."""
        masks = self.segmenter.knows_placeholders
        return Protected.from_spans(self.text, self._inside(start, end), start, end, masks=masks)

    def _space_between(self, space: str) -> str:
        """Return the white space between the translations of sentences with `space` between them."""
        src = (self.direction.src, self.text)
        tgt = (self.direction.tgt, self.segmenter.tokenizers.tgt.letters)
        if not space and written_without_spaces(*src) and not written_without_spaces(*tgt):
            return " "
        no_spaces = spaces_between_sentences(*src) and not spaces_between_sentences(*tgt)
        return "" if no_spaces and not space.strip(" ") else space
