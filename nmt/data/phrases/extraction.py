"""Extract phrases from aligned pairs, and score them (Koehn et al. 2003, "Statistical Phrase-Based Translation")."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmt.data.phrases.trie import HashedKeys, Ints, build_trie, concatenate

Floats = NDArray[np.float64]
Links = Sequence[tuple[int, int]]

LONGEST = 6  # tokens of a phrase
MOST_OPTIONS = 20  # translations of a phrase
_DISCOUNT = 0.3  # of each count, since most were seen once
_FAR = 1 << 40  # no token is there
_LEAST = 1e-4  # probability of a token that no link explains


def consistent_phrases(rows: tuple[Ints, Ints], links: Ints) -> Ints:
    """Return all pairs of phrases that no link leaves: [phrases, 4], source first and last, target first and last.

    `rows` is the sentence of each token of both sides. The last token of each is an end that belongs to no phrase.
    """
    src_rows, tgt_rows = rows
    src, tgt = links.T
    # The first and last target token that a source token is linked to, and the reverse.
    low = _lowest(src_rows, src, tgt)
    high = -_lowest(src_rows, src, -tgt)
    back_low = _lowest(tgt_rows, tgt, src)
    back_high = -_lowest(tgt_rows, tgt, -src)
    found = []
    # Source phrases of `extra` tokens more than one, with their linked target tokens and unlinked ones around these.
    for extra, earlier, later in product(range(LONGEST), repeat=3):
        starts = low[extra] - earlier
        ends = high[extra] + later
        firsts = np.flatnonzero((starts >= 0) & (starts <= ends) & (ends - starts < LONGEST))
        lasts = firsts + extra
        starts = starts[firsts]
        ends = ends[firsts]
        spans = ends - starts, starts
        inside = (back_low[spans] >= firsts) & (back_high[spans] <= lasts)
        found.append(np.stack([firsts, lasts, starts, ends], axis=1)[inside])
    return np.concatenate(found)


def _lowest(rows: Ints, tokens: Ints, linked: Ints) -> Ints:
    """Return the lowest of `linked` from 1, 2, … tokens [LONGEST, size] from each on; from ends, an impossible one."""
    low = np.full((LONGEST, len(rows)), -_FAR)
    low[0] = np.where(np.diff(rows, append=-1), -_FAR, _FAR)
    np.minimum.at(low[0], tokens, linked)
    for extra in range(1, min(LONGEST, len(rows))):
        low[extra, :-extra] = np.minimum(low[extra - 1, :-extra], low[0, extra:])
    return low


def _numbered(tokens: Ints, rows: Ints, firsts: Ints, lasts: Ints) -> tuple[Ints, Ints]:
    """Return the number of each phrase from `firsts` to `lasts`, and all different phrases, padded by -1."""
    _, ends = build_trie(tokens, rows, int(tokens.max(initial=0)) + 1, LONGEST)
    _, examples, numbers = np.unique(np.stack(ends)[lasts - firsts, lasts], return_index=True, return_inverse=True)
    places = firsts[examples, None] + np.arange(LONGEST)
    phrases = np.where(places <= lasts[examples, None], tokens[np.minimum(places, len(tokens) - 1)], -1)
    return numbers, phrases


def extract(
    src: Sequence[Sequence[int]], tgt: Sequence[Sequence[int]], alignments: Sequence[Sequence[Links]], width: int
) -> dict[str, NDArray[Any]]:
    """Return the arrays of a phrase table, by their names in `PhraseTable`; `width` is the target vocabulary's size.

    The phrases of several alignments are counted together.
    """
    (src_tokens, src_rows), (tgt_tokens, tgt_rows) = (concatenate([[*row, 0] for row in rows]) for rows in (src, tgt))
    spans, linked = _aligned((src_rows, tgt_rows), alignments)
    sources, src_phrases = _numbered(src_tokens, src_rows, spans[:, 0], spans[:, 1])
    targets, tgt_phrases = _numbered(tgt_tokens, tgt_rows, spans[:, 2], spans[:, 3])

    # Each different pair of phrases, in the order of the sources; of each source, those that were seen most.
    pairs, counts = np.unique(sources * len(tgt_phrases) + targets, return_counts=True)
    sources, targets = np.divmod(pairs, max(len(tgt_phrases), 1))
    of_source, of_target = np.bincount(sources, counts), np.bincount(targets, counts)
    order = np.lexsort((targets, -counts, sources))
    order = order[np.arange(len(order)) - np.searchsorted(sources, sources[order]) < MOST_OPTIONS]
    sources = sources[order]
    targets = targets[order]
    seen = counts[order] - _DISCOUNT
    kept, phrases = np.unique(targets, return_inverse=True)
    tgt_phrases = tgt_phrases[kept]

    # The lexicon: how often tokens are linked, given that of the source or of the target.
    src_linked, tgt_linked = src_tokens[linked[:, 0]], tgt_tokens[linked[:, 1]]
    keys, link_counts = np.unique(src_linked * width + tgt_linked, return_counts=True)
    to_tgt = link_counts / np.bincount(src_linked)[keys // width]
    to_src = link_counts / np.bincount(tgt_linked)[keys % width]
    scores = [
        np.log(seen / of_source[sources]),
        np.log(seen / of_target[targets]),
        *_explain(src_phrases[sources], tgt_phrases[phrases], width, keys, (to_tgt, to_src)),
    ]
    return {
        "src_starts": np.cumsum([0, *(src_phrases >= 0).sum(1)]),
        "src_tokens": src_phrases[src_phrases >= 0],
        "starts": np.searchsorted(sources, np.arange(len(src_phrases) + 1)),
        "phrases": phrases,
        "scores": np.stack(scores, axis=1),
        "tgt_starts": np.cumsum([0, *(tgt_phrases >= 0).sum(1)]),
        "tgt_tokens": tgt_phrases[tgt_phrases >= 0],
        "lexicon_keys": keys,
        "lexicon": to_tgt,
    }


def _aligned(rows: tuple[Ints, Ints], alignments: Sequence[Sequence[Links]]) -> tuple[Ints, Ints]:
    """Return the phrases [phrases, 4] and the links [links, 2] of all alignments, by the places of tokens in `rows`."""
    spans: list[Ints] = []
    linked: list[Ints] = []
    for links in alignments:
        sentences = np.repeat(np.arange(len(links)), [*map(len, links)])
        firsts = np.stack([np.searchsorted(each, sentences) for each in rows], axis=1)
        within = np.array([link for row in links for link in row], np.int64).reshape(-1, 2)
        linked.append(firsts + within)
        spans.append(consistent_phrases(rows, linked[-1]))
    return np.concatenate(spans), np.concatenate(linked)


def _explain(src: Ints, tgt: Ints, width: int, keys: Ints, probabilities: tuple[Floats, Floats]) -> list[Floats]:
    """Return the log-probabilities of target and source phrases [N, LONGEST], each token by the best of the other."""
    to_tgt, to_src = (np.log(np.append(each, 0.0) + _LEAST) for each in probabilities)  # entry -1: no link
    hashed = HashedKeys.of(keys)
    src, tgt = (np.ascontiguousarray(each.T) for each in (src, tgt))
    best_of_tgt, best_of_src = (np.where(tokens >= 0, np.log(_LEAST), 0.0) for tokens in (tgt, src))
    for i, j in product(range(LONGEST), repeat=2):
        rows = np.flatnonzero((src[i] >= 0) & (tgt[j] >= 0))
        entries = hashed.find(src[i, rows] * width + tgt[j, rows])
        best_of_tgt[j, rows] = np.maximum(best_of_tgt[j, rows], to_tgt[entries])
        best_of_src[i, rows] = np.maximum(best_of_src[i, rows], to_src[entries])
    return [best_of_tgt.sum(0), best_of_src.sum(0)]
