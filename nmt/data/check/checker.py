"""Apply all rules to a chunk of pairs: a pure function of the chunk and of the expectations on the corpus."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nmt.base.languages import chinese_form, names_of, script_of
from nmt.config.filters import THRESHOLDS
from nmt.data.check.features import (
    Side,
    digest,
    has_control_characters,
    has_mojibake,
    is_more_than_names,
    numbers_differ,
)
from nmt.data.check.profile import Expectations
from nmt.data.check.rules import ALL_BITS, BIT, bit_swapped
from nmt.data.check.scripts import (
    MIN_LETTERS,
    SHARED_SCRIPTS,
    LanguageIdentifier,
    codes_of,
    form_of_chinese,
    has_mixed_word,
    is_foreign,
    script_codes,
    scripts_in,
)
from nmt.data.check.shifts import RowFeatures, Shift, find_shifts
from nmt.data.check.twins import TwinFinder
from nmt.data.read.cells import has_cell_error, is_column_name
from nmt.data.read.pairs import SentencePair

_SPAN_RULES = BIT["markup"] | BIT["markup_mismatch"] | BIT["span_mismatch"]
_MIN_COPIED_WORDS = 3
_MAX_HEADER_WORDS = 4
_NO_HASH = bytes(8)


class Checked(NamedTuple):
    """The rules that each pair of a chunk breaks, as bits, and the values that are compared between chunks."""

    flags: NDArray[np.int64]
    near_hashes: NDArray[np.uint64]  # of only the letters; 0: no letters
    shifts: list[Shift]


class Checker:
    """The rules on single pairs and on neighboring rows. For duplicates, which need the whole corpus, see `repeats`."""

    def __init__(self, expected: Expectations, bits: int = ALL_BITS):
        """Prepare the rules in `bits`; other rules may be skipped."""
        self.expected = expected
        self.bits = bits
        self.lengths = expected.profile.lengths
        self.side_words = expected.profile.side_words
        self.thresholds: dict[str, float] = THRESHOLDS | expected.filters.model_dump(exclude_none=True)
        self.swaps_back = bit_swapped(expected.filters) != 0
        languages = expected.src_lang, expected.tgt_lang
        sides = zip(*expected.profile.typical, strict=True) if expected.profile.typical else ((), ())
        # A language of which nobody knows the script, or that has several, is in those of its text.
        self.scripts = tuple(
            codes_of(script_of(code)) or scripts_in(texts) for code, texts in zip(languages, sides, strict=True)
        )
        self.forms = tuple(map(chinese_form, languages))  # plain `zh` excludes no form
        held_out = sorted(expected.held_out_folded) if bits & BIT["near_twin"] else []
        self.twins = TwinFinder(held_out) if held_out else None
        self.names = tuple(map(names_of, languages))
        self.identifier = LanguageIdentifier(*languages) if expected.identify_languages else None
        self.words_tell_language = self.identifier is not None and all(
            self.identifier.is_usual([pair[side] for pair in expected.profile.typical], side) for side in (0, 1)
        )

    def check(self, src: Sequence[str], tgt: Sequence[str]) -> Checked:
        """Check a chunk of neighboring rows of the corpus, in order and stripped of white space."""
        src_len, tgt_len = (np.fromiter(map(len, side), dtype=np.int64, count=len(side)) for side in (src, tgt))
        numbers = np.zeros((2, len(src)), dtype=np.int64)
        questions = np.zeros((2, len(src)), dtype=np.bool_)
        rows = RowFeatures(src_len.astype(np.float64), tgt_len.astype(np.float64), *numbers, *questions)
        is_whole = (src_len > 0) & (tgt_len > 0)
        is_too_long = np.maximum(src_len, tgt_len) > self.thresholds["too_long"]
        deviations = self.lengths.deviations(rows.src_len, rows.tgt_len)
        has_odd_ratio = np.abs(deviations) > self.thresholds["length_ratio"]
        flags = is_too_long * np.int64(BIT["too_long"]) | has_odd_ratio * np.int64(BIT["length_ratio"])
        flags = np.where(is_whole, flags, BIT["empty"])

        near_hashes: list[bytes] = []
        folded: list[str] = []
        sides = zip(map(Side, src), map(Side, tgt), is_whole.tolist(), strict=True)
        for row, (src_side, tgt_side, whole) in enumerate(sides):
            if whole:
                if self.swaps_back and "sides_swapped" in self._check_language(src_side, tgt_side):
                    flags[row] |= BIT["sides_swapped"]
                    src_side, tgt_side = tgt_side, src_side
                for rule in chain(self._check_pair(src_side, tgt_side), _compare(rows, row, src_side, tgt_side)):
                    flags[row] |= BIT[rule]
            folded.append(src_side.folded)
            has_hash = whole and self.bits & BIT["near_duplicate"] and src_side.folded and tgt_side.folded
            near_hashes.append(digest(f"{src_side.folded}\x1f{tgt_side.folded}") if has_hash else _NO_HASH)

        if self.twins is not None:
            for row, _ in self.twins.find(folded):
                flags[row] |= BIT["near_twin"]
        shifts = find_shifts(rows, self.lengths) if self.bits & BIT["shifted"] else []
        for shift in shifts:
            flags[shift.start : shift.end] |= BIT["shifted"]
        return Checked(flags, np.frombuffer(b"".join(near_hashes), dtype="<u8"), shifts)

    def _check_pair(self, src: Side, tgt: Side) -> Iterator[str]:
        """Yield the rules that a pair with text on both sides breaks, except those on lengths and numbers."""
        yield from self._check_language(src, tgt)
        min_len = self.thresholds["too_short"]
        if src.is_shorter_than(min_len) or tgt.is_shorter_than(min_len):
            yield "too_short"
        if has_control_characters(src.text) or has_control_characters(tgt.text):
            yield "control_characters"
        if has_mojibake(src.text) or has_mojibake(tgt.text):
            yield "mojibake"
        if has_cell_error(src.text) or has_cell_error(tgt.text):
            yield "spreadsheet"
        if self.bits & _SPAN_RULES:
            src_kept, src_markup = src.spans()
            tgt_kept, tgt_markup = tgt.spans()
            if src_markup or tgt_markup:
                yield "markup"
            if src_markup != tgt_markup:
                yield "markup_mismatch"
            if src_kept != tgt_kept:
                yield "span_mismatch"
        if (
            len(src.words) <= _MAX_HEADER_WORDS
            and src.text != tgt.text
            and is_column_name(src.text, self.names[0])
            and is_column_name(tgt.text, self.names[1])
        ):
            yield "header_row"
        if src.text in self.expected.held_out:
            yield "overlap"
        elif src.folded in self.expected.held_out_folded:
            yield "near_overlap"

    def _check_language(self, src: Side, tgt: Side) -> Iterator[str]:
        """Check copies, scripts and languages; a pair with swapped sides breaks one rule, not three."""
        if self._is_copy(src, tgt):
            yield "untranslated"
            return
        src_codes, tgt_codes = _codes_unless_latin(src), _codes_unless_latin(tgt)
        if (src_codes and has_mixed_word(src_codes)) or (tgt_codes and has_mixed_word(tgt_codes)):
            yield "mixed_scripts"
        src_foreign = _is_foreign(src, src_codes, self.scripts[0])
        tgt_foreign = _is_foreign(tgt, tgt_codes, self.scripts[1])
        src_evidence, tgt_evidence = self.side_words.evidence(src.words), self.side_words.evidence(tgt.words)
        src_is_other = src_evidence < 0
        tgt_is_other = tgt_evidence > 0
        if src_is_other and tgt_is_other:
            yield "sides_swapped"
            return
        if src_foreign and tgt_foreign and self.scripts[0] != self.scripts[1]:
            fits_swapped = not _is_foreign(src, src_codes, self.scripts[1])
            if fits_swapped and not _is_foreign(tgt, tgt_codes, self.scripts[0]):
                yield "sides_swapped"
                return
        in_other_form = any(
            form and form_of_chinese(side.text) not in (None, form)
            for side, form in zip((src, tgt), self.forms, strict=True)
        )
        if src_foreign or tgt_foreign or in_other_form:
            yield "wrong_script"
            return
        if src_is_other or tgt_is_other:
            yield "other_side"
        if self._is_in_wrong_language(src, src_codes, 0) or self._is_in_wrong_language(tgt, tgt_codes, 1):
            yield "wrong_language"

    def _is_in_wrong_language(self, side: Side, codes: str | None, number: int) -> bool:
        """Return whether a text is in another language; to save time, skip identification if it clearly is not."""
        if self.identifier is None:
            return False
        if codes is not None and self.scripts[number] and self.scripts[number] not in SHARED_SCRIPTS:
            return False  # in a script that only this language uses
        if self.words_tell_language and self.side_words.is_typical(side.words, number):
            return False
        if not is_more_than_names(side):
            return False
        return self.identifier.margin(side.text, number) > self.thresholds["wrong_language"]

    def _is_copy(self, src: Side, tgt: Side) -> bool:
        """Return whether most words are the same on both sides, and are more than names."""
        src_words, tgt_words = src.words, tgt.words
        most = max(len(src_words), len(tgt_words))
        if src_words == tgt_words:
            is_alike = most > 0
        else:
            needed = self.thresholds["untranslated"] * most
            if most < _MIN_COPIED_WORDS or min(len(src_words), len(tgt_words)) < needed:
                return False
            is_alike = len(set(src_words).intersection(tgt_words)) >= needed
        return is_alike and is_more_than_names(tgt)


def texts_of(chunk: Sequence[SentencePair]) -> tuple[list[str], list[str]]:
    """Return the sources and the targets of a chunk."""
    return [pair.src for pair in chunk], [pair.tgt for pair in chunk]


def _compare(rows: RowFeatures, row: int, src: Side, tgt: Side) -> Iterator[str]:
    """Store the numbers and question marks of a row; yield the rules on differences between its sides."""
    src_numbers, tgt_numbers = src.numbers(), tgt.numbers()
    if src_numbers or tgt_numbers:
        rows.src_numbers[row], rows.tgt_numbers[row] = _hash_numbers(src_numbers), _hash_numbers(tgt_numbers)
    if numbers_differ(src_numbers, tgt_numbers) and not (src.spells_numbers() or tgt.spells_numbers()):
        yield "number_mismatch"
    src_asks, tgt_asks = src.is_question(), tgt.is_question()
    if src_asks or tgt_asks:
        rows.src_question[row], rows.tgt_question[row] = src_asks, tgt_asks
    if src_asks != tgt_asks:
        yield "punctuation_mismatch"


def _hash_numbers(numbers: list[str]) -> int:
    return int.from_bytes(digest(" ".join(numbers))[:7], "little") if numbers else 0


def _codes_unless_latin(side: Side) -> str | None:
    """Return the script codes of a side, None if all its letters are Latin."""
    return None if side.is_latin() else script_codes(side.text)


def _is_foreign(side: Side, codes: str | None, expected: str) -> bool:
    """Return `scripts.is_foreign` of a side, with a shortcut if all its letters are Latin (`codes` is None)."""
    if codes is None:
        return bool(expected) and "L" not in expected and len(side.folded) >= MIN_LETTERS
    return is_foreign(codes, expected)
