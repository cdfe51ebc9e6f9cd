"""Alignments of a small corpus."""

from __future__ import annotations

import random

from nmt.data.phrases import alignment
from nmt.data.phrases.alignment import align


def make_pairs(count: int, num_words: int = 30) -> tuple[list[list[int]], list[list[int]], list[list[tuple[int, int]]]]:
    """Sentences, their translations (token + 100) with two neighbors exchanged, and the true links."""
    draw, src, tgt, links = random.Random(5), [], [], []
    for _ in range(count):
        row = draw.sample(range(4, 4 + num_words), draw.randint(2, 7))
        order = list(range(len(row)))
        at = draw.randrange(len(row) - 1)
        order[at], order[at + 1] = order[at + 1], order[at]
        src.append(row)
        tgt.append([100 + row[i] for i in order])
        links.append(sorted((i, j) for j, i in enumerate(order)))
    return src, tgt, links


def test_exchanged_words_are_linked_to_their_translations():
    src, tgt, expected = make_pairs(300)
    for links in align(src, tgt, (40, 140)):
        right = sum(len({*found} & {*wanted}) for found, wanted in zip(links, expected, strict=True))
        assert right / sum(map(len, expected)) > 0.97
        assert right / sum(map(len, links)) > 0.97


def test_a_link_of_which_one_direction_is_sure_is_among_the_loose_ones_alone():
    src, tgt, _ = make_pairs(300)
    # A source word that has two tokens in the translation: its own direction can choose only one of them.
    doubled = [[token for each in row for token in ([each, 200] if each == 104 else [each])] for row in tgt]
    shared, loose = align(src, doubled, (40, 240))
    assert all({*few} <= {*many} for few, many in zip(shared, loose, strict=True))
    linked = [
        sum(row[j] == 200 for row, found in zip(doubled, links, strict=True) for _, j in found)
        for links in (shared, loose)
    ]
    assert linked[0] < linked[1]


def test_pairs_without_tokens_have_no_links():
    assert align([[], [4], []], [[5], [], []], (6, 6)) == ([[], [], []], [[], [], []])
    assert align([], [], (6, 6)) == ([], [])


def test_the_same_corpus_gives_the_same_links():
    src, tgt, _ = make_pairs(40)
    assert align(src, tgt, (40, 140)) == align(src, tgt, (40, 140))


def test_matrix_products_in_parts_give_the_same_links(monkeypatch):
    src, tgt, _ = make_pairs(40)
    whole = align(src, tgt, (40, 140))
    monkeypatch.setattr(alignment, "ONE_THREAD", 1)  # a row at a time
    assert align(src, tgt, (40, 140)) == whole
