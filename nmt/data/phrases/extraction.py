"""Extract phrases from aligned pairs, and score them (Koehn et al. 2003, "Statistical Phrase-Based Translation")."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmt.data.phrases.trie import Ints, concatenate, find_entries, padded, pair_keys

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
    for first in range(src_len):
        linked: list[int] = []
        for last in range(first, min(src_len, first + LONGEST)):
            linked += by_src[last]
            if not linked:
                continue
            low, high = min(linked), max(linked)
            if high - low >= LONGEST:
                break
            if any(not first <= i <= last for j in range(low, high + 1) for i in by_tgt[j]):
                continue
            start = low
            while start >= 0 and high - start < LONGEST and (start == low or not by_tgt[start]):
                end = high
                while end < tgt_len and end - start < LONGEST and (end == high or not by_tgt[end]):
                    yield first, last, start, end
                    end += 1
                start -= 1


def extract(
    src: Sequence[Sequence[int]], tgt: Sequence[Sequence[int]], links: Sequence[Links], width: int
) -> dict[str, NDArray[Any]]:
    """Return the arrays of a phrase table, by their names in `PhraseTable`; `width` is the target vocabulary's size."""
    src_numbers, tgt_numbers = dict[tuple[int, ...], int](), dict[tuple[int, ...], int]()
    found, linked = list[tuple[int, int]](), list[tuple[int, int]]()
    for source, target, row in zip(src, tgt, links, strict=True):
        linked += [(source[i], target[j]) for i, j in row]
        for src_first, src_last, tgt_first, tgt_last in consistent_phrases(len(source), len(target), row):
            src_phrase, tgt_phrase = tuple(source[src_first : src_last + 1]), tuple(target[tgt_first : tgt_last + 1])
            src_number = src_numbers.setdefault(src_phrase, len(src_numbers))
            found.append((src_number, tgt_numbers.setdefault(tgt_phrase, len(tgt_numbers))))
    ends = np.array(found, np.int64).reshape(-1, 2)
    pairs, counts = np.unique(ends[:, 0] * len(tgt_numbers) + ends[:, 1], return_counts=True)
    sources, targets = np.divmod(pairs, max(len(tgt_numbers), 1))
    of_source, of_target = np.bincount(sources, counts), np.bincount(targets, counts)
    order = np.lexsort((targets, -counts, sources))
    order = order[np.arange(len(order)) - np.searchsorted(sources, sources[order]) < MOST_OPTIONS]
    sources, targets, seen = sources[order], targets[order], counts[order] - _DISCOUNT
    kept, phrases = np.unique(targets, return_inverse=True)
    tgt_phrases = [*tgt_numbers]
    tgt_phrases = [tgt_phrases[number] for number in kept.tolist()]
    src_tokens, tgt_tokens = np.array(linked, np.int64).reshape(-1, 2).T
    keys, link_counts = np.unique(src_tokens * width + tgt_tokens, return_counts=True)
    to_tgt = link_counts / np.bincount(src_tokens)[keys // width]
    to_src = link_counts / np.bincount(tgt_tokens)[keys % width]
    src_padded, tgt_padded = padded([*src_numbers], LONGEST)[sources], padded(tgt_phrases, LONGEST)[phrases]
    entries = find_entries(keys, pair_keys(src_padded, tgt_padded, width))
    scores = [
        np.log(seen / of_source[sources]),
        np.log(seen / of_target[targets]),
        _explain(entries, to_tgt, 1, tgt_padded >= 0),
        _explain(entries, to_src, 2, src_padded >= 0),
    ]
    return {
        "src_starts": np.cumsum([0, *map(len, src_numbers)]),
        "src_tokens": concatenate([*src_numbers])[0],
        "starts": np.searchsorted(sources, np.arange(len(src_numbers) + 1)),
        "phrases": phrases,
        "scores": np.stack(scores, axis=1),
        "tgt_starts": np.cumsum([0, *map(len, tgt_phrases)]),
        "tgt_tokens": concatenate(tgt_phrases)[0],
        "lexicon_keys": keys,
        "lexicon": to_tgt,
    }


def _explain(entries: Ints, probabilities: Floats, axis: int, is_token: NDArray[np.bool_]) -> Floats:
    """Return the log-probability of one side of phrases, each token by the best of the other side (`axis`)."""
    best = np.append(probabilities, 0.0)[entries].max(axis)  # entry -1: no link
    return np.where(is_token, np.log(best + _LEAST), 0.0).sum(1)
