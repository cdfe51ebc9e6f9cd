"""A glossary: read it, and find its terms in texts.

For what a word is, see `term_words`.
"""

from __future__ import annotations

import logging
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from nmt.base.errors import DataError, require_type
from nmt.base.languages import UNSPACED
from nmt.base.patterns import lazy_pattern
from nmt.data.read.lines import read_lines
from nmt.data.text.characters import AS_READ, AS_WRITTEN
from nmt.data.text.spans import Span
from nmt.data.text.words import HANGUL, Word, cuts_term_word, term_words

_IS_UNSPACED = lazy_pattern(f"[{UNSPACED}]")
_IS_HANGUL = lazy_pattern(f"[{HANGUL}]")
_HANGUL_END = lazy_pattern(f"[{HANGUL}]+$")
_JOINERS = "\u200c\u200d"
_MIN_STEM = 2  # syllables of a Korean term that particles may follow: one syllable begins too many other words

_FEW_TERMS = 8  # whose targets are looked for one by one
# The longest term: more is a sentence, most often because a file has other columns. Chosen by hand.
MAX_WORDS = 50  # in scripts without spaces, characters
MAX_CHARACTERS = 500

log = logging.getLogger(__name__)

_FILE_FORM = "write a term, a tab and its translation on each line"


def may_begin(text: str, at: int) -> bool:
    """Return whether a term may start at position `at`, which must not be inside a word."""
    return not _is_joined(text, at) and not (at > 0 and _is_hangul(text[at - 1]) and _is_hangul(text[at]))


def may_end(text: str, start: int, end: int) -> bool:
    """Return whether text[start:end] may be a term, which must not end inside a word.

    Korean particles may follow a term of two syllables or more.
    """
    if _is_joined(text, end):
        return False
    if end == len(text) or not _is_hangul(text[end]):
        return True
    stem = _HANGUL_END.search(text[start:end])
    return stem is None or len(stem[0]) >= _MIN_STEM


def fits_case(entry: str, found: str) -> bool:
    """Return whether the glossary entry `entry` matches the spelling `found` in a text.

    An entry in lower case matches any case; an entry with capitals matches only the same capitals, or all upper case.
    """
    if entry == found or entry == entry.lower():
        return True
    return found == found.upper() and sum(map(str.isalpha, found)) > 1 and entry != entry.upper()


def _is_joined(text: str, at: int) -> bool:
    """Return whether the characters around position `at` belong to one word or one combined character."""
    if at <= 0 or at >= len(text):
        return False
    before = text[at - 1]
    after = text[at]
    if _is_mark(after):
        return not before.isspace()
    if not after.isalnum() or _IS_UNSPACED.match(after) or _is_hangul(after):
        return False
    return _is_mark(before) and not _IS_UNSPACED.match(before)


def _is_mark(character: str) -> bool:
    return character in _JOINERS or unicodedata.category(character).startswith("M")


def _is_hangul(character: str) -> bool:
    return _IS_HANGUL.match(character) is not None


