"""Rows that filters drop stay the same rows in every later pass."""

from __future__ import annotations

import pytest

from nmt.config.filters import Filters
from nmt.data.check.checker import Expectations
from nmt.data.check.dropped import DroppedRows
from nmt.data.corpus import SentencePair
from nmt.errors import DataError

PAIRS = [SentencePair(src, "text", line) for line, src in enumerate(["ein", "ein", "", "zwei", "drei" * 9], start=1)]


def dropped() -> DroppedRows:
    return DroppedRows.find(PAIRS, [Expectations("de", "en", filters=Filters(duplicate=True, too_long=30))])


def test_it_counts_by_rule_and_keeps_pairs_with_an_empty_side():
    rows = dropped()
    assert [pair.line for pair in rows.kept(PAIRS)] == [1, 3, 4]
    assert (len(rows), rows.num_kept, rows.counts) == (2, 2, {"too-long": 1, "duplicate": 1})


@pytest.mark.parametrize("changed", [PAIRS[:-1], [*PAIRS, PAIRS[0]]])
def test_a_corpus_that_changed_meanwhile_is_refused(changed):
    with pytest.raises(DataError, match="the corpus changed while it was read"):
        list(dropped().kept(changed))
