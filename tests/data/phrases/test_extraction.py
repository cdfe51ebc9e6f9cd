"""Phrases of aligned pairs, and their scores."""

from __future__ import annotations

import math
import random
from itertools import pairwise

import numpy as np
import pytest

from nmt.data.phrases.extraction import LONGEST, consistent_phrases, extract


def by_definition(src_len: int, tgt_len: int, links: list[tuple[int, int]]) -> set[tuple[int, int, int, int]]:
    """All pairs of spans with a link between them, and none that leaves them (Koehn et al. 2003)."""
    found = set()
    for a in range(src_len):
        for b in range(a, min(a + LONGEST, src_len)):
            for c in range(tgt_len):
                for d in range(c, min(c + LONGEST, tgt_len)):
                    inside = [(a <= i <= b, c <= j <= d) for i, j in links]
                    if any(map(all, inside)) and all(src == tgt for src, tgt in inside):
                        found.add((a, b, c, d))
    return found


@pytest.mark.parametrize("seed", range(40))
def test_phrases_are_all_pairs_of_spans_that_no_link_leaves(seed):
    draw = random.Random(seed)
    src_len, tgt_len = draw.randint(1, 9), draw.randint(1, 9)
    cells = [(i, j) for i in range(src_len) for j in range(tgt_len)]
    links = draw.sample(cells, min(len(cells), draw.randint(0, 10)))
    expected = by_definition(src_len, tgt_len, links)
    # Twice the same pair: no phrase goes on into the next sentence.
    rows = np.repeat([0, 1], src_len + 1), np.repeat([0, 1], tgt_len + 1)
    both = [*links, *((src_len + 1 + i, tgt_len + 1 + j) for i, j in links)]
    found = [*map(tuple, consistent_phrases(rows, np.array(both, np.int64).reshape(-1, 2)).tolist())]
    assert len(found) == len({*found})
    assert {*found} == expected | {
        (a + src_len + 1, b + src_len + 1, c + tgt_len + 1, d + tgt_len + 1) for a, b, c, d in expected
    }


def test_scores_are_the_discounted_shares_of_the_counts():
    src, tgt = [[4], [4], [4], [5]], [[6], [6], [7], [6]]
    arrays = extract(src, tgt, [[[(0, 0)]] * 4], 8)
    assert arrays["src_tokens"].tolist() == [4, 5]
    first, last = arrays["starts"][:2]
    phrases = [arrays["tgt_tokens"][arrays["tgt_starts"][number]] for number in arrays["phrases"][first:last]]
    assert phrases == [6, 7]  # the more frequent one first
    to_tgt, to_src, lexical_to_tgt, _ = arrays["scores"][first]
    assert to_tgt == pytest.approx(math.log(1.7 / 3))
    assert to_src == pytest.approx(math.log(1.7 / 3))
    assert lexical_to_tgt == pytest.approx(math.log(2 / 3 + 1e-4))


def test_a_corpus_without_links_has_no_phrases():
    arrays = extract([[4]], [[5]], [[[]]], 6)
    assert len(arrays["phrases"]) == len(arrays["tgt_tokens"]) == 0
    assert not np.any(arrays["starts"])


def test_phrases_of_two_alignments_are_counted_together():
    arrays = extract([[4, 5]], [[6]], [[[(0, 0)]], [[(1, 0)]]], 8)
    phrases = [arrays["src_tokens"][start:end].tolist() for start, end in pairwise(arrays["src_starts"])]
    assert phrases == [[4], [5], [4, 5]]
    assert arrays["scores"][:, 0].tolist() == pytest.approx([math.log(0.7)] * 2 + [math.log(1.7 / 2)])
