"""Search for translations by a phrase table, from left to right, with a beam for each place of a source.

Sentences are searched side by side, but no number depends on another sentence.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nmt.base.special_tokens import EOS_ID
from nmt.data.phrases.extraction import LONGEST
from nmt.data.phrases.ngrams import ORDER, START
from nmt.data.phrases.table import FEATURES, PhraseTable
from nmt.data.phrases.trie import Ints, find_children
from nmt.data.phrases.words import FoldedSource
from nmt.data.store.store import positions

Floats = NDArray[np.float64]

BEAM = 10  # states of the language model at a place
_MOST_OPTIONS = 10  # translations of a span, by an estimate
_MOST_PATHS = 10  # that lead to a state, for an n-best list
_TRIES = 20  # for each output of an n-best list: several ways lead to the same one
_CONTEXT = ORDER - 1
_LEAST = 1e-4  # probability of a token of a prefix that nothing explains
_LM, _TO_TGT, _TOKENS, _PHRASES, _KNOWN, _UNKNOWN, _NAME, _DROP = map(
    FEATURES.index, ("lm", "to_tgt", "tokens", "phrases", "known_copy", "unknown_copy", "name_copy", "drop")
)


class Output(NamedTuple):
    """A translation, and what its score is the weighted sum of."""

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
    num_heads: Ints  # [options]: how many have a probability that depends on what precedes the option
    tails: Floats  # [options]: the log-probability of the others
    states: Ints  # [options]: the state of the language model after the option; -1: depends on what precedes


class _Nodes(NamedTuple):
    """States of the search: at a place of a source, with a state of the language model."""

    sentences: Ints
    states: Ints
    scores: Floats
    first_paths: Ints  # the paths to this state, best first; none: the search begins here
    last_paths: Ints


class _Paths(NamedTuple):
    """Ways to a node: an option after an earlier node."""

    sentences: Ints
    states: Ints
    scores: Floats
    lms: Floats  # log-probability of the option's tokens
    previous: Ints  # number of the earlier node
    options: Ints


class PhraseSearch:
    """Searches with one table, and its weights or others."""

    def __init__(self, table: PhraseTable, weights: Floats | None = None):
        self._table = table
        self._weights = table.weights if weights is None else weights

    def search(
        self, sources: Sequence[FoldedSource], count: int = 1, prefixes: Sequence[Sequence[int]] | None = None
    ) -> list[list[Output]]:
        """Return up to `count` different translations of each source, best first; they begin with its prefix."""
        sizes = np.array([len(source.tokens) for source in sources], np.int64)
        offsets = np.cumsum(sizes) - sizes
        options, beam = self._options(sources, sizes), max(BEAM, count)
        roots = self._roots(sources, prefixes or [()] * len(sources))
        nodes, paths, ends = list[_Nodes](), list[_Paths](), list[Ints]()
        waiting: dict[int, list[_Paths]] = {}
        num_nodes = num_paths = 0
        for place in range(int(sizes.max(initial=0)) + 1):
            here = roots.get(place, _no_nodes())
            if arrived := waiting.pop(place, []):
                sorted_paths, found = _recombine(_joined(_Paths, arrived), beam, num_paths)
                paths.append(sorted_paths)
                num_paths += len(sorted_paths.scores)
                here = _joined(_Nodes, [here, found])
            nodes.append(here)
            numbers = num_nodes + np.arange(len(here.scores))
            num_nodes += len(here.scores)
            is_end = sizes[here.sentences] == place
            ends.append(numbers[is_end])
            going = np.flatnonzero(~is_end)
            extended, lengths = self._extend(_picked(here, going), numbers[going], place, offsets, options)
            for length in np.unique(lengths).tolist():
                chosen = np.flatnonzero(lengths == length)
                waiting.setdefault(place + length, []).append(_picked(extended, chosen))
        no_paths = _Paths(*(np.zeros(0, kind) for kind in (int, int, float, float, int, int)))
        lattice = _Lattice(_joined(_Nodes, nodes), _joined(_Paths, [no_paths, *paths]), options, self._weights[_LM])
        last = np.concatenate(ends)
        eos, _ = self._table.lm.step(lattice.nodes.states[last], np.full(len(last), EOS_ID))
        return lattice.best(len(sources), last, eos, count, prefixes)

    def _roots(self, sources: Sequence[FoldedSource], prefixes: Sequence[Sequence[int]]) -> dict[int, _Nodes]:
        """Return where searches begin, by place: after a prefix, at any place, the better the more it explains."""
        made: dict[int, list[tuple[int, int, float]]] = {}
        for number, (source, prefix) in enumerate(zip(sources, prefixes, strict=True)):
            state, scores = START, np.zeros(1)
            if prefix:
                ids = np.array(prefix, np.int64)
                for token in ids:
                    state = int(self._table.lm.step(np.array([state]), np.array([token]))[1][0])
                links = self._table.translations_of_tokens(np.array(source.tokens, np.int64)[:, None], ids[None, :])
                by_tgt = np.maximum.accumulate(np.concatenate([np.zeros((1, len(ids))), links]))
                explained = np.log(links.max(1, initial=0) + _LEAST).cumsum()
                scores = np.log(by_tgt + _LEAST).sum(1) + np.concatenate([[0.0], explained])
            for place, score in enumerate(scores.tolist()):
                made.setdefault(place, []).append((number, state, score))
        roots = {}
        for place, rows in made.items():
            numbers, states, values = zip(*rows, strict=True)
            nothing = np.zeros(len(rows), np.int64)
            roots[place] = _Nodes(np.array(numbers), np.array(states), np.array(values), nothing, nothing)
        return roots

    def _extend(
        self, nodes: _Nodes, numbers: Ints, place: int, offsets: Ints, options: _Options
    ) -> tuple[_Paths, Ints]:
        """Return all paths that go on from `nodes`, and the length of their spans."""
        here = offsets[nodes.sentences] + place
        counts = options.firsts[here + 1] - options.firsts[here]
        rows, used = np.repeat(np.arange(len(here)), counts), positions(options.firsts[here], counts)
        lms, states = self._table.lm.follow(
            nodes.states[rows], options.tokens, options.starts[used], options.num_heads[used]
        )
        states = np.where(options.states[used] >= 0, options.states[used], states)
        lms = lms + options.tails[used]
        scores = nodes.scores[rows] + options.scores[used] + self._weights[_LM] * lms
        paths = _Paths(nodes.sentences[rows], states, scores, lms, numbers[rows], used)
        return paths, options.ends[used] - here[rows]

    def _options(self, sources: Sequence[FoldedSource], sizes: Ints) -> _Options:
        table, lm, size = self._table, self._table.lm, int(sizes.sum())
        tokens = np.fromiter(chain.from_iterable(source.tokens for source in sources), np.int64, size)
        offsets = np.cumsum(sizes) - sizes
        words = [
            (int(offset) + word.start, int(offset) + word.end, word)
            for source, offset in zip(sources, offsets, strict=True)
            for word in source.words
        ]
        is_symbol = np.zeros(size, bool)
        for start, end, word in words:
            is_symbol[start:end] = word.is_symbol
        starts, ends, numbers, translated = self._find(tokens, np.repeat(offsets + sizes, sizes), is_symbol)
        phrases = table.phrases[numbers]
        phrase_lengths = table.tgt_starts[phrases + 1] - table.tgt_starts[phrases]
        features = np.zeros((len(numbers), len(FEATURES)))
        features[:, _TO_TGT : _TO_TGT + 4] = table.scores[numbers]
        features[:, _TOKENS], features[:, _PHRASES] = phrase_lengths, 1
        estimates = weighted(features, self._weights) + self._weights[_LM] * table.estimates[phrases]
        order = np.lexsort((numbers, -estimates, ends, starts))
        spans = (starts * (size + 1) + ends)[order]
        kept = order[np.arange(len(order)) - np.searchsorted(spans, spans) < _MOST_OPTIONS]
        num_phrases = len(kept)
        copies = np.zeros((len(words), len(FEATURES)))
        for row, (start, end, word) in enumerate(words):
            copies[row, _KNOWN if (start, end) in translated else _NAME if word.is_name else _UNKNOWN] = 1
            copies[row, _TOKENS] = len(word.copy)
        copy_lengths = np.array([len(word.copy) for *_, word in words], np.int64)
        dropped = np.flatnonzero(~is_symbol)
        drops = np.zeros((len(dropped), len(FEATURES)))
        drops[:, _DROP] = 1
        nothing = np.zeros(len(dropped), np.int64)
        copied = np.fromiter(chain.from_iterable(word.copy for *_, word in words), np.int64, int(copy_lengths.sum()))
        tokens = np.concatenate([table.tgt_tokens, copied])
        first_copied = len(table.tgt_tokens) + np.cumsum(copy_lengths) - copy_lengths
        token_starts = np.concatenate([table.tgt_starts[phrases[kept]], first_copied, nothing])
        lengths = np.concatenate([phrase_lengths[kept], copy_lengths, nothing])
        features = np.concatenate([features[kept], copies, drops])
        starts = np.concatenate([starts[kept], np.array([start for start, *_ in words], np.int64), dropped])
        ends = np.concatenate([ends[kept], np.array([end for _, end, _ in words], np.int64), dropped + 1])
        # The language model does not judge copies: most of their tokens are new to it.
        states, tails = np.full(len(starts), -1), np.zeros(len(starts))
        is_copy = np.arange(len(starts)) >= num_phrases
        ended = np.flatnonzero(is_copy & (lengths > 0))
        states[ended] = 1 + tokens[token_starts[ended] + lengths[ended] - 1]
        num_heads = np.where(is_copy, 0, np.minimum(lengths, _CONTEXT))
        long = np.flatnonzero(~is_copy & (lengths >= _CONTEXT))
        _, between = lm.follow(np.zeros(len(long), np.int64), tokens, token_starts[long], num_heads[long])
        tails[long], states[long] = lm.follow(between, tokens, token_starts[long] + _CONTEXT, lengths[long] - _CONTEXT)
        order = np.lexsort((np.arange(len(starts)), ends, starts))
        return _Options(
            np.searchsorted(starts[order], np.arange(size + 1)), ends[order], features[order],
            weighted(features, self._weights)[order], tokens, token_starts[order], lengths[order],
            num_heads[order], tails[order], states[order],
        )  # fmt: skip

    def _find(
        self, tokens: Ints, limits: Ints, is_symbol: NDArray[np.bool_]
    ) -> tuple[Ints, Ints, Ints, set[tuple[int, int]]]:
        """Return the start, the end and the number of each translation of a span, and the spans that have any.

        `limits` [places] are the ends of the sentences. Spans with a symbol have no translations.
        """
        table = self._table
        symbols_before = np.concatenate([[0], np.cumsum(is_symbol)])
        starts, nodes = np.arange(len(tokens)), np.zeros(len(tokens), np.int64)
        found = []
        for length in range(1, LONGEST + 1):
            fits = starts + length <= limits[starts]
            starts, nodes = starts[fits], nodes[fits]
            nodes = find_children(table.src_keys, nodes, tokens[starts + length - 1], table.src_vocab_size)
            starts, nodes = starts[nodes > 0], nodes[nodes > 0]
            found.append((starts, starts + length, nodes))
        span_starts, span_ends, span_nodes = map(np.concatenate, zip(*found, strict=True))
        counts = table.starts[span_nodes + 1] - table.starts[span_nodes]
        counts[symbols_before[span_ends] > symbols_before[span_starts]] = 0
        has_any = counts > 0
        translated = set(zip(span_starts[has_any].tolist(), span_ends[has_any].tolist(), strict=True))
        numbers = positions(table.starts[span_nodes], counts)
        return np.repeat(span_starts, counts), np.repeat(span_ends, counts), numbers, translated


class _Lattice:
    """All paths of a finished search."""

    def __init__(self, nodes: _Nodes, paths: _Paths, options: _Options, lm_weight: float):
        self.nodes, self._paths, self._options, self._lm_weight = nodes, paths, options, lm_weight

    def best(
        self, num_sources: int, ends: Ints, eos: Floats, count: int, prefixes: Sequence[Sequence[int]] | None
    ) -> list[list[Output]]:
        """Return the best `count` different outputs of each source; `eos` are the log-probabilities after `ends`.

        Partial paths from the end are taken by the score of the best whole path through them (Soong and Huang 1991).
        """
        scores, firsts, lasts = (part.tolist() for part in self.nodes[2:])
        path_scores, path_lms = self._paths.scores.tolist(), self._paths.lms.tolist()
        previous, used = self._paths.previous.tolist(), self._paths.options.tolist()
        heaps: list[list[Any]] = [[] for _ in range(num_sources)]
        for serial, (end, lm) in enumerate(zip(ends.tolist(), eos.tolist(), strict=True)):
            rest = self._lm_weight * lm
            heaps[self.nodes.sentences[end]].append((-(scores[end] + rest), serial, end, rest, lm, None))
        most = 1 if count == 1 else _MOST_PATHS
        results = []
        for number, heap in enumerate(heaps):
            heapq.heapify(heap)
            prefix, outputs = list(prefixes[number]) if prefixes else [], dict[tuple[int, ...], Output]()
            tries, serial = _TRIES * count, len(ends)
            while heap and len(outputs) < count and tries:
                score, _, node, rest, lm, chosen = heapq.heappop(heap)
                if firsts[node] == lasts[node]:
                    tries -= 1
                    output = self._output(-score, lm, chosen, prefix)
                    outputs.setdefault(tuple(output.tokens), output)
                for path in range(firsts[node], min(lasts[node], firsts[node] + most)):
                    before = previous[path]
                    behind = rest + path_scores[path] - scores[before]
                    serial += 1
                    chain_ = (used[path], chosen)
                    entry = (-(scores[before] + behind), serial, before, behind, lm + path_lms[path], chain_)
                    heapq.heappush(heap, entry)
            results.append([*outputs.values()])
        return results

    def _output(self, score: float, lm: float, chosen: Any, prefix: list[int]) -> Output:
        options, tokens, used = self._options, prefix.copy(), []
        while chosen is not None:
            option, chosen = chosen
            used.append(option)
            start = options.starts[option]
            tokens += options.tokens[start : start + options.lengths[option]].tolist()
        features = options.features[used].sum(0) if used else np.zeros(len(FEATURES))
        features[_LM] = lm
        return Output(tokens, score, features)


def _recombine(paths: _Paths, beam: int, first_number: int) -> tuple[_Paths, _Nodes]:
    """Return `paths` sorted, and the best `beam` of the nodes they lead to, for each sentence."""
    order = np.lexsort((paths.options, paths.previous, -paths.scores, paths.states, paths.sentences))
    paths = _picked(paths, order)
    is_first = np.ones(len(order), bool)
    is_first[1:] = (np.diff(paths.states) != 0) | (np.diff(paths.sentences) != 0)
    firsts = np.flatnonzero(is_first)
    lasts = np.append(firsts[1:], len(order))
    by_score = np.lexsort((firsts, -paths.scores[firsts], paths.sentences[firsts]))
    owners = paths.sentences[firsts][by_score]
    kept = by_score[np.arange(len(owners)) - np.searchsorted(owners, owners) < beam]
    firsts, lasts = firsts[kept], lasts[kept]
    nodes = _Nodes(
        paths.sentences[firsts], paths.states[firsts], paths.scores[firsts], firsts + first_number, lasts + first_number
    )
    return paths, nodes


def _joined(kind: Any, parts: Sequence[Any]) -> Any:
    return kind(*map(np.concatenate, zip(*parts, strict=True)))


def _picked(parts: Any, rows: Ints) -> Any:
    return type(parts)(*(part[rows] for part in parts))


def _no_nodes() -> _Nodes:
    return _Nodes(*(np.zeros(0, kind) for kind in (int, int, float, int, int)))


def weighted(features: Floats, weights: Floats) -> Floats:
    """Return the weighted sum of each row, which does not depend on the number of rows, as a matrix product may."""
    total = np.zeros(len(features))
    for column, weight in enumerate(weights.tolist()):
        total += features[:, column] * weight
    return total