class Term(NamedTuple):
    """A term and its translation."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source} = {self.target}"


class TermMatch(NamedTuple):
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
        self._targets: dict[str, str] = {}
        for source, target in pairs:
            for text in (source, target):
                require_type("each term", text, str, "a str")
            self.add(source, target)

    def __len__(self) -> int:
        return len(self._targets)

    @property
    def terms(self) -> list[Term]:
        """The terms, in the order of their addition."""
        return [Term(source, target) for source, target in self._targets.items()]

    def find(self, text: str, taken: Sequence[Span] = ()) -> list[TermMatch]:
        """Return the terms in `text`, in order and without overlaps: the longest match at each position.

        No match starts or ends inside a word, and none overlaps the spans in `taken` (ascending).
        """
        characters = list(text)
        for start, end in taken:
            characters[start:end] = "\0" * (end - start)  # which no term contains
        text = "".join(characters)
        words = list(term_words(text))
        matches: list[TermMatch] = []
        number = 0
        while number < len(words):
            length, match = self._longest(text, words[number : number + MAX_WORDS])
            if match is not None:
                matches.append(match)
            number += max(1, length)
        return matches

    def add(self, source: str, target: str) -> None:
        """Add a term. DataError if it cannot be used, or already has another translation."""
        source, target = " ".join(AS_READ(source).split()), " ".join(AS_WRITTEN(target).split())
        if message := _term_error(Term(source, target)):
            raise DataError(message)
        if (known := self._targets.setdefault(source, target)) != target:
            raise DataError(f'"{source}" has two translations: "{known}" and "{target}"')
        # A text may encode é as one character or as two.
        for spelling in {source, unicodedata.normalize("NFD", source)}:
            node = 0
            for word in term_words(spelling):
                node = self._nodes.setdefault((node, word.text.casefold()), len(self._nodes) + 1)
            self._terms.setdefault(node, []).append(Term(spelling, target))

    def _longest(self, text: str, words: Sequence[Word]) -> tuple[int, TermMatch | None]:
        """Return the longest term that begins with the first of `words`, and its number of words."""
        found: tuple[int, TermMatch | None] = (0, None)
        node = 0
        start = words[0].start
        for length, word in enumerate(words, 1):
            node = self._nodes.get((node, word.text.casefold()), -1)
            if node < 0:
                break
            if (terms := self._terms.get(node)) and may_end(text, start, word.end):
                written = " ".join(text[start : word.end].split())
                fitting = [term for term in terms if fits_case(term.source, written)]
                exact = [term for term in fitting if term.source == written]
                if fitting:
                    found = length, TermMatch(start, word.end, (exact or fitting)[0])
        return found if found[1] is not None and may_begin(text, start) else (0, None)


def missed_terms(terms: Sequence[Term], output: str) -> list[Term]:
    """Return those `terms` whose translation is missing in `output`; each must occur as often as in `terms`."""
    if len(terms) <= _FEW_TERMS and _have_each(output, [term.target for term in terms]):
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
        start = output.find(target)
        end = start + len(target)
        if start < 0 or cuts_term_word(output, start) or cuts_term_word(output, end):
            return False
        if not (may_begin(output, start) and may_end(output, start, end)):
            return False
    lines = "\n".join(targets)
    return all(lines.count(target) == 1 for target in targets)  # else one occurrence might be counted twice


def _term_error(term: Term) -> str:
    """Return the error in a term; empty if there is none."""
    for side, text in zip(("source", "target"), term, strict=True):
        if not text:
            return f"the {side} of a term is empty"
        if not any(map(str.isalnum, text)):
            return f"the {side} of the term {term} has neither a letter nor a digit"
        if len(text) > MAX_CHARACTERS or sum(1 for _ in term_words(text)) > MAX_WORDS:
            return f"the {side} of a term is longer than {MAX_WORDS} words or {MAX_CHARACTERS} characters: {text[:60]}…"
    return ""


def read_glossary(path: Path, languages: Callable[[], tuple[str, str]] | None = None) -> Glossary:
    """Read the terms of a file: tab-separated, or by its ending .csv, .xlsx, .tbx or .tmx.

    A `#` after the name says what to read in a table, as in `corpus_named`: `a.tsv#2,1`, `a.xlsx#Terms:German,English`.
    `languages` returns those of the terms, to choose from a .tbx or .tmx. Of several terms of a concept in it, the
    first is the translation. DataError as `parse_glossary`, and as the reader of each format raises it.
    """
    form = path.suffix.removeprefix(".").lower()
    is_part = "#" in path.name and not path.exists()  # such as a.xlsx#Sheet1:2,1
    if not is_part and form not in ("csv", "xlsx", "tbx", "tmx"):
        return parse_glossary(read_lines(path), path)
    from nmt.config.corpora import ParallelFiles  # only here, because most glossaries are tab-separated
    from nmt.data.read.pairs import read_records
    from nmt.data.read.table_names import corpus_named

    if is_part or form in ("csv", "xlsx"):
        return _add_rows(read_records(corpus_named(str(path))), path)
    src_lang, tgt_lang = languages() if languages is not None else (None, None)
    files = ParallelFiles.model_validate({"tmx": str(path), "src_lang": src_lang, "tgt_lang": tgt_lang})
    first: dict[str, tuple[str, str, int]] = {}
    for row in read_records(files):
        first.setdefault(row[0], row)
    return _add_rows(first.values(), path)


def parse_glossary(text: Iterable[str], path: Path | None = None) -> Glossary:
    """Return the terms in the lines of a text, which comes from the file `path`, if given.

    Lines that start with # are comments, and cells after the second are notes. DataError, with file and line, if a line
    is not a term, or a term has two translations. Terms repeated with the same translation are logged as a warning.
    """

    def rows() -> Iterator[tuple[str, str, int]]:
        for number, line in enumerate(text, start=1):
            if not line.strip() or line.startswith("#"):
                continue
            source, tab, rest = line.partition("\t")
            if not tab:
                raise DataError("this line has no tab", path=path, line=number, hint=_FILE_FORM)
            yield source, rest.partition("\t")[0], number

    return _add_rows(rows(), path)


def _add_rows(rows: Iterable[tuple[str, str, int]], path: Path | None) -> Glossary:
    """Return the terms in `rows`: source, target, line. DataError as `parse_glossary`; blank rows are skipped."""
    glossary = Glossary()
    lines: dict[str, int] = {}  # where each term stands first
    repeated: list[int] = []  # lines
    for source, target, number in rows:
        if not (source.strip() or target.strip()):
            continue
        source = " ".join(source.split())
        try:
            glossary.add(source, target)
        except DataError as error:
            first = lines.get(source)
            raise DataError(
                error.message,
                path=path,
                line=number,
                hint=f"delete one of the two; the first is on line {first}" if first else _FILE_FORM,
            ) from None
        if lines.setdefault(source, number) != number:
            repeated.append(number)
    if not len(glossary):
        raise DataError("this glossary has no terms", path=path, hint=_FILE_FORM)
    if repeated and path is not None:
        log.warning("%s:%d: this term is a repetition (%d such lines in total)", path, repeated[0], len(repeated))
    return glossary
