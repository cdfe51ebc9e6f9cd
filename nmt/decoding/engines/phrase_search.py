"""Search for translations by a phrase table, from left to right, with a beam for each place of a source.

Sentences are searched side by side, but no number depends on another sentence.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nmt.base.special_tokens import EOS_ID
from nmt.data.phrases.extraction import LONGEST
from nmt.data.phrases.ngrams import START
from nmt.data.phrases.table import FEATURES, PhraseTable
from nmt.data.phrases.trie import Ints, concatenate
from nmt.data.phrases.words import FoldedSource
from nmt.data.store.positions import positions

Floats = NDArray[np.float64]

BEAM = 10  # states of the language model at a place
_MOST_OPTIONS = 10  # translations of a span, by an estimate
_WAYS = 4  # for an n-best list: a way that leads to a state, per that many outputs, is kept
_LEAST = 1e-4  # probability of a token of a prefix that nothing explains
_LM, _TO_TGT, _TOKENS, _PHRASES, _KNOWN, _UNKNOWN, _NAME, _DROP = map(
    FEATURES.index, ("lm", "to_tgt", "tokens", "phrases", "known_copy", "unknown_copy", "name_copy", "drop")
)


class Output(NamedTuple):
    """A translation, and the features that its score is the weighted sum of."""

    tokens: list[int]
    score: float
    features: Floats


class _Options(NamedTuple):
    """Translations of spans of sources, by the place of their first token."""

    firsts: Ints  # [places + 1]: the first option of each place
    ends: Ints  # [options]: the place after the span
    features: Floats  # [options, features], without the language model
    scores: Floats  # [options]
    tokens: Ints  # the tokens of all phrases and copies
    starts: Ints  # [options]: the first token of each option
    lengths: Ints  # [options]: their number
    judged: Ints  # [options]: how many of them the language model judges
    copied: Ints  # [options]: the last token of a copy, else -1


class _Paths(NamedTuple):
    """Ways from the start of a source to a place: an option after an earlier path."""

    sentences: Ints
    states: Ints  # of the language model
    scores: Floats
    lms: Floats  # log-probability of all tokens by the language model
    previous: Ints  # number of the earlier path; -1: the search begins here
    options: Ints


class PhraseSearch:
    """Searches with one table, and with `weights`, which may be changed between searches."""

    def __init__(self, table: PhraseTable):
        self._table, self.weights = table, table.weights
        tokens, starts = table.src_tokens.tolist(), table.src_starts.tolist()
        phrases = (tuple(tokens[start:end]) for start, end in pairwise(starts))
        self._numbers = {phrase: number for number, phrase in enumerate(phrases)}
        self._lengths = np.diff(table.tgt_starts)
        nothing = np.zeros(len(self._lengths), np.int64)
        self._estimates, _ = table.lm.follow(nothing, table.tgt_tokens, table.tgt_starts[:-1], self._lengths)

    def search(
        self, sources: Sequence[FoldedSource], count: int = 1, prefixes: Sequence[Sequence[int]] | None = None
    ) -> list[list[Output]]:
        """Return up to `count` different translations of each source, best first; they begin with its prefix.

        The best one is the same for every `count`: more ways to a state are kept, not more states.
        """
        sizes = np.array([len(source.tokens) for source in sources], np.int64)
        options, offsets = self._options(sources), np.cumsum(sizes) - sizes
        prefixes = prefixes or [()] * len(sources)
        waiting = self._roots(sources, prefixes)
        kept, ends, num_paths = list[_Paths](), list[Ints](), 0
        for place in range(int(sizes.max(initial=0)) + 1):
            if place not in waiting:
                continue
            here = _best_paths(_joined(waiting.pop(place)), 1 + (count - 1) // _WAYS)
            numbers, is_end = num_paths + np.arange(len(here.scores)), sizes[here.sentences] == place
            num_paths += len(numbers)
            kept.append(here)
            ends.append(numbers[is_end])
            going = np.flatnonzero(~is_end)
            extended, places = self._extend(_picked(here, going), numbers[going], offsets, place, options)
            for end in np.unique(places).tolist():
                waiting.setdefault(end, []).append(_picked(extended, np.flatnonzero(places == end)))
        return self._outputs(_joined(kept), np.concatenate(ends), options, count, prefixes)

    def _roots(self, sources: Sequence[FoldedSource], prefixes: Sequence[Sequence[int]]) -> dict[int, list[_Paths]]:
        """Return where searches begin: after a prefix, at the place where what precedes best explains it."""
        roots: dict[int, list[_Paths]] = {}
        for number, (source, prefix) in enumerate(zip(sources, prefixes, strict=True)):
            state, place, ids = np.array([START]), 0, np.array(prefix, np.int64)
            for token in ids:
                _, state = self._table.lm.step(state, token[None])
            if len(ids) and source.tokens:
                links = self._table.translations_of_tokens(np.array(source.tokens, np.int64)[:, None], ids[None, :])
                by_tgt = np.log(np.maximum.accumulate(links) + _LEAST).sum(1)
                explained = np.log(links.max(1) + _LEAST).cumsum()
                place = 1 + int(np.argmax(by_tgt + explained))
            nothing, none = np.zeros(1), np.array([-1])
            root = _Paths(np.array([number]), state, nothing, nothing, none, none)
            roots.setdefault(place, []).append(root)
        return roots

    def _extend(
        self, paths: _Paths, numbers: Ints, offsets: Ints, place: int, options: _Options
    ) -> tuple[_Paths, Ints]:
        """Return all paths that go on from `paths`, and the places that they lead to."""
        here = offsets[paths.sentences] + place
        counts = options.firsts[here + 1] - options.firsts[here]
        rows, used = np.repeat(np.arange(len(here)), counts), positions(options.firsts[here], counts)
        lms, states = self._table.lm.follow(
            paths.states[rows], options.tokens, options.starts[used], options.judged[used]
        )
        copied = options.copied[used]
        states = np.where(copied >= 0, 1 + copied, states)
        scores = paths.scores[rows] + options.scores[used] + self.weights[_LM] * lms
        extended = _Paths(paths.sentences[rows], states, scores, paths.lms[rows] + lms, numbers[rows], used)
        return extended, options.ends[used] - offsets[paths.sentences[rows]]

    def _options(self, sources: Sequence[FoldedSource]) -> _Options:
        table, offset = self._table, 0
        spans, copies = list[tuple[int, int, int]](), list[tuple[int, int, int, tuple[int, ...]]]()
        for source in sources:
            tokens = source.tokens
            translated = {
                (start, end): number
                for start in range(len(tokens))
                for end in range(start + 1, min(start + LONGEST, len(tokens)) + 1)
                if (number := self._numbers.get(tuple(tokens[start:end]))) is not None
            }
            spans += [(offset + start, offset + end, number) for (start, end), number in translated.items()]
            for word in source.words:
                kind = _KNOWN if (word.start, word.end) in translated else _NAME if word.is_name else _UNKNOWN
                copies.append((offset + word.start, offset + word.end, kind, word.copy))
                dropped = range(offset + word.start, offset + word.end) if not word.is_symbol else ()
                copies += [(at, at + 1, _DROP, ()) for at in dropped]
            offset += len(tokens)
        starts, ends, found = np.array(spans, np.int64).reshape(-1, 3).T
        counts = table.starts[found + 1] - table.starts[found]
        numbers, starts, ends = (
            positions(table.starts[found], counts),
            np.repeat(starts, counts),
            np.repeat(ends, counts),
        )
        phrases = table.phrases[numbers]
        features = np.zeros((len(numbers), len(FEATURES)))
        features[:, _TO_TGT : _TO_TGT + 4] = table.scores[numbers]
        features[:, _TOKENS], features[:, _PHRASES] = self._lengths[phrases], 1
        estimates = weighted(features, self.weights) + self.weights[_LM] * self._estimates[phrases]
        order = np.lexsort((numbers, -estimates, ends, starts))
        owners = (starts * (offset + 1) + ends)[order]
        kept = order[np.arange(len(order)) - np.searchsorted(owners, owners) < _MOST_OPTIONS]
        of_copies = np.zeros((len(copies), len(FEATURES)))
        kinds = np.array([kind for _, _, kind, _ in copies], np.int64)
        copied, rows = concatenate([copy for *_, copy in copies])
        copy_lengths = np.bincount(rows, minlength=len(copies))
        of_copies[np.arange(len(copies)), kinds], of_copies[:, _TOKENS] = 1, copy_lengths
        copy_ends = np.cumsum(copy_lengths)
        starts = np.concatenate([starts[kept], np.array([start for start, *_ in copies], np.int64)])
        order = np.argsort(starts, kind="stable")
        features = np.concatenate([features[kept], of_copies])[order]
        lengths = self._lengths[phrases[kept]]
        # The language model does not judge copies: most of their tokens are new to it.
        nothing = np.zeros(len(copies), np.int64)
        last = np.where(copy_lengths > 0, np.append(copied, -1)[copy_ends - 1], -1)
        return _Options(
            np.searchsorted(starts[order], np.arange(offset + 1)),
            np.concatenate([ends[kept], np.array([end for _, end, *_ in copies], np.int64)])[order],
            features,
            weighted(features, self.weights),
            np.concatenate([table.tgt_tokens, copied]),
            np.concatenate([table.tgt_starts[phrases[kept]], len(table.tgt_tokens) + copy_ends - copy_lengths])[order],
            np.concatenate([lengths, copy_lengths])[order],
            np.concatenate([lengths, nothing])[order],
            np.concatenate([np.full(len(kept), -1), last])[order],
        )

    def _outputs(
        self, paths: _Paths, ends: Ints, options: _Options, count: int, prefixes: Sequence[Sequence[int]]
    ) -> list[list[Output]]:
        """Return the best different outputs of each source; its paths end at `ends`."""
        eos, _ = self._table.lm.step(paths.states[ends], np.full(len(ends), EOS_ID))
        scores, lms = paths.scores[ends] + self.weights[_LM] * eos, paths.lms[ends] + eos
        outputs: list[dict[tuple[int, ...], Output]] = [{} for _ in prefixes]
        for row in np.lexsort((ends, -scores)).tolist():
            number, path, used = int(paths.sentences[ends[row]]), int(ends[row]), list[int]()
            if len(outputs[number]) == count:
                continue
            while paths.previous[path] >= 0:
                used.append(int(paths.options[path]))
                path = int(paths.previous[path])
            tokens = list(prefixes[number])
            for option in reversed(used):
                start = options.starts[option]
                tokens += options.tokens[start : start + options.lengths[option]].tolist()
            features = options.features[used].sum(0)
            features[_LM] = lms[row]
            outputs[number].setdefault(tuple(tokens), Output(tokens, float(scores[row]), features))
        return [[*of_source.values()] for of_source in outputs]


def _best_paths(paths: _Paths, ways: int) -> _Paths:
    """Return the best `ways` to each of the best states, for each sentence; of equal ones, the earlier."""
    owners = paths.sentences * (paths.states.max(initial=0) + 1) + paths.states
    paths = _picked(paths, np.lexsort((-paths.scores, owners)))
    is_first = np.append(True, (np.diff(paths.states) != 0) | (np.diff(paths.sentences) != 0))
    firsts = np.flatnonzero(is_first)
    states = np.cumsum(is_first) - 1
    by_score = np.lexsort((-paths.scores[firsts], paths.sentences[firsts]))
    owners = paths.sentences[firsts][by_score]
    is_kept = np.zeros(len(firsts), bool)
    is_kept[by_score[np.arange(len(owners)) - np.searchsorted(owners, owners) < BEAM]] = True
    return _picked(paths, np.flatnonzero(is_kept[states] & (np.arange(len(states)) - firsts[states] < ways)))


def _joined(parts: Sequence[Any]) -> _Paths:
    return _Paths(*map(np.concatenate, zip(*parts, strict=True)))


def _picked(paths: Any, rows: Ints) -> _Paths:
    return _Paths(*(part[rows] for part in paths))


def weighted(features: Floats, weights: Floats) -> Floats:
    """Return the weighted sum of each row, which does not depend on the number of rows, as a matrix product may."""
    total = np.zeros(len(features))
    for column, weight in enumerate(weights.tolist()):
        total += features[:, column] * weight
    return total
