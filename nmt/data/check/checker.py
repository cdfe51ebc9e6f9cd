"""Apply all rules to a chunk of pairs: a pure function of the chunk and of the expectations on the corpus."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import compress
from typing import NamedTuple

import numpy as np

from nmt.base.languages import chinese_form, names_of, script_of
from nmt.config.filters import THRESHOLDS
from nmt.data.check.features import (
    Side,
    has_control_characters,
    has_mojibake,
    is_more_than_names,
    is_question,
    numbers_differ,
    numbers_in,
    stable_hash,
)
from nmt.data.check.profile import Expectations
from nmt.data.check.rules import RULES
from nmt.data.check.scripts import (
    SHARED_SCRIPTS,
    LanguageIdentifier,
    codes_of,
    form_of_chinese,
    has_mixed_word,
    is_foreign,
    script_codes,
    scripts_in,
)
from nmt.data.check.shifts import Shift, find_shifts
from nmt.data.check.twins import TwinFinder
from nmt.data.read.cells import has_cell_error, is_column_name
from nmt.data.read.pairs import SentencePair

_FAULTS = {  # of a text, whatever its translation is
    "control_characters": has_control_characters,
    "mojibake": has_mojibake,
    "spreadsheet": has_cell_error,
}
_SPAN_RULES = {"markup", "markup_mismatch", "span_mismatch"}
_MIN_COPIED_WORDS = 3
_MAX_HEADER_WORDS = 4


class Checked(NamedTuple):
    """The rules that each pair of a chunk breaks, and the values that are compared between chunks."""

    rules: list[set[str]]
    near_hashes: list[int]  # of only the letters, in 64 bits; 0: no letters
    shifts: list[Shift]


class Checker:
    """The rules on single pairs and on neighboring rows. For duplicates, which need the whole corpus, see `repeats`."""

    def __init__(self, expected: Expectations, wanted: Collection[str] = RULES):
        """Prepare the `wanted` rules; others may be skipped."""
        self.expected = expected
        self.wanted = wanted
        self.lengths = expected.profile.lengths
        self.side_words = expected.profile.side_words
        self.thresholds: dict[str, float] = THRESHOLDS | expected.filters.model_dump(exclude_none=True)
        self.compares_spans = not _SPAN_RULES.isdisjoint(wanted)
        self.swaps_back = expected.filters.sides_swapped == "swap"
        languages = expected.src_lang, expected.tgt_lang
        sides = zip(*expected.profile.typical, strict=True) if expected.profile.typical else ((), ())
        # A language of which nobody knows the script, or that has several, is in those of its text.
        self.scripts = tuple(
            codes_of(script_of(code)) or scripts_in(texts) for code, texts in zip(languages, sides, strict=True)
        )
        self.forms = tuple(map(chinese_form, languages))  # plain `zh` excludes no form
        held_out = sorted(expected.held_out_folded) if "near_twin" in wanted else []
        self.twins = TwinFinder(held_out) if held_out else None
        self.names = tuple(map(names_of, languages))
        self.identifier = LanguageIdentifier(*languages) if expected.identify_languages else None
        self.words_tell_language = self.identifier is not None and all(
            self.identifier.is_usual([pair[side] for pair in expected.profile.typical], side) for side in (0, 1)
        )

    def check(self, src: Sequence[str], tgt: Sequence[str]) -> Checked:
        """Check a chunk of neighboring rows of the corpus, in order and stripped of white space."""
        src_len, tgt_len = (np.array(list(map(len, texts)), dtype=np.int64) for texts in (src, tgt))
        deviations = self.lengths.deviations(src_len, tgt_len)
        has_odd_ratio = np.abs(deviations) > self.thresholds["length_ratio"]
        is_too_long = np.maximum(src_len, tgt_len) > self.thresholds["too_long"]
        by_lengths = zip(is_too_long.tolist(), has_odd_ratio.tolist(), strict=True)
        rules: list[set[str]] = []
        near_hashes: list[int] = []
        signs: list[tuple[int, bool, int, bool]] = []  # of each side, a hash of its numbers and whether it asks
        for src_side, tgt_side, breaks in zip(map(Side, src), map(Side, tgt), by_lengths, strict=True):
            broken = {"empty"}
            near_hash = 0
            src_numbers: tuple[str, ...] = ()
            tgt_numbers: tuple[str, ...] = ()
            src_asks = tgt_asks = False
            if src_side.text and tgt_side.text:
                broken = set(compress(("too_long", "length_ratio"), breaks))
                if self.swaps_back and "sides_swapped" in self._check_language(src_side, tgt_side):
                    broken.add("sides_swapped")
                    src_side, tgt_side = tgt_side, src_side
                broken.update(self._check_language(src_side, tgt_side), self._check_pair(src_side, tgt_side))
                src_numbers, tgt_numbers = numbers_in(src_side.text), numbers_in(tgt_side.text)
                if numbers_differ(src_numbers, tgt_numbers) and not (
                    src_side.spells_numbers() or tgt_side.spells_numbers()
                ):
                    broken.add("number_mismatch")
                src_asks, tgt_asks = is_question(src_side.text), is_question(tgt_side.text)
                if src_asks != tgt_asks:
                    broken.add("punctuation_mismatch")
                if "near_duplicate" in self.wanted and src_side.folded and tgt_side.folded:
                    near_hash = stable_hash(f"{src_side.folded}\x1f{tgt_side.folded}")
            if self.twins is not None and any(self.twins.find([src_side.folded])):
                broken.add("near_twin")
            rules.append(broken)
            near_hashes.append(near_hash)
            if "shifted" in self.wanted:
                signs.append((hash(src_numbers), src_asks, hash(tgt_numbers), tgt_asks))
        shifts: list[Shift] = []
        if signs:
            rows = np.array(signs, dtype=np.int64).T
            shifts = find_shifts(np.vstack((src_len, rows[:2])), np.vstack((tgt_len, rows[2:])), self.lengths)
        for shift in shifts:
            for broken in rules[shift.start : shift.end]:
                broken.add("shifted")
        return Checked(rules, near_hashes, shifts)

    def _check_pair(self, src: Side, tgt: Side) -> Iterator[str]:
        """Yield rules that a pair with text on both sides breaks: not those on lengths, languages and signs."""
        min_len = self.thresholds["too_short"]
        if src.is_shorter_than(min_len) or tgt.is_shorter_than(min_len):
            yield "too_short"
        for name, has_fault in _FAULTS.items():
            if has_fault(src.text) or has_fault(tgt.text):
                yield name
        if self.compares_spans:
            yield from _check_spans(src, tgt)
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
        src_codes = _codes_in(src)
        tgt_codes = _codes_in(tgt)
        if has_mixed_word(src_codes) or has_mixed_word(tgt_codes):
            yield "mixed_scripts"
        src_foreign = is_foreign(src_codes, self.scripts[0])
        tgt_foreign = is_foreign(tgt_codes, self.scripts[1])
        src_evidence, tgt_evidence = self.side_words.evidence(src.words), self.side_words.evidence(tgt.words)
        src_is_other = src_evidence < 0
        tgt_is_other = tgt_evidence > 0
        if src_is_other and tgt_is_other:
            yield "sides_swapped"
            return
        if src_foreign and tgt_foreign:
            fit_swapped = not is_foreign(src_codes, self.scripts[1]) and not is_foreign(tgt_codes, self.scripts[0])
            if fit_swapped:
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
        if self._is_in_wrong_language(src, 0) or self._is_in_wrong_language(tgt, 1):
            yield "wrong_language"

    def _is_in_wrong_language(self, side: Side, number: int) -> bool:
        """Return whether a text is in another language; to save time, skip identification if it clearly is not."""
        if self.identifier is None:
            return False
        if not side.is_latin() and self.scripts[number] and self.scripts[number] not in SHARED_SCRIPTS:
            return False  # in a script that only this language uses
        if self.words_tell_language and self.side_words.is_typical(side.words, number):
            return False
        if not is_more_than_names(side):
            return False
        return self.identifier.margin(side.text, number) > self.thresholds["wrong_language"]

    def _is_copy(self, src: Side, tgt: Side) -> bool:
        """Return whether most words are the same on both sides, and are more than names."""
        src_words, tgt_words = src.words, tgt.words
        if src_words != tgt_words:
            most = max(len(src_words), len(tgt_words))
            needed = self.thresholds["untranslated"] * most
            if most < _MIN_COPIED_WORDS or min(len(src_words), len(tgt_words)) < needed:
                return False
            if len(set(src_words).intersection(tgt_words)) < needed:
                return False
        return is_more_than_names(tgt)


def texts_of(chunk: Sequence[SentencePair]) -> tuple[list[str], list[str]]:
    """Return the sources and the targets of a chunk."""
    return [pair.src for pair in chunk], [pair.tgt for pair in chunk]


def _check_spans(src: Side, tgt: Side) -> Iterator[str]:
    src_kept, src_markup = src.spans()
    tgt_kept, tgt_markup = tgt.spans()
    if src_markup or tgt_markup:
        yield "markup"
    if src_markup != tgt_markup:
        yield "markup_mismatch"
    if src_kept != tgt_kept:
        yield "span_mismatch"


def _codes_in(side: Side) -> str:
    """Return the script codes of a side; to save time, only those of the letters if all of them are Latin."""
    return "L" * len(side.folded) if side.is_latin() else script_codes(side.text)
