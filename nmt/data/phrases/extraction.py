"""Extract phrases from aligned pairs, and score them (Koehn et al. 2003, "Statistical Phrase-Based Translation")."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmt.data.phrases.trie import Ints, build_trie, concatenate

Floats = NDArray[np.float64]
Links = Sequence[tuple[int, int]]

LONGEST = 6  # tokens of a phrase
MOST_OPTIONS = 20  # translations of a phrase
_DISCOUNT = 0.3  # of each count, since most were seen once
_LEAST = 1e-4  # probability of a token that no link explains


def consistent_phrases(src_len: int, tgt_len: int, links: Links) -> Iterator[tuple[int, int, int, int]]:
    """Yield the ends (source first, last, target first, last) of all pairs of phrases that no link leaves."""
    by_src: list[list[int]] = [[] for _ in range(src_len)]
    by_tgt: list[list[int]] = [[] for _ in range(tgt_len)]
    for i, j in links:
        by_src[i].append(j)
        by_tgt[j].append(i)
    lows = [min(linked) if linked else tgt_len for linked in by_src]
    highs = [max(linked) if linked else -1 for linked in by_src]
    src_lows = [min(linked) if linked else src_len for linked in by_tgt]
    src_highs = [max(linked) if linked else -1 for linked in by_tgt]
    for first in range(src_len):
        low, high = tgt_len, -1
        for last in range(first, min(src_len, first + LONGEST)):
            low, high = min(low, lows[last]), max(high, highs[last])
            if high < 0:
                continue
            if high - low >= LONGEST:
                break
            if min(src_lows[low : high + 1]) < first or max(src_highs[low : high + 1]) > last:
                continue
            start = low
            while True:
                end = high
                while end - start < LONGEST:
                    yield first, last, start, end
                    end += 1
                    if end >= tgt_len or by_tgt[end]:
                        break
                start -= 1
                if start < 0 or by_tgt[start] or high - start >= LONGEST:
                    break


def extract(
    src: Sequence[Sequence[int]], tgt: Sequence[Sequence[int]], links: Sequence[Links], sizes: tuple[int, int]
) -> dict[str, NDArray[Any]]:
    """Return the arrays of a phrase table, by their names in `PhraseTable`; `sizes` are those of the vocabularies."""
    (src_tokens, src_rows), (tgt_tokens, tgt_rows) = concatenate(src), concatenate(tgt)
    src_keys, src_ends = build_trie(src_tokens, src_rows, sizes[0], LONGEST)
    tgt_keys, tgt_ends = build_trie(tgt_tokens, tgt_rows, sizes[1], LONGEST)
    src_starts, tgt_starts = (np.cumsum([0, *map(len, rows)]) for rows in (src, tgt))
    spans = [
        (src_starts[pair] + src_last, src_last - src_first, tgt_starts[pair] + tgt_last, tgt_last - tgt_first)
        for pair in range(len(src))
        for src_first, src_last, tgt_first, tgt_last in consistent_phrases(len(src[pair]), len(tgt[pair]), links[pair])
    ]
    src_ends_at, src_lengths, tgt_ends_at, tgt_lengths = np.array(spans, np.int64).reshape(-1, 4).T
    num_targets = 1 + len(tgt_keys)
    nodes = np.stack(src_ends)[src_lengths, src_ends_at], np.stack(tgt_ends)[tgt_lengths, tgt_ends_at]
    pairs, counts = np.unique(nodes[0] * num_targets + nodes[1], return_counts=True)
    sources, targets = pairs // num_targets, pairs % num_targets
    of_source, of_target = np.bincount(sources, counts), np.bincount(targets, counts)
    order = np.lexsort((targets, -counts, sources))
    order = order[np.arange(len(order)) - np.searchsorted(sources, sources[order]) < MOST_OPTIONS]
    sources, targets, counts = sources[order], targets[order], counts[order]
    linked = np.array(
        [(src_starts[pair] + i, tgt_starts[pair] + j) for pair, row in enumerate(links) for i, j in row], np.int64
    ).reshape(-1, 2)
    lexicon = _Lexicon(src_tokens[linked[:, 0]], tgt_tokens[linked[:, 1]], sizes)
    _, firsts, phrases = np.unique(targets, return_index=True, return_inverse=True)
    src_phrases, tgt_phrases = _spell(src_keys, sources, sizes[0]), _spell(tgt_keys, targets, sizes[1])
    seen = counts - _DISCOUNT
    scores = np.stack(
        [
            np.log(seen / of_source[sources]),
            np.log(seen / of_target[targets]),
            lexicon.explain(src_phrases, tgt_phrases, lexicon.to_tgt, axis=1),
            lexicon.explain(src_phrases, tgt_phrases, lexicon.to_src, axis=2),
        ],
        axis=1,
    )
    keys, numbers = _kept_nodes(src_keys, sources, sizes[0])
    spelled = tgt_phrases[firsts]
    return {
        "src_keys": keys,
        "starts": np.searchsorted(numbers[sources], np.arange(len(keys) + 2)),
        "phrases": phrases,
        "scores": scores.astype(np.float32),
        "tgt_starts": np.cumsum([0, *(spelled >= 0).sum(1)]),
        "tgt_tokens": spelled[spelled >= 0],
        "lexicon_keys": lexicon.keys,
        "lexicon": lexicon.to_tgt.astype(np.float32),
    }


class _Lexicon:
    """Probabilities of tokens, by the links of a corpus."""

    def __init__(self, src: Ints, tgt: Ints, sizes: tuple[int, int]):
        self.width = sizes[1]
        self.keys, counts = np.unique(src * self.width + tgt, return_counts=True)
        self.to_tgt = counts / np.bincount(src)[self.keys // self.width]
        self.to_src = counts / np.bincount(tgt)[self.keys % self.width]

    def explain(self, src: Ints, tgt: Ints, probabilities: Floats, axis: int) -> Floats:
        """Return the log-probability of one side of phrases [N, LONGEST], each token by the best of the other side."""
        explained = tgt if axis == 1 else src
        if not len(self.keys):
            return np.zeros(len(explained))
        keys = src[:, :, None] * self.width + tgt[:, None, :]
        at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        is_known = (src >= 0)[:, :, None] & (tgt >= 0)[:, None, :] & (self.keys[at] == keys)
        best = np.where(is_known, probabilities[at], 0.0).max(axis)
        return np.where(explained >= 0, np.log(best + _LEAST), 0.0).sum(1)


def _spell(keys: Ints, nodes: Ints, vocab_size: int) -> Ints:
    """Return the tokens of each node [N, LONGEST], padded by -1."""
    tokens, nodes = np.full((len(nodes), LONGEST), -1), nodes.copy()
    while nodes.any():
        rows = np.flatnonzero(nodes)
        tokens[rows, 1:] = tokens[rows, :-1]
        tokens[rows, 0] = keys[nodes[rows] - 1] % vocab_size
        nodes[rows] = keys[nodes[rows] - 1] // vocab_size
    return tokens


def _kept_nodes(keys: Ints, nodes: Ints, vocab_size: int) -> tuple[Ints, Ints]:
    """Return the keys of a trie of `nodes` and their beginnings only, and the new numbers of all nodes."""
    kept = np.zeros(1 + len(keys), bool)
    kept[: 1 + vocab_size] = True
    while len(nodes):
        kept[nodes] = True
        nodes = np.unique(keys[nodes - 1] // vocab_size)
        nodes = nodes[nodes > 0]
    numbers = np.cumsum(kept) - 1
    old = keys[np.flatnonzero(kept)[1:] - 1]
    return numbers[old // vocab_size] * vocab_size + old % vocab_size, numbers
