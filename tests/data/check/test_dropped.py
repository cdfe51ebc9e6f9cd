"""Rows that filters drop stay the same rows in every later pass."""

from __future__ import annotations

import pytest

from nmt.base.errors import DataError
from nmt.config.filters import THRESHOLDS, Filters
from nmt.data.check.checker import Expectations
from nmt.data.check.dropped import DroppedRows
from nmt.data.check.rules import bits_switched_on
from nmt.data.check.stream import check_pairs
from nmt.data.read.corpus import SentencePair

PAIRS = [SentencePair(src, "text", line) for line, src in enumerate(["ein", "ein", "", "zwei", "drei" * 9], start=1)]


def dropped() -> DroppedRows:
    return DroppedRows.find(PAIRS, [Expectations("de", "en", filters=Filters(duplicate=True, too_long=30))])


def test_it_counts_by_rule_and_keeps_pairs_with_an_empty_side():
    rows = dropped()
    assert [pair.line for pair in rows.kept(PAIRS)] == [1, 3, 4]
    assert (len(rows), rows.num_kept, rows.counts) == (2, 2, {"too-long": 1, "duplicate": 1})


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
        chunks = list(check_pairs(rows, expected))
        bits = bits_switched_on(expected.filters)
        broken = [bool(flags & bits) for chunk in chunks for flags in chunk.flags.tolist()]
        assert list(map(bool, DroppedRows.find(rows, [expected]).is_dropped)) == broken, key


@pytest.mark.parametrize("changed", [PAIRS[:-1], [*PAIRS, PAIRS[0]]])
def test_a_corpus_that_changed_meanwhile_is_refused(changed):
    with pytest.raises(DataError, match="the corpus changed while it was read"):
        list(dropped().kept(changed))
