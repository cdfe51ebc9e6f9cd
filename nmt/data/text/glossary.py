"""A glossary: find its terms in texts, and annotate them for a model.

An annotated source gives the translation of a term (Dinu et al. 2019, section 2, "append"), between symbols that are
one token each: `the ⟦term⟧ cat⟦as⟧ Katze⟦/term⟧ sleeps`.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from nmt.base.errors import DataError
from nmt.data.text.glossary_words import Word, cuts_word, fits_case, may_begin, may_end, words_of
from nmt.data.text.spans import Span

TERM_SYMBOLS = ("⟦term⟧", "⟦as⟧", "⟦/term⟧")
"""The symbols before a term, between the term and its translation, and after both."""

MAX_WORDS = 50
"""Maximum number of words in a term; in scripts without spaces, of characters."""

MAX_CHARACTERS = 500
"""Maximum number of characters in a term."""


_FORMS: tuple[Literal["NFC"], Literal["NFD"]] = ("NFC", "NFD")


class Term(NamedTuple):
    """A term and its translation."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source} = {self.target}"


class Match(NamedTuple):
    """A term at [start, end) of a text."""

    start: int
    end: int
    term: Term


class Glossary:
    """Terms that can be found in texts.

    >>> cats = Glossary({"Katze": "feline", "schwarze Katze": "panther"})
    >>> [match.term.target for match in cats.find("Eine schwarze Katze und eine Katze")]
    ['panther', 'feline']
    """

    def __init__(self, terms: Mapping[str, str] | Iterable[tuple[str, str]] = ()):
        """Add `terms`. DataError if a term or its translation cannot be used, or a term has two translations."""
        pairs = terms.items() if isinstance(terms, Mapping) else terms
        self._nodes: dict[tuple[int, str], int] = {}  # a trie: (node, case-folded word) to the next node
        self._terms: dict[int, list[Term]] = {}  # by the node where they end; they may differ in case
        self._num_nodes = 1
        self._targets: dict[str, str] = {}
        for source, target in pairs:
            self.add(source, target)

    def __len__(self) -> int:
        return len(self._targets)

    @property
    def terms(self) -> list[Term]:
        """The terms, in the order of their addition."""
        return [Term(source, target) for source, target in self._targets.items()]

    def find(self, text: str, taken: Sequence[Span] = ()) -> list[Match]:
        """Return the terms in `text`, in order and without overlaps: the longest match at each position.

        No match starts or ends inside a word, and none overlaps the spans in `taken` (ascending).
        """
        words = list(words_of(text))
        matches: list[Match] = []
        number, next_taken = 0, 0
        while number < len(words):
            start = words[number].start
            while next_taken < len(taken) and taken[next_taken].end <= start:
                next_taken += 1
            limit = taken[next_taken].start if next_taken < len(taken) else len(text)
            length, match = self._longest(text, words, number, limit)
            if match is not None:
                matches.append(match)
            number += max(1, length)
        return matches

    def add(self, source: str, target: str) -> None:
        """Add a term. DataError if it cannot be used, or already has another translation."""
        term = Term(" ".join(source.split()), " ".join(target.split()))
        if message := _fault_of(term):
            raise DataError(message)
        known = self._targets.setdefault(term.source, term.target)
        if known != term.target:
            raise DataError(f'"{term.source}" has two translations: "{known}" and "{term.target}"')
        # A text may encode é as one character or as two.
        for source in {term.source, *(unicodedata.normalize(form, term.source) for form in _FORMS)}:
            node = 0
            for word in words_of(source):
                node = self._next_node(node, word.text.casefold())
            self._terms.setdefault(node, []).append(Term(source, term.target))

    def _longest(self, text: str, words: Sequence[Word], number: int, limit: int) -> tuple[int, Match | None]:
        """Return the longest term from word `number` on, before the position `limit`, and its number of words."""
        found: tuple[int, Match | None] = (0, None)
        node, start = 0, words[number].start
        for length in range(1, len(words) - number + 1):
            word = words[number + length - 1]
            node = self._nodes.get((node, word.text.casefold()), -1)
            if node < 0 or word.end > limit:
                break
            if (terms := self._terms.get(node)) and may_end(text, start, word.end):
                written = " ".join(text[start : word.end].split())
                fitting = [term for term in terms if fits_case(term.source, written)]
                exact = [term for term in fitting if term.source == written]
                if fitting:
                    found = length, Match(start, word.end, (exact or fitting)[0])
        return found if found[1] is not None and may_begin(text, start) else (0, None)

    def _next_node(self, node: int, word: str) -> int:
        following = self._nodes.setdefault((node, word), self._num_nodes)
        self._num_nodes += following == self._num_nodes
        return following


def missed_terms(terms: Sequence[Term], output: str) -> list[Term]:
    """Return those `terms` whose translation is missing in `output`; each must occur as often as in `terms`."""
    if _have_each(output, [term.target for term in terms]):
        return []
    targets = Glossary({term.target: term.target for term in terms})
    found = Counter(match.term.target for match in targets.find(output))
    missed = []
    for term in terms:
        if found[term.target] > 0:
            found[term.target] -= 1
        else:
            missed.append(term)
    return missed


def _have_each(output: str, targets: Sequence[str]) -> bool:
    """Return whether `output` certainly contains all `targets` verbatim: a fast check for the usual case."""
    for target in targets:
        start, end = (found := output.find(target)), found + len(target)
        if start < 0 or cuts_word(output, start) or cuts_word(output, end):
            return False
        if not (may_begin(output, start) and may_end(output, start, end)):
            return False
    lines = "\n".join(targets)
    return all(lines.count(target) == 1 for target in targets)  # else one occurrence might be counted twice


def annotation(text: str, match: Match, spaced_target: bool) -> str:
    """Return the annotation that replaces `match` in `text`.

    `spaced_target` tells whether the target language separates words by spaces. The spaces make the tokenizer segment
    the words as it does elsewhere.
    """
    begin, between, end = TERM_SYMBOLS
    before = " " if match.start == 0 or text[match.start - 1].isspace() else ""
    space = " " if spaced_target else ""
    return f"{begin}{before}{text[match.start : match.end]}{between}{space}{match.term.target}{end}"


def _fault_of(term: Term) -> str:
    """Return the error in a term; empty if there is none."""
    for side, text in zip(("source", "target"), term, strict=True):
        if not text:
            return f"the {side} of a term is empty"
        if not any(map(str.isalnum, text)):
            return f"the {side} of the term {term} has neither a letter nor a digit"
        if len(text) > MAX_CHARACTERS or sum(1 for _ in words_of(text)) > MAX_WORDS:
            return f"the {side} of a term is longer than {MAX_WORDS} words or {MAX_CHARACTERS} characters: {text[:60]}…"
        if symbol := next((symbol for symbol in TERM_SYMBOLS if symbol in text), None):
            return f"the {side} of the term {term} contains {symbol}, which is reserved for annotations"
    return ""
