"""A corpus through all rules: the result depends on nothing but the corpus."""

from __future__ import annotations

import multiprocessing
import random
from itertools import pairwise

import pytest

from nmt.base.errors import DataError
from nmt.config.corpora import ParallelFiles
from nmt.config.filters import THRESHOLDS, Filters
from nmt.data.check import stream
from nmt.data.check.checker import Checker
from nmt.data.check.profile import Expectations, Profile, sample_evenly
from nmt.data.check.stream import DroppedRows, check_pairs
from nmt.data.check.summary import warn_of_losses
from nmt.data.read.pairs import SentencePair

WORDS = ["ein", "der", "hund", "mann", "straße", "läuft", "sieht", "groß", "klein", "17", "2024", "heute"]

ROWS = [SentencePair(src, "text", line) for line, src in enumerate(["ein", "ein", "", "zwei", "drei" * 9], start=1)]


def corpus(num_pairs: int, seed: int = 3) -> list[SentencePair]:
    draw = random.Random(seed)
    texts = [" ".join(draw.choices(WORDS, k=draw.randint(1, 20))) for _ in range(num_pairs)]
    return [SentencePair(text, text[::-1], line) for line, text in enumerate(texts, start=1)]


def broken(pairs: list[SentencePair], **options: int) -> list[set[str]]:
    expected = Expectations("de", "en", profile=Profile.from_pairs(pairs))
    return [rules for chunk in check_pairs(pairs, [expected], **options) for rules in chunk.result.rules]


def found(pairs: list[tuple[str, str]]) -> list[set[str]]:
    rows = [SentencePair(src, tgt, line) for line, (src, tgt) in enumerate(pairs, start=1)]
    return [rules & REPEATS for rules in broken(rows)]


REPEATS = {"duplicate", "near_duplicate", "repeated_source"}


def test_several_processes_find_what_one_finds_and_end(monkeypatch):
    monkeypatch.setattr(stream, "CHUNK_PAIRS", 200)
    pairs = corpus(1500)
    assert broken(pairs, workers=2) == broken(pairs, workers=1)
    assert multiprocessing.active_children() == []


def test_the_first_of_equal_pairs_is_no_duplicate():
    pairs = [("Ein Hund.", "A dog."), ("Ein Hund.", "A dog."), ("ein hund", "a dog"), ("Ein Hund.", "One dog.")]
    assert found(pairs) == [set(), {"duplicate"}, {"near_duplicate"}, {"repeated_source"}]


def test_pairs_without_letters_are_no_near_duplicates():
    assert found([("1", "2"), ("3", "4"), ("!", "?")]) == [set(), set(), set()]


def test_duplicates_are_found_across_chunks(monkeypatch):
    monkeypatch.setattr(stream, "CHUNK_PAIRS", 7)
    distinct = [(f"Satz {'a' * n}", f"sentence {'b' * n}") for n in range(40)]
    assert found(distinct + distinct)[40:] == [{"duplicate"}] * 40


@pytest.mark.parametrize("offset", [-3, -1, 1, 2])
def test_a_run_whose_translations_stand_some_lines_off_is_found_with_its_offset(offset):
    draw = random.Random(5)
    lengths = [draw.randint(20, 120) for _ in range(400)]
    src = ["s" * length for length in lengths]
    tgt = ["t" * (length + draw.randint(-3, 3)) for length in lengths]
    tgt[100:160] = [tgt[100 + (n - offset) % 60] for n in range(60)]
    rows = [SentencePair(s, t, n) for n, (s, t) in enumerate(zip(src, tgt, strict=True), start=1)]
    result = Checker(Expectations("de", "en", profile=Profile.from_pairs(rows))).check(src, tgt)
    (shift,) = result.shifts
    assert shift.offset == offset
    assert abs(shift.start - 100) <= 4
    assert abs(shift.end - 160) <= 4
    shifted = [row for row, rules in enumerate(result.rules) if "shifted" in rules]
    assert shifted == list(range(shift.start, shift.end))


def test_no_run_is_found_in_rows_that_fit():
    pairs = corpus(2000)
    checked = Checker(Expectations("de", "en", profile=Profile.from_pairs(pairs)))
    assert checked.check([pair.src for pair in pairs], [pair.tgt for pair in pairs]).shifts == []


