"""All rules on a chunk of pairs: a pure function of the chunk and of what is expected of the corpus."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nmt.config.filters import Filters
from nmt.data.check.duplicates import Hashes
from nmt.data.check.features import Side, digest, is_more_than_names, numbers_differ
from nmt.data.check.language_identification import LanguageIdentifier
from nmt.data.check.noise import has_control_characters, has_mojibake, is_cell, is_header
from nmt.data.check.profile import Profile
from nmt.data.check.rules import bit_of, threshold
from nmt.data.check.scripts import (
    MIN_LETTERS,
    SHARED_SCRIPTS,
    codes_of,
    form_of_chinese,
    has_mixed_word,
    is_foreign,
    may_hold_other_than_latin,
    script_codes,
)
from nmt.data.check.shifts import RowFeatures, Shift, find_shifts
from nmt.languages import chinese_form, names_of, script_of

_EMPTY, _TOO_LONG, _TOO_SHORT = bit_of("empty"), bit_of("too-long"), bit_of("too-short")
_RATIO, _UNTRANSLATED, _SWAPPED = bit_of("length-ratio"), bit_of("untranslated"), bit_of("sides-swapped")
_SCRIPT, _MIXED, _OTHER_SIDE = bit_of("wrong-script"), bit_of("mixed-scripts"), bit_of("other-side")
_LANGUAGE, _MOJIBAKE, _CONTROL = bit_of("wrong-language"), bit_of("mojibake"), bit_of("control-characters")
_MARKUP, _MARKUP_DIFFERS = bit_of("markup"), bit_of("markup-mismatch")
_NUMBERS, _SPANS, _QUESTION = bit_of("number-mismatch"), bit_of("span-mismatch"), bit_of("punctuation-mismatch")
_CELL, _HEADER, _SHIFTED = bit_of("spreadsheet"), bit_of("header-row"), bit_of("shifted")
_OVERLAP, _NEAR_OVERLAP = bit_of("overlap"), bit_of("near-overlap")

_MIN_COPIED_WORDS = 3


@dataclass(frozen=True)
class Expectations:
    """What a pair is compared with. `held_out`: the sources of validation and test; `held_out_folded`: without case."""

    src_lang: str
    tgt_lang: str
    filters: Filters = field(default_factory=Filters)
    profile: Profile = field(default_factory=Profile)
    held_out: frozenset[str] = frozenset()
    held_out_folded: frozenset[str] = frozenset()
    identify_languages: bool = False


class Checked(NamedTuple):
    """The rules that each pair of a chunk breaks, as bits, and what is compared between chunks."""

    flags: NDArray[np.int64]
    src_len: NDArray[np.int64]  # characters
    tgt_len: NDArray[np.int64]
    src_hashes: Hashes
    pair_hashes: Hashes
    near_hashes: Hashes  # of the letters alone; 0: no letters
    shifts: list[Shift]


class Checker:
    """The rules on single pairs and on neighboring rows. Duplicates need the whole corpus: see `repeats`."""

    def __init__(self, expected: Expectations):
        self.expected = expected
        self.lengths, self.side_words = expected.profile.lengths, expected.profile.side_words
        self.max_len = threshold(expected.filters, "too_long")
        self.min_len = threshold(expected.filters, "too_short")
        self.max_deviation = threshold(expected.filters, "length_ratio")
        self.max_copied = threshold(expected.filters, "untranslated")
        self.max_margin = threshold(expected.filters, "wrong_language")
        languages = expected.src_lang, expected.tgt_lang
        self.scripts = tuple(codes_of(script_of(code)) for code in languages)
        self.forms = tuple(chinese_form(code) for code in languages)
        self.has_form = any(self.forms)
        self.names = tuple(names_of(code) for code in languages)
        self.identifier = LanguageIdentifier(*languages) if expected.identify_languages else None
        self.words_tell_language = self.identifier is not None and all(
            self.identifier.is_usual([pair[side] for pair in expected.profile.typical], side) for side in (0, 1)
        )

    def check(self, src: Sequence[str], tgt: Sequence[str]) -> Checked:
        """Check the pairs of a chunk, stripped of white space: neighboring rows of the corpus, in order."""
        num_rows = len(src)
        rows = _Rows()
        flags = np.fromiter(map(self._check_pair, src, tgt, [rows] * num_rows), dtype=np.int64, count=num_rows)
        src_len = np.fromiter(map(len, src), dtype=np.int64, count=num_rows)
        tgt_len = np.fromiter(map(len, tgt), dtype=np.int64, count=num_rows)
        shifts = find_shifts(rows.features(src_len, tgt_len), self.lengths)
        for shift in shifts:
            flags[shift.start : shift.end] |= _SHIFTED
        return Checked(
            flags=flags,
            src_len=src_len,
            tgt_len=tgt_len,
            src_hashes=_as_hashes(rows.src_hashes),
            pair_hashes=_as_hashes(rows.pair_hashes),
            near_hashes=_as_hashes(rows.near_hashes),
            shifts=shifts,
        )

    def _check_pair(self, src_text: str, tgt_text: str, rows: _Rows) -> int:
        if not (src_text and tgt_text):
            rows.add_empty()
            return _EMPTY
        src, tgt = Side(src_text), Side(tgt_text)
        src_numbers, tgt_numbers = src.numbers(), tgt.numbers()
        rows.add(src, tgt, src_numbers, tgt_numbers)
        flags = self._check_lengths(src, tgt) | self._check_language(src, tgt) | self._check_noise(src, tgt)
        if src_numbers != tgt_numbers and numbers_differ(src_numbers, tgt_numbers):
            flags |= 0 if src.spells_numbers() or tgt.spells_numbers() else _NUMBERS
        if rows.src_question[-1] != rows.tgt_question[-1]:
            flags |= _QUESTION
        if src.has_spans or tgt.has_spans:
            flags |= _check_spans(src, tgt)
        if is_header(src_text, self.names[0]) and is_header(tgt_text, self.names[1]) and src_text != tgt_text:
            flags |= _HEADER
        if src_text in self.expected.held_out:
            flags |= _OVERLAP
        elif src.folded in self.expected.held_out_folded:
            flags |= _NEAR_OVERLAP
        return flags

    def _check_lengths(self, src: Side, tgt: Side) -> int:
        src_len, tgt_len = len(src.text), len(tgt.text)
        flags = _TOO_LONG if src_len > self.max_len or tgt_len > self.max_len else 0
        min_len = self.min_len
        if (len(src.folded) < min_len and src.num_characters() < min_len) or (
            len(tgt.folded) < min_len and tgt.num_characters() < min_len
        ):
            flags |= _TOO_SHORT
        if abs(self.lengths.deviation(src_len, tgt_len)) > self.max_deviation:
            flags |= _RATIO
        return flags

    def _check_noise(self, src: Side, tgt: Side) -> int:
        flags = 0
        if not (src.text.isprintable() and tgt.text.isprintable()) and (
            has_control_characters(src.text) or has_control_characters(tgt.text)
        ):
            flags |= _CONTROL
        if (not src.ascii and has_mojibake(src.text)) or (not tgt.ascii and has_mojibake(tgt.text)):
            flags |= _MOJIBAKE
        if is_cell(src.text) or is_cell(tgt.text):
            flags |= _CELL
        return flags

    def _check_language(self, src: Side, tgt: Side) -> int:
        """Check copies, scripts and languages; a pair whose sides are swapped has one fault, not three."""
        if self._is_copy(src, tgt):
            return _UNTRANSLATED
        src_codes, tgt_codes = _codes_unless_latin(src), _codes_unless_latin(tgt)
        is_mixed = (src_codes and has_mixed_word(src_codes)) or (tgt_codes and has_mixed_word(tgt_codes))
        flags = _MIXED if is_mixed else 0
        src_foreign = _is_foreign(src, src_codes, self.scripts[0])
        tgt_foreign = _is_foreign(tgt, tgt_codes, self.scripts[1])
        src_evidence, tgt_evidence = self.side_words.evidence(src.words), self.side_words.evidence(tgt.words)
        src_is_other, tgt_is_other = src_evidence < 0, tgt_evidence > 0
        if src_is_other and tgt_is_other:
            return flags | _SWAPPED
        if src_foreign and tgt_foreign and self._fits_swapped(src, tgt, src_codes, tgt_codes):
            return flags | _SWAPPED
        if src_foreign or tgt_foreign or (self.has_form and self._has_other_form(src, tgt)):
            flags |= _SCRIPT
        elif src_is_other or tgt_is_other:
            flags |= _OTHER_SIDE
        if self.identifier is not None and not flags & _SCRIPT:
            is_wrong = self._is_in_wrong_language(src, src_codes, 0) or self._is_in_wrong_language(tgt, tgt_codes, 1)
            flags |= _LANGUAGE if is_wrong else 0
        return flags

    def _is_in_wrong_language(self, side: Side, codes: str | None, number: int) -> bool:
        """Return whether a text is in another language; those that are clearly not are not identified, to save time."""
        assert self.identifier is not None
        if codes is not None and self.scripts[number] and self.scripts[number] not in SHARED_SCRIPTS:
            return False  # in a script that this language has to itself
        if self.words_tell_language and self.side_words.is_typical(side.words, number):
            return False
        if not is_more_than_names(side):
            return False
        return self.identifier.margin(side.text, number) > self.max_margin

    def _fits_swapped(self, src: Side, tgt: Side, src_codes: str | None, tgt_codes: str | None) -> bool:
        fits = not _is_foreign(src, src_codes, self.scripts[1]) and not _is_foreign(tgt, tgt_codes, self.scripts[0])
        return fits and self.scripts[0] != self.scripts[1]

    def _has_other_form(self, src: Side, tgt: Side) -> bool:
        """Return whether Chinese is in the form that the language's code excludes; `zh` alone excludes none."""
        for side, form in zip((src, tgt), self.forms, strict=True):
            if form is not None and form_of_chinese(side.text) not in (None, form):
                return True
        return False

    def _is_copy(self, src: Side, tgt: Side) -> bool:
        """Return whether most words are the same on both sides, and more than names."""
        src_words, tgt_words = src.words, tgt.words
        most = max(len(src_words), len(tgt_words))
        if src_words == tgt_words:
            is_alike = most > 0
        else:
            num_common = len(set(src_words) & set(tgt_words))
            is_alike = num_common >= self.max_copied * most and most >= _MIN_COPIED_WORDS
        return is_alike and is_more_than_names(tgt)


