"""Tune the weights of a phrase table by its n-best lists (Och 2003, "Minimum Error Rate Training")."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmt.artifacts.rundir import DirectedPairs
from nmt.base.languages import written_without_spaces
from nmt.data.phrases.table import FEATURES, NEVER, PhraseTable
from nmt.data.phrases.words import FoldedSource
from nmt.data.tokens.tokenizer import TokenizerPair
from nmt.decoding.engines.phrase_search import PhraseSearch
from nmt.evaluation.scores import composed
from nmt.evaluation.significance import Scorer

log = logging.getLogger(__name__)

Floats = NDArray[np.float64]
_Lists = Sequence[dict[str, tuple[Floats, Floats]]]  # of each sentence: features and statistics by translation

SENTENCES = 160  # to tune on, spread over the validation set
_ROUNDS = 4
_LIST = 10  # translations of a sentence in a round
_STEPS = np.array([-1, -0.5, -0.25, -0.1, 0.1, 0.25, 0.5, 1])
# Words per word by which a length may be below or above the one that is aimed at; others cost points. The best sum of
# BLEU and chrF is at 1.05 to 1.10 for news in four languages, at 1.02 for captions: the sentences that tune decide.
_FREE_BELOW, _FREE_ABOVE, _RATIO_PENALTY = 0.01, 0.04, 60.0
_CAUTION = 0.5  # points for leaving the weights of the round before


class _Quality:
    """The sum of BLEU and chrF, less a penalty for words per word of the references that are far from `length`."""

    def __init__(self, pairs: DirectedPairs, tokenizers: TokenizerPair, length: float):
        self._references = pairs.references
        self._length = length
        tgt_lang = pairs.direction.tgt
        metrics: list[Any] = Scorer([self._references], tgt_lang, ("bleu", "chrf")).metrics
        self._bleu, self._chrf = metrics
        self._count = len if written_without_spaces(tgt_lang, tokenizers.tgt.letters) else _count_words
        self._width = 2 + 2 * self._bleu.max_ngram_order  # the statistics of BLEU come first

    def measure(self, row: int, text: str) -> Floats:
        """Return the statistics of a translation of the source `row`."""
        statistics = [
            metric._compute_segment_statistics(metric._preprocess_segment(each), metric._ref_cache[row])
            for each in composed([text])
            for metric in (self._bleu, self._chrf)
        ]
        return np.array([*chain(*statistics), self._count(text), self._count(self._references[row])], np.float64)

    def of(self, measured: Sequence[Floats] | Floats) -> float:
        """Return the quality of translations by their statistics [sentences, statistics]."""
        *scores, words, wanted = np.sum(measured, axis=0).tolist()
        excess = words / max(wanted, 1) - self._length
        penalty = _RATIO_PENALTY * max(0.0, -excess - _FREE_BELOW, excess - _FREE_ABOVE)
        bleu = self._bleu._compute_score_from_stats(scores[: self._width]).score
        return float(bleu + self._chrf._compute_score_from_stats(scores[self._width :]).score - penalty)


def tune(
    table: PhraseTable,
    sources: Sequence[FoldedSource],
    pairs: DirectedPairs,
    tokenizers: TokenizerPair,
    length: float,
    rivals: Sequence[str] | None = None,
) -> PhraseTable | None:
    """Return `table` with weights for the best sum of BLEU and chrF on `pairs`, whose sources, folded, are `sources`.

    `length` is the number of words that translations should have per word of the references, or some more. Each round
    translates by the weights of the one before. None if the table cannot win: with the first weights, even the best
    translation in the list of each sentence, chosen by its reference, scores less than the `rivals`, other
    translations.
    """
    quality = _Quality(pairs, tokenizers, length)
    lists: list[dict[str, tuple[Floats, Floats]]] = [{} for _ in sources]
    search = PhraseSearch(table, tokenizers)

    def translate(weights: Floats, count: int) -> float:
        """Add up to `count` translations of each source to its list; return the value of the best ones."""
        search.weights = weights
        best_ones: list[Floats] = []
        for row, outputs in enumerate(search.search(sources, count, completes=False)):
            texts = [tokenizers.tgt.decode(output.tokens) for output in outputs]
            for text, output in zip(texts, outputs, strict=True):
                if text not in lists[row]:
                    lists[row][text] = output.features, quality.measure(row, text)
            best_ones.append(lists[row][texts[0]][1])
        return quality.of(best_ones)

    generator = np.random.default_rng(0)
    weights = table.weights
    best = weights
    best_value = -np.inf
    reach = 0.3
    for number in range(_ROUNDS + 1):
        value = translate(weights, _LIST if number < _ROUNDS else 1)
        if number == 0 and rivals is not None:
            best_of_lists = [
                max((found[1] for found in one.values()), key=lambda each: quality.of([each])) for one in lists
            ]
            if quality.of(best_of_lists) < quality.of([quality.measure(row, text) for row, text in enumerate(rivals)]):
                return None
        log.debug("phrase table: %.2f in round %d", value, number)
        if value > best_value:
            best = weights
            best_value = value
        else:  # begin again, from the best weights and more translations, with more caution
            reach /= 2
        weights = _optimize(lists, quality, best, reach, generator)
    without_swaps = np.where(np.array(FEATURES) == "swap", NEVER, best)
    if translate(without_swaps, 1) >= best_value:  # they cost a third of the time of a search
        best = without_swaps
    return table._replace(weights=best)


def _count_words(text: str) -> int:
    return len(text.split())


def _optimize(lists: _Lists, quality: _Quality, start: Floats, share: float, generator: np.random.Generator) -> Floats:
    """Return weights that choose the best of the lists, found along axes and random directions.

    They differ from `start` by at most about `share`.
    """
    longest = max(map(len, lists))
    padded = [[*one.values()] + [next(iter(one.values()))] * (longest - len(one)) for one in lists]
    features = np.array([[entry[0] for entry in row] for row in padded])  # [sentences, translations, features]
    statistics = np.array([[entry[1] for entry in row] for row in padded])
    rows = np.arange(len(lists))
    reach = share * (np.abs(start) + 0.1)
    weights = start

    def values(tried: Floats) -> list[float]:
        chosen = (features @ tried.T).argmax(1)  # [sentences, tried]
        caution = _CAUTION * (((tried - start) / reach) ** 2).mean(-1)
        return [quality.of(statistics[rows, column]) - cost for column, cost in zip(chosen.T, caution, strict=True)]

    best = values(weights[None])[0]
    improves = True
    while improves:
        improves = False
        for direction in (*np.eye(len(start)), *generator.normal(scale=0.5, size=(len(start), len(start)))):
            tried = np.clip(weights + _STEPS[:, None] * direction * reach, start - reach, start + reach)
            found = values(tried)
            if max(found) > best + 1e-3:
                weights = tried[int(np.argmax(found))]
                best = max(found)
                improves = True
    return weights