@pytest.mark.parametrize(("num_pairs", "size"), [(0, 4), (3, 4), (4, 4), (5, 4), (64, 4), (1000, 10)])
def test_a_sample_is_spread_evenly_over_the_corpus(num_pairs, size):
    pairs = corpus(num_pairs)
    total, sample = sample_evenly(pairs, size)
    lines = [pair.line for pair in sample]
    steps = {second - first for first, second in pairwise(lines)}
    assert total == num_pairs
    assert len(steps) <= 1
    assert min(num_pairs, size // 2) <= len(sample) <= size


def dropped() -> DroppedRows:
    return DroppedRows.find(ROWS, [Expectations("de", "en", filters=Filters(duplicate=True, too_long=30))])


def test_it_counts_by_rule_and_keeps_pairs_with_an_empty_side():
    rows = dropped()
    assert [pair.line for pair in rows.kept(ROWS)] == [1, 3, 4]
    assert (len(rows), rows.num_kept, rows.counts) == (2, 2, {"too_long": 1, "duplicate": 1})


def test_rules_that_are_off_are_not_needed_to_find_what_the_others_drop():
    pairs = [
        ("<b>1989</b> ein?", "one"),
        ("ein haus", "HOUSE 1990"),
        ("ein Haus", "house"),
        ("so", "so 12345678901"),
    ] * 2
    rows = [SentencePair(*pair, line) for line, pair in enumerate(pairs, start=1)]
    for key in Filters.model_fields:
        if key == "wrong_language":  # needs its package
            continue
        expected = Expectations("de", "en", filters=Filters(**{key: THRESHOLDS.get(key, True)}))
        judged = [dropping for chunk in check_pairs(rows, [expected]) for _, dropping, _ in chunk.judged()]
        assert list(map(bool, DroppedRows.find(rows, [expected]).states)) == list(map(bool, judged)), key


@pytest.mark.parametrize("changed", [ROWS[:-1], [*ROWS, ROWS[0]]])
def test_a_corpus_that_changed_meanwhile_is_refused(changed):
    with pytest.raises(DataError, match="the corpus changed while it was read"):
        list(dropped().kept(changed))


def in_scripts(code: str, texts: list[str]) -> list[bool]:
    pairs = [SentencePair(f"a sentence of {n} words", text, n + 1) for n, text in enumerate(texts)]
    filters = Filters(wrong_script=True)
    expected = Expectations("en", code, filters=filters, profile=Profile.from_pairs(pairs))
    return list(map(bool, DroppedRows.find(pairs, [expected]).states))


@pytest.mark.parametrize("code", ["tyv", "xx", "qaa", "cn", "sr", "kr"])
def test_a_language_that_nobody_lists_is_in_the_script_of_its_text(code):
    text = "他今天没有回家" if code == "cn" else "Кижилер бүгү хостуг"
    assert in_scripts(code, [text] * 60 + ["Latin letters", "1 %"]) == [False] * 60 + [True, False]


def test_a_language_in_two_scripts_keeps_both_of_them():
    assert not any(in_scripts("sr", ["Сва људска бића рађају се слободна"] * 40 + ["Sva ljudska bića rađaju se"] * 9))


def test_a_script_that_has_no_code_here_is_expected_too():
    assert in_scripts("sat", ["ᱥᱟᱱᱟᱢ ᱢᱟᱹᱱᱢᱤ"] * 60 + ["Latin letters"]) == [False] * 60 + [True]


def test_a_filter_that_drops_a_third_of_the_pairs_is_a_warning_with_examples(caplog):
    pairs = [SentencePair("an English sentence", "ein deutscher Satz", n) for n in range(1, 4)]
    pairs += [SentencePair("an English sentence", "你用跑的，等一下", 4), SentencePair("one more", "我试试看吧", 5)]
    files = [ParallelFiles(tsv="corpus.tsv")]
    for count, is_told in ((4, False), (5, True)):
        expected = Expectations("en", "la", filters=Filters(wrong_script=True))
        warn_of_losses(DroppedRows.find(pairs[:count], [expected]), files)
        assert bool(caplog.messages) == is_told
    assert caplog.messages[0].startswith("data.filters.wrong_script drops 2 of 5 pairs; if they are good, correct")
    assert "corpus.tsv:4\n    an English sentence\n    你用跑的，等一下" in caplog.messages[0]
