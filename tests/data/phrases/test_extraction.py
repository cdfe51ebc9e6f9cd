"""Phrases of aligned pairs, and their scores."""

from __future__ import annotations

import math
import random

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
    found = list(consistent_phrases(src_len, tgt_len, links))
    assert len(found) == len({*found})
    assert {*found} == by_definition(src_len, tgt_len, links)


def test_scores_are_the_discounted_shares_of_the_counts():
    src, tgt = [[4], [4], [4], [5]], [[6], [6], [7], [6]]
    arrays = extract(src, tgt, [[(0, 0)]] * 4, 8)
    assert arrays["src_tokens"].tolist() == [4, 5]
    first, last = arrays["starts"][:2]
    phrases = [arrays["tgt_tokens"][arrays["tgt_starts"][number]] for number in arrays["phrases"][first:last]]
    assert phrases == [6, 7]  # the more frequent one first
    to_tgt, to_src, lexical_to_tgt, _ = arrays["scores"][first]
    assert to_tgt == pytest.approx(math.log(1.7 / 3))
    assert to_src == pytest.approx(math.log(1.7 / 3))
    assert lexical_to_tgt == pytest.approx(math.log(2 / 3 + 1e-4))


def test_a_corpus_without_links_has_no_phrases():
    arrays = extract([[4]], [[5]], [[]], 6)
    assert len(arrays["phrases"]) == len(arrays["tgt_tokens"]) == 0
    assert not np.any(arrays["starts"])
