"""Training pairs with annotated terms: `data.glossary`.

The terms of a pair are words that translate each other according to the lexicon of the corpus. In some pairs, the
target words are replaced by words of another pair. Otherwise the model could ignore the annotation, because it would
choose the same words anyway.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

from nmt.base.languages import Direction, written_without_spaces
from nmt.data.lexicon.term_lexicon import Link, Range, SideWords, TermLexicon
from nmt.data.text.augment import TextPair
from nmt.data.text.glossary import Match, Term, annotation
from nmt.data.text.spans import Span, replace_spans
from nmt.data.tokens.tokenizer import Tokenizer, TokenizerPair

SUBSTITUTE_SHARE = 0.5  # of the annotated pairs: words of another pair replace the target words of terms
MAX_TERMS = 3  # maximum number of terms per pair
MAX_WORDS = 3  # maximum number of words per term


class TokenizedPair(NamedTuple):
    """The stored tokens of a pair, and the text that they spell."""

    texts: TextPair
    src_ids: list[int]
    tgt_ids: list[int]


class TermAnnotator:
    """Annotates terms in pairs of one direction."""

    def __init__(self, lexicon: TermLexicon, tokenizers: TokenizerPair, direction: Direction):
        self._lexicon = lexicon
        self._spaced_tgt = not written_without_spaces(direction.tgt)
        self._src = _WordFinder(tokenizers.src, written_without_spaces(direction.src))
        self._tgt = _WordFinder(tokenizers.tgt, written_without_spaces(direction.tgt))

    def annotate(self, pair: TokenizedPair, draw: random.Random, other: TokenizedPair | None = None) -> TextPair:
        """Return `pair` with some terms annotated; unchanged if the lexicon links none of its words.

        `other` is a pair whose target words may replace those of the terms.
        """
        words = self._src.words(pair.src_ids), self._tgt.words(pair.tgt_ids)
        links = self._draw_links(self._lexicon.links((pair.src_ids, pair.tgt_ids), words), words, draw)
        substitute = draw.random() < SUBSTITUTE_SHARE
        edits: list[tuple[Span, str, Span, str]] = []
        for link in links:
            src = self._src.span(pair.src_ids, pair.texts.src, _tokens(words[0], link.src))
            tgt = self._tgt.span(pair.tgt_ids, pair.texts.tgt, _tokens(words[1], link.tgt))
            if src is None or tgt is None:
                continue
            target = (other and substitute and self._draw_words(other, draw)) or pair.texts.tgt[tgt.start : tgt.end]
            term = Match(*src, Term(pair.texts.src[src.start : src.end], target))
            edits.append((src, annotation(pair.texts.src, term, self._spaced_tgt), tgt, target))
        by_src, by_tgt = sorted(edits), sorted(edits, key=lambda edit: edit[2])
        return TextPair(
            replace_spans(pair.texts.src, [edit[0] for edit in by_src], [edit[1] for edit in by_src]),
            replace_spans(pair.texts.tgt, [edit[2] for edit in by_tgt], [edit[3] for edit in by_tgt]),
        )

    def _draw_links(self, links: Sequence[Link], words: SideWords, draw: random.Random) -> list[Link]:
        """Draw terms of one or more adjacent links, without overlaps."""
        free, found = sorted(link for link in links if _size(link) <= MAX_WORDS), list[Link]()
        count = 1 + int(draw.random() * MAX_TERMS)
        while free and len(found) < count:
            first = int(draw.random() * len(free))
            size, last = 1 + int(draw.random() ** 2 * MAX_WORDS), first  # mostly one word
            term = free[first]
            while last + 1 < len(free) and (joined := _join(term, free[last + 1])) and _size(joined) <= size:
                term, last = joined, last + 1
            del free[first : last + 1]
            if all(_adjacent(side, range(*numbers)) for side, numbers in zip(words, term, strict=True)):
                found.append(term)
        return found

    def _draw_words(self, pair: TokenizedPair, draw: random.Random) -> str:
        """Draw one or more adjacent target words of `pair`; empty if it has none."""
        words = self._tgt.words(pair.tgt_ids)
        if not words:
            return ""
        start = int(draw.random() * len(words))
        size, end = 1 + int(draw.random() ** 2 * MAX_WORDS), start + 1
        while end < len(words) and end - start < size and _adjacent(words, range(end - 1, end + 1)):
            end += 1
        span = self._tgt.span(pair.tgt_ids, pair.texts.tgt, _tokens(words, (start, end)))
        return "" if span is None else pair.texts.tgt[span.start : span.end]


def _join(one: Link, two: Link) -> Link | None:
    """Return two links as one if they are adjacent on both sides, else None."""
    tgts = sorted((one.tgt, two.tgt))
    if one.src[1] != two.src[0] or tgts[0][1] != tgts[1][0]:
        return None
    return Link((one.src[0], two.src[1]), (tgts[0][0], tgts[1][1]))


def _size(link: Link) -> int:
    """Return the number of source words."""
    return link.src[1] - link.src[0]


def _adjacent(words: Sequence[Range], numbers: range) -> bool:
    """Return whether there are no other tokens between the words with these numbers."""
    return all(words[number][1] == words[number + 1][0] for number in numbers[:-1])


def _tokens(words: Sequence[Range], numbers: Range) -> Range:
    """Return the token range of a range of words."""
    return words[numbers[0]][0], words[numbers[1] - 1][1]


class _WordFinder:
    """Finds the words in the tokens of one side."""

    def __init__(self, tokenizer: Tokenizer, without_spaces: bool):
        self._tokenizer = tokenizer
        tokens = tokenizer.vocabulary
        self._begins_word = [without_spaces or token.startswith("▁") for token in tokens]
        marks = (i for i, token in enumerate(tokens) if i < 4 or (token != "▁" and not any(map(str.isalnum, token))))
        symbols = map(tokenizer.id_of, tokenizer.user_symbols)
        self._no_words = {*tokenizer.byte_tokens, *marks, *(i for i in symbols if i is not None)}

    def words(self, ids: Sequence[int]) -> list[Range]:
        """Return the token ranges of words; in a language without spaces, each token is a word.

        Punctuation, symbols and characters spelled as bytes are not words.
        """
        are_words = [token not in self._no_words for token in ids]
        starts = [
            i for i, token in enumerate(ids) if i == 0 or self._begins_word[token] or are_words[i] != are_words[i - 1]
        ]
        ranges = zip(starts, [*starts[1:], len(ids)], strict=True)
        return [(start, end) for start, end in ranges if self._no_words.isdisjoint(ids[start:end])]

    def span(self, ids: Sequence[int], text: str, tokens: Range) -> Span | None:
        """Return the span of a range of `tokens` in the `text` that `ids` spell, without white space around it.

        None if the tokens do not spell a part of the text.
        """
        before, through = (self._tokenizer.decode(ids[:end]) for end in tokens)
        if not (text.startswith(through) and through.startswith(before)):
            return None
        stretch = text[len(before) : len(through)]
        start = len(before) + len(stretch) - len(stretch.lstrip())
        return Span(start, start + len(stretch.strip())) if stretch.strip() else None