class _Rows:
    """What the rows of a chunk are compared by, accumulated."""

    def __init__(self) -> None:
        self.src_hashes: list[bytes] = []
        self.pair_hashes: list[bytes] = []
        self.near_hashes: list[bytes] = []
        self.src_numbers: list[int] = []
        self.tgt_numbers: list[int] = []
        self.src_question: list[bool] = []
        self.tgt_question: list[bool] = []

    def add(self, src: Side, tgt: Side, src_numbers: list[str], tgt_numbers: list[str]) -> None:
        self.src_hashes.append(digest(src.text))
        self.pair_hashes.append(digest(f"{src.text}\x1f{tgt.text}"))
        self.near_hashes.append(digest(f"{src.folded}\x1f{tgt.folded}") if src.folded and tgt.folded else bytes(8))
        self.src_numbers.append(_hash_numbers(src_numbers))
        self.tgt_numbers.append(_hash_numbers(tgt_numbers))
        self.src_question.append(src.is_question())
        self.tgt_question.append(tgt.is_question())

    def add_empty(self) -> None:
        for hashes in (self.src_hashes, self.pair_hashes, self.near_hashes):
            hashes.append(bytes(8))
        for numbers in (self.src_numbers, self.tgt_numbers):
            numbers.append(0)
        for questions in (self.src_question, self.tgt_question):
            questions.append(False)

    def features(self, src_len: NDArray[np.int64], tgt_len: NDArray[np.int64]) -> RowFeatures:
        return RowFeatures(
            src_len.astype(np.float64),
            tgt_len.astype(np.float64),
            np.array(self.src_numbers, dtype=np.int64),
            np.array(self.tgt_numbers, dtype=np.int64),
            np.array(self.src_question, dtype=np.bool_),
            np.array(self.tgt_question, dtype=np.bool_),
        )


def _hash_numbers(numbers: list[str]) -> int:
    return int.from_bytes(digest(" ".join(numbers))[:7], "little") if numbers else 0


def _as_hashes(digests: list[bytes]) -> Hashes:
    return np.frombuffer(b"".join(digests), dtype="<u8")


def _codes_unless_latin(side: Side) -> str | None:
    """Return the script codes of a side, None if all its letters are Latin."""
    return None if side.ascii or not may_hold_other_than_latin(side.text) else script_codes(side.text)


def _is_foreign(side: Side, codes: str | None, expected: str) -> bool:
    """Return `scripts.is_foreign` of a side, quickly if all its letters are Latin (`codes` is None)."""
    if codes is None:
        return bool(expected) and "L" not in expected and len(side.folded) >= MIN_LETTERS
    return is_foreign(codes, expected)


def _check_spans(src: Side, tgt: Side) -> int:
    (src_kept, src_markup), (tgt_kept, tgt_markup) = src.spans(), tgt.spans()
    flags = _MARKUP if src_markup or tgt_markup else 0
    if src_markup != tgt_markup:
        flags |= _MARKUP_DIFFERS
    return flags | (_SPANS if src_kept != tgt_kept else 0)
