"""Search for translations by a phrase table, from left to right, with a beam for each place of a source.

A source is translated span by span. An option is one translation of one span: a phrase of the table, two neighbors that
change places, a copied word, or nothing for a word that is dropped. A path is a sequence of options that covers a
source up to a place. At each place in turn, only the best states of the language model stay, and the paths of these go
on by every option that begins there (Koehn 2010, "Statistical Machine Translation", chapter 6, without distortion
beyond the swaps).

Sentences are searched side by side, in arrays, but no number depends on another sentence. The tokens of all sources
stand in one row, so that a place is a number of that row; after each source there is a place more, where its paths end.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nmt.base.languages import has_unspaced
from nmt.base.special_tokens import EOS_ID
from nmt.data.phrases.extraction import LONGEST
from nmt.data.phrases.kin import WordsOfKin
from nmt.data.phrases.ngrams import ORDER, START
from nmt.data.phrases.table import FEATURES, NEVER, PhraseTable
from nmt.data.phrases.trie import Ints, concatenate
from nmt.data.phrases.words import FoldedSource
from nmt.data.store.positions import positions
from nmt.data.tokens.tokenizer import TokenizerPair

Floats = NDArray[np.float64]
_Span = tuple[int, int, int, float]  # place, end, number of a phrase, difference if it is only akin to that
_Copy = tuple[int, int, int, tuple[int, ...]]  # place, end, feature, tokens

BEAM = 10  # states of the language model at a place
_MOST_OPTIONS = 10  # translations of a span, by an estimate
_LONGEST_SWAP = 8  # source tokens of two phrases that change places
_SWAPPED, _MOST_SWAPS = 2, 3  # translations of each of the two, by their estimates; of the span of both
_WAYS = 4  # for an n-best list: a way that leads to a state, per that many outputs, is kept
# How far below the best translation of a source until a place another one may be, in nats of the language model, by an
# estimate that ignores what precedes the last phrase; and by its score, in shares of that. Together they changed 24 of
# 1,200 translations of four corpora.
_NEAR, _NEAR_SHARE = 8.0, 0.6
_LEAST = 1e-4  # probability of a token of a prefix that nothing explains
_USUAL_LENGTH = 30  # tokens of a source to which the weight of a token need not be adapted
_LM, _TO_TGT, _TOKENS, _PHRASES, _KNOWN, _UNKNOWN, _NAME, _DROP, _KIN, _SWAP, _LENGTH = map(
    FEATURES.index,
    ("lm", "to_tgt", "tokens", "phrases", "known_copy", "unknown_copy", "name_copy", "drop", "kin", "swap", "length"),
)


class Output(NamedTuple):
    """A translation, and the features that its score is the weighted sum of."""

    tokens: list[int]
    score: float
    features: Floats


class _Estimates(NamedTuple):
    """The worth of paths by estimates, as if nothing preceded their last phrases."""

    of_options: Floats
    bests: Floats  # so far, at each place
    margin: float  # by which a path may be worse than the best one at its place


class _Options(NamedTuple):
    """Translations of spans of sources. Places count the tokens of all sources, and one more after each source."""

    tokens: Ints  # of all translations
    places: Ints  # [options]: the place of the first token of the span
    ends: Ints  # [options]: the place after the span
    features: Floats  # [options, features], without the language model
    scores: Floats  # [options]
    starts: Ints  # [options]: the first of its tokens
    lengths: Ints  # [options]: their number
    # By the language model; it does not judge copies, since most of their tokens are new to it.
    alone: Floats  # [options]: log-probability of all its tokens, whatever precedes it
    dependent: Ints  # [options]: how many of its tokens depend on what precedes it
    inner: Floats  # [options]: log-probability of the others
    after: Ints  # [options]: the state after it; -1 if that depends on what precedes it

    def pick(self, rows: NDArray[Any]) -> _Options:
        """Return the options `rows`."""
        tokens, *parts = self
        return _Options(tokens, *(part[rows] for part in parts))


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

    def __init__(self, table: PhraseTable, tokenizers: TokenizerPair):
        self._table = table
        self.weights = table.weights
        tokens = table.src_tokens.tolist()
        phrases = (tuple(tokens[start:end]) for start, end in pairwise(table.src_starts.tolist()))
        self._numbers = {phrase: number for number, phrase in enumerate(phrases)}
        self._kin = WordsOfKin(self._numbers, tokenizers.src)
        tgt = tokenizers.tgt
        self._spellings = tgt.vocabulary
        self._space = tgt.encode("▁")[:1]
        self._lengths = np.diff(table.tgt_starts)
        self._judged = self._judge(table.tgt_tokens, table.tgt_starts[:-1], self._lengths)

    def _judge(self, tokens: Ints, starts: Ints, lengths: Ints) -> tuple[Floats, Ints, Floats, Ints]:
        """Return `alone`, `dependent`, `inner` and `after` of each tokens[start : start + length]."""
        lm = self._table.lm
        nothing = np.zeros_like(starts)
        dependent = np.minimum(lengths, ORDER - 1)
        alone, states = lm.follow(nothing, tokens, starts, lengths)
        first, _ = lm.follow(nothing, tokens, starts, dependent)
        return alone, dependent, alone - first, np.where(lengths < ORDER - 1, -1, states)

    def search(
        self,
        sources: Sequence[FoldedSource],
        count: int = 1,
        prefixes: Sequence[Sequence[int]] | None = None,
        *,
        completes: bool = True,
    ) -> list[list[Output]]:
        """Return up to `count` different translations of each source, best first; they begin with its prefix.

        The best one is the same for every `count`, since more ways to a state are kept, not more states. A list that is
        short because paths are left out too early goes on with the worse outputs of a search that leaves out none if
        `completes`, which takes as long again for lists of ten.
        """
        prefixes = prefixes or [()] * len(sources)
        found = self._find(sources, count, prefixes, _NEAR * abs(self.weights[_LM]))
        short = [number for number, outputs in enumerate(found) if completes and len(outputs) < count]
        every = self._find([sources[each] for each in short], count, [prefixes[each] for each in short], np.inf)
        for number, outputs in zip(short, every, strict=True):
            worst = min((output.score for output in found[number]), default=np.inf)
            found[number] += [output for output in outputs if output.score < worst][: count - len(found[number])]
        return found

    def _find(
        self, sources: Sequence[FoldedSource], count: int, prefixes: Sequence[Sequence[int]], margin: float
    ) -> list[list[Output]]:
        """Search without the paths whose estimates are lower than the best at their places by more than `margin`.

        Those whose scores are lower by more than a share of it go no further.
        """
        if not sources:
            return []
        sizes = np.array([len(source.tokens) for source in sources], np.int64)
        options = self._options(sources)
        offsets = np.cumsum(sizes + 1) - sizes - 1
        waiting = self._roots(sources, prefixes)
        bests = np.full(len(sources) + int(sizes.sum()), -np.inf)
        estimates = _Estimates(self._estimates(options), bests, margin)
        kept: list[_Paths] = []
        ends: list[Ints] = []
        num_paths = 0
        for place in range(int(sizes.max(initial=0)) + 1):
            if place not in waiting:
                continue
            reached = _joined(waiting.pop(place))
            best_scores = np.full(len(sources), -np.inf)
            np.maximum.at(best_scores, reached.sentences, reached.scores)
            near = reached.scores >= best_scores[reached.sentences] - _NEAR_SHARE * margin
            here = _best_paths(_picked(reached, np.flatnonzero(near)), 1 + (count - 1) // _WAYS)
            numbers = num_paths + np.arange(len(here.scores))
            is_end = sizes[here.sentences] == place
            num_paths += len(numbers)
            kept.append(here)
            ends.append(numbers[is_end])
            going = np.flatnonzero(~is_end)
            starts = offsets[here.sentences[going]] + place
            extended = self._extend(_picked(here, going), numbers[going], starts, options, estimates)
            places = options.ends[extended.options] - offsets[extended.sentences]
            for end in np.unique(places).tolist():
                waiting.setdefault(end, []).append(_picked(extended, np.flatnonzero(places == end)))
        return self._outputs(_joined(kept), np.concatenate(ends), options, count, prefixes)

    def _roots(self, sources: Sequence[FoldedSource], prefixes: Sequence[Sequence[int]]) -> dict[int, list[_Paths]]:
        """Return where searches begin: after a prefix, at the place where what precedes best explains it."""
        roots: dict[int, list[_Paths]] = {}
        for number, (source, prefix) in enumerate(zip(sources, prefixes, strict=True)):
            state = np.array([START])
            place = 0
            ids = np.array(prefix, np.int64)
            for token in ids:
                _, state = self._table.lm.step(state, token[None])
            if len(ids) and source.tokens:
                links = self._table.translations_of_tokens(np.array(source.tokens, np.int64)[:, None], ids[None, :])
                by_tgt = np.log(np.maximum.accumulate(links) + _LEAST).sum(1)
                explained = np.log(links.max(1) + _LEAST).cumsum()
                place = 1 + int(np.argmax(by_tgt + explained))
            nothing = np.zeros(1)
            none = np.array([-1])
            root = _Paths(np.array([number]), state, nothing, nothing, none, none)
            roots.setdefault(place, []).append(root)
        return roots

    def _extend(self, paths: _Paths, numbers: Ints, places: Ints, options: _Options, estimates: _Estimates) -> _Paths:
        """Return the paths that go on from `paths`, at `places`, near the best ones; update what these are worth."""
        # Each path, in `rows`, with each option that begins at its place, in `used`.
        firsts, lasts = (np.searchsorted(options.places, places, side) for side in ("left", "right"))
        rows = np.repeat(np.arange(len(places)), lasts - firsts)
        used = positions(firsts, lasts - firsts)
        estimated = paths.scores[rows] + estimates.of_options[used]
        ends = options.ends[used]
        np.maximum.at(estimates.bests, ends, estimated)
        near = np.flatnonzero(estimated >= estimates.bests[ends] - estimates.margin)  # asked before the language model
        rows = rows[near]
        used = used[near]
        lms, states = self._table.lm.follow(
            paths.states[rows], options.tokens, options.starts[used], options.dependent[used]
        )
        # An option's first tokens depend on the path; those after them, and the state at the end, only on the option.
        lms += options.inner[used]
        scores = paths.scores[rows] + options.scores[used] + self.weights[_LM] * lms
        states = np.where(options.after[used] >= 0, options.after[used], states)
        return _Paths(paths.sentences[rows], states, scores, paths.lms[rows] + lms, numbers[rows], used)

    def _estimates(self, options: _Options) -> Floats:
        """Return the score of each option as if nothing preceded it."""
        return options.scores + self.weights[_LM] * options.alone

    def _options(self, sources: Sequence[FoldedSource]) -> _Options:
        """Return all translations of spans, in the order of their places."""
        spans: list[_Span] = []
        copies: list[_Copy] = []
        place = 0
        for source in sources:
            self._add_spans(source, place, spans, copies)
            place += len(source.tokens) + 1
        sizes = np.array([len(source.tokens) + 1 for source in sources], np.int64)
        lengths = np.repeat(np.log(sizes / _USUAL_LENGTH), sizes)
        phrases = self._phrases(spans, lengths)
        parts = phrases, self._swaps(phrases), self._copies(copies, lengths)
        # Their tokens, one after another in one array.
        sizes = np.cumsum([0, *(len(part.tokens) for part in parts)])
        moved = [part._replace(starts=part.starts + size) for part, size in zip(parts, sizes, strict=False)]
        options = _Options(*map(np.concatenate, zip(*moved, strict=True)))
        return options.pick(np.argsort(options.places, kind="stable"))

    def _add_spans(self, source: FoldedSource, first: int, spans: list[_Span], copies: list[_Copy]) -> None:
        """Add the spans of a source that begins at place `first`: phrases, words of kin, words to copy or to drop."""
        tokens = source.tokens
        known = {
            (start, end): number
            for start in range(len(tokens))
            for end in range(start + 1, min(start + LONGEST, len(tokens)) + 1)
            if (number := self._numbers.get(tuple(tokens[start:end]))) is not None
        }
        spans += [(first + start, first + end, number, 0.0) for (start, end), number in known.items()]
        has_kin = self.weights[_KIN] > NEVER
        for word in source.words:
            place = first + word.start
            end = first + word.end
            is_known = (word.start, word.end) in known
            kind = _KNOWN if is_known else _NAME if word.is_name else _UNKNOWN
            copies.append((place, end, kind, word.copy))
            if not word.is_symbol:  # a symbol, such as a tag, is neither dropped nor a form of another word
                copies += [(at, at + 1, _DROP, ()) for at in range(place, end)]
                kin = () if is_known or not has_kin else self._kin.find(tokens[word.start : word.end])
                spans += [(place, end, number, difference) for number, difference in kin]

    def _phrases(self, spans: Sequence[_Span], lengths_of_sources: Floats) -> _Options:
        """Return the best translations of each span by the phrase of the table that it is, or is akin to."""
        table = self._table
        *spans_of, differences = np.array(spans, np.float64).reshape(-1, 4).T
        places, ends, sources = np.array(spans_of, np.int64)
        # All translations of each span: their `numbers` in the table, and the `rows` of their spans.
        firsts = table.starts[sources]
        counts = table.starts[sources + 1] - firsts
        numbers = positions(firsts, counts)
        phrases = table.phrases[numbers]
        rows = np.repeat(np.arange(len(spans)), counts)
        features = np.zeros((len(numbers), len(FEATURES)))
        lengths = self._lengths[phrases]
        features[:, _TO_TGT : _TO_TGT + 4] = table.scores[numbers]
        features[:, _TOKENS] = lengths
        features[:, _PHRASES] = 1
        features[:, _KIN] = differences[rows]
        features[:, _LENGTH] = lengths * lengths_of_sources[places][rows]
        scores = weighted(features, self.weights)
        starts = table.tgt_starts[phrases]
        judged: Any = (part[phrases] for part in self._judged)
        options = _Options(table.tgt_tokens, places[rows], ends[rows], features, scores, starts, lengths, *judged)
        return self._best(options, _MOST_OPTIONS)

    def _swaps(self, phrases: _Options) -> _Options:
        """Return the best translations of each two neighboring spans by `phrases`, that of the second one first."""
        # Each of the best options of a span, `left`, with each of those of the span that begins where it ends.
        most = _SWAPPED if self.weights[_SWAP] > NEVER else 0
        phrases = phrases.pick(_ranks_in_spans(phrases.places, phrases.ends) < most)
        firsts, ends = (np.searchsorted(phrases.places, phrases.ends, side) for side in ("left", "right"))
        left = np.repeat(np.arange(len(firsts)), ends - firsts)
        right = positions(firsts, ends - firsts)
        is_short = phrases.ends[right] - phrases.places[left] <= _LONGEST_SWAP
        before, after = phrases.pick(right[is_short]), phrases.pick(left[is_short])  # in the translation
        features = before.features + after.features
        lengths = before.lengths + after.lengths
        features[:, _SWAP] = 1
        # The tokens of both, in the order of the translation.
        starts = np.stack([before.starts, after.starts], axis=1).ravel()
        tokens = phrases.tokens[positions(starts, np.stack([before.lengths, after.lengths], axis=1).ravel())]
        starts = np.cumsum(lengths) - lengths
        scores = weighted(features, self.weights)
        judged = self._judge(tokens, starts, lengths)
        options = _Options(tokens, after.places, before.ends, features, scores, starts, lengths, *judged)
        return self._best(options, _MOST_SWAPS)

    def _best(self, options: _Options, most: int) -> _Options:
        """Return up to `most` options of each span."""
        order = np.lexsort((-self._estimates(options), options.ends, options.places))
        return options.pick(order[_ranks_in_spans(options.places[order], options.ends[order]) < most])

    def _copies(self, copies: Sequence[_Copy], lengths_of_sources: Floats) -> _Options:
        """Return copied and dropped words."""
        places, ends, kinds = np.array([copy[:3] for copy in copies], np.int64).reshape(-1, 3).T
        tokens, rows = concatenate([copy for *_, copy in copies])
        lengths = np.bincount(rows, minlength=len(copies))
        nothing = np.zeros(len(copies))
        features = np.zeros((len(copies), len(FEATURES)))
        features[np.arange(len(copies)), kinds] = 1
        features[:, _TOKENS] = lengths
        features[:, _LENGTH] = lengths * lengths_of_sources[places]
        scores = weighted(features, self.weights)
        next_starts = np.cumsum(lengths)
        after = np.where(lengths > 0, 1 + np.append(tokens, -1)[next_starts - 1], -1)  # state of the last token alone
        judged = nothing, np.zeros_like(lengths), nothing, after
        return _Options(tokens, places, ends, features, scores, next_starts - lengths, lengths, *judged)

    def _outputs(
        self, paths: _Paths, ends: Ints, options: _Options, count: int, prefixes: Sequence[Sequence[int]]
    ) -> list[list[Output]]:
        """Return the best different outputs of each source; its paths end at `ends`."""
        eos, _ = self._table.lm.step(paths.states[ends], np.full(len(ends), EOS_ID))
        scores = paths.scores[ends] + self.weights[_LM] * eos
        lms = paths.lms[ends] + eos
        outputs: list[dict[tuple[int, ...], Output]] = [{} for _ in prefixes]
        for row in np.lexsort((ends, -scores)).tolist():
            number = paths.sentences[ends[row]]
            path = ends[row]
            used: list[np.int64] = []
            if len(outputs[number]) == count:
                continue
            while paths.previous[path] >= 0:
                used.append(paths.options[path])
                path = paths.previous[path]
            tokens = list(prefixes[number])
            copied_until = -1
            for option in reversed(used):
                start = options.starts[option]
                part = options.tokens[start : start + options.lengths[option]].tolist()
                if options.features[option, _KNOWN:_DROP].any():  # a copy
                    # After a translated article, as in l'Alliance, it is a word of its own.
                    if tokens and part and options.places[option] != copied_until:
                        joint = self._spellings[tokens[-1]][-1] + self._spellings[part[0]][0]
                        tokens += self._space if joint.isalnum() and not has_unspaced(joint[0]) else []
                    copied_until = options.ends[option]
                tokens += part
            tokens = self._without_lone_spaces(tokens, len(prefixes[number]))
            features = options.features[used].sum(0)
            features[_LM] = lms[row]
            outputs[number].setdefault(tuple(tokens), Output(tokens, float(scores[row]), features))
        return [[*of_source.values()] for of_source in outputs]

    def _without_lone_spaces(self, tokens: Sequence[int], first: int) -> list[int]:
        """Leave out spaces, from token `first` on, that no letter follows: what was there, such as «, was dropped."""
        spellings = [*(self._spellings[token] for token in tokens), "▁"]
        return [
            token
            for number, token in enumerate(tokens)
            if number < first or spellings[number] != "▁" or not spellings[number + 1].startswith("▁")
        ]


def _ranks_in_spans(places: Ints, ends: Ints) -> Ints:
    """Return how many options of its span precede each; those of a span follow each other."""
    spans = places * (ends.max(initial=0) + 1) + ends
    return np.arange(len(spans)) - np.searchsorted(spans, spans)


def _best_paths(paths: _Paths, ways: int) -> _Paths:
    """Return the best `ways` to each of the best states, for each sentence; of equal ones, the earlier."""
    # Sorted by sentence and state, the best path of each state first.
    owners = paths.sentences * (paths.states.max(initial=0) + 1) + paths.states
    order = np.lexsort((-paths.scores, owners))
    paths = _picked(paths, order)
    is_first = np.append(True, np.diff(owners[order]) != 0)
    firsts = np.flatnonzero(is_first)
    states = np.cumsum(is_first) - 1
    # The states of each sentence by their best paths; of these, BEAM are kept.
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
