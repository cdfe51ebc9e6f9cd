"""Translate token ids with the phrase table of a run: better than its network if the corpus is small. No torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nmt.artifacts.rundir import RunDir
from nmt.base.errors import NmtError
from nmt.base.special_tokens import EOS_ID
from nmt.config import SearchOptions
from nmt.config.model import ModelConfig
from nmt.data.phrases.ngrams import START
from nmt.data.phrases.table import PhraseTable
from nmt.data.phrases.words import SourceFolder
from nmt.data.tokens.tokenizer import TokenizerPair
from nmt.decoding.engines.interface import Ids, Input, Output, Terms, Weights, check_layer_and_head
from nmt.decoding.engines.phrase_search import Output as Found
from nmt.decoding.engines.phrase_search import PhraseSearch
from nmt.decoding.hypothesis import Hypothesis, output_limits, sampling_numbers

if TYPE_CHECKING:
    from nmt.model.recording import AttentionWeights

_SIDE_BY_SIDE = 128  # sentences of a search, of similar lengths
_CANDIDATES = 20  # among which to find one without repeats, or of a minimum length
_SAMPLED = 50  # outputs that samples are drawn from
_LM_SHARE = 0.5  # of the probability of a token
_LONGEST = 1024  # tokens of a source or an output: a table has no positions that a network would have to learn


class PhraseEngine:
    """Translates token ids with a phrase table. Several threads may use it at once.

    Its search has its own scores and a beam of at least ten, and ignores the length penalty and shortlists. The
    probability of a token is the mean of those by the language model and by the tokens of the source.
    """

    name = "phrase"
    num_threads = 1
    batches_per_search = 0
    takes_terms = False
    precision = "fp64"

    def __init__(self, table: PhraseTable, tokenizers: TokenizerPair, config: ModelConfig):
        self.table = table
        self._config = config
        self.max_src_len, self.max_tgt_len = (
            max(limit, _LONGEST) for limit in (config.max_src_len, config.max_tgt_len)
        )
        self._folder = SourceFolder(tokenizers)
        self._search = PhraseSearch(table, tokenizers)

    @classmethod
    def load(cls, run: RunDir, tokenizers: TokenizerPair) -> PhraseEngine:
        """Load the table of `run`. NmtError if there is none; RunError if it is damaged."""
        if not run.phrases.is_file():
            raise NmtError(
                "this run has no phrase table",
                hint="use the engine auto: `nmt train` builds tables for one direction and 500 to 16,000 pairs",
            )
        return cls(PhraseTable.load(run.phrases, tokenizers), tokenizers, run.essentials().model)

    def map(self, function: Callable[[Input], Output], inputs: Sequence[Input]) -> list[Output]:
        """Implement `Engine.map` sequentially."""
        return [function(each) for each in inputs]

    def close(self) -> None:
        """Implement `Engine.close`; there are no threads."""

    def search(
        self,
        sources: Sequence[Ids],
        options: SearchOptions,
        prefixes: Sequence[Ids] | None = None,
        draws: Sequence[int] | None = None,
        drafts: Sequence[Ids] | None = None,
        terms: Terms | None = None,
    ) -> list[list[Hypothesis]]:
        """Implement `Engine.search`; samples are drawn from the best fifty outputs. NmtError for `terms`."""
        if terms is not None:
            raise NmtError("the phrase engine does not support terms", hint="use the engine native")
        every = [()] * len(sources) if prefixes is None else prefixes
        limits = output_limits(sources, options, every, self.max_src_len, self.max_tgt_len)
        chooses = options.no_repeat_ngram > 0 or options.min_len > 0
        count = max(options.num_hypotheses, _CANDIDATES if chooses else 1)
        if options.sample:
            count = min(options.top_k or _SAMPLED, _SAMPLED)
        kept: list[list[list[int]]] = [[] for _ in sources]
        by_length = sorted(range(len(sources)), key=lambda row: len(sources[row]))
        for start in range(0, len(sources), _SIDE_BY_SIDE):
            rows = by_length[start : start + _SIDE_BY_SIDE]
            folded = [self._folder.fold(sources[row][: self.max_src_len - 1]) for row in rows]
            found = self._search.search(folded, count, [every[row] for row in rows])
            for row, outputs in zip(rows, found, strict=True):
                if options.sample:
                    outputs = _draw(outputs, sources[row], options, draws[row] if draws else 0)
                ranked = sorted(outputs, key=lambda output: _faults(output.tokens, options))
                kept[row] = [output.tokens[: limits[row]] for output in ranked[: options.num_hypotheses]]
        repeated = [source for source, outputs in zip(sources, kept, strict=True) for _ in outputs]
        scores = iter(self.score(repeated, [*chain.from_iterable(kept)]))
        return [
            [_hypothesis(tokens, next(scores), limit) for tokens in outputs]
            for outputs, limit in zip(kept, limits, strict=True)
        ]

    def score(self, sources: Sequence[Ids], targets: Sequence[Ids]) -> list[list[float]]:
        """Implement `Engine.score`."""
        lm = self.table.lm
        scores: list[list[float]] = []
        rows = [[*ids, EOS_ID][: self.max_tgt_len] for ids in targets]
        states = np.full(len(rows), START)
        by_place: list[NDArray[np.float64]] = []
        for place in range(max(map(len, rows), default=0)):  # all targets side by side
            tokens = np.array([row[place] if place < len(row) else EOS_ID for row in rows], np.int64)
            found, states = lm.step(states, tokens)
            by_place.append(found)
        for number, (source, row) in enumerate(zip(sources, rows, strict=True)):
            wanted = np.array(row, np.int64)
            by_lm = np.array([found[number] for found in by_place[: len(row)]])
            tokens = self._folder.lower(source[: self.max_src_len - 1])
            by_source = self.table.translations_of_tokens(tokens[None, :], wanted[:, None])
            mean = by_source.sum(1) / max(len(tokens), 1)  # as in IBM model 1: each source token is as likely
            scores.append(np.log(_LM_SHARE * np.exp(by_lm) + (1 - _LM_SHARE) * mean).tolist())
        return scores

    def cross_attention(self, source: Ids, target: Ids, layer: int = -1, head: int | None = None) -> Weights:
        """Implement `Engine.cross_attention` by the lexicon, for any layer and head."""
        check_layer_and_head(self._config, layer, head)
        tokens = self._folder.lower(source)
        wanted = np.array(target, np.int64)
        links = self.table.translations_of_tokens(tokens[None, :], wanted[:, None])
        weights: NDArray[np.float64] = np.concatenate([links, np.full((len(wanted), 1), 1e-6)], axis=1)
        return (weights / weights.sum(1, keepdims=True)).tolist()

    def attention_weights(self, source: Ids, target: Ids) -> AttentionWeights:
        """Raise NmtError: there are no layers."""
        raise NmtError("the phrase engine has no attention", hint="use the engine torch")


def _draw(outputs: Sequence[Found], source: Ids, options: SearchOptions, draw: int) -> list[Found]:
    """Return samples of `outputs` by their scores, the most probable first."""
    scores = np.array([output.score for output in outputs]) / options.temperature
    ends = np.exp(scores - scores.max()).cumsum()
    numbers = [sampling_numbers(options.seed, sample, source, 1, draw)[0] for sample in range(options.num_hypotheses)]
    return [outputs[place] for place in sorted(np.searchsorted(ends / ends[-1], numbers, side="right").tolist())]


def _faults(tokens: Sequence[int], options: SearchOptions) -> int:
    """Return how many of the limits of `options` an output breaks."""
    size = options.no_repeat_ngram
    ngrams = [tuple(tokens[at : at + size]) for at in range(len(tokens) - size + 1)] if size else []
    return (len(set(ngrams)) < len(ngrams)) + (len(tokens) + 1 < options.min_len)


def _hypothesis(tokens: list[int], scores: list[float], limit: int) -> Hypothesis:
    finished = len(tokens) < limit
    kept = scores[: len(tokens) + finished]
    return Hypothesis(tokens, sum(kept), finished, kept)
