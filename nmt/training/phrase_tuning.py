"""Tune the weights of a phrase table by its n-best lists (Och 2003, "Minimum Error Rate Training")."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from nmt.artifacts.rundir import DirectedPairs
from nmt.base.languages import written_without_spaces
from nmt.data.phrases.table import PhraseTable
from nmt.data.phrases.words import FoldedSource
from nmt.data.tokens.tokenizer import Tokenizer
from nmt.decoding.engines.phrase_search import PhraseSearch
from nmt.evaluation.significance import Scorer

log = logging.getLogger(__name__)

Floats = NDArray[np.float64]
_Lists = Sequence[dict[str, tuple[Floats, Floats]]]  # of each sentence: features and statistics by translation

SENTENCES = 160  # to tune on, spread over the validation set
_ROUNDS = 4
_LIST = 10  # translations of a sentence in a round
_SIDE_BY_SIDE = 50
_STEPS = np.array([-1, -0.5, -0.25, -0.1, 0.1, 0.25, 0.5, 1])
_FREE_RATIO, _RATIO_PENALTY = 0.01, 60.0  # words per word: other lengths cost points
_CAUTION = 0.5  # points for leaving the weights of the round before


def tune(
    table: PhraseTable,
    sources: Sequence[FoldedSource],
    pairs: DirectedPairs,
    tokenizer: Tokenizer,
    length: float,
    rivals: Sequence[str] | None = None,
) -> PhraseTable | None:
    """Return `table` with weights for the best sum of BLEU and chrF on `pairs`, whose sources, folded, are `sources`.

    `length` is the number of words that translations should have per word of the references. `tokenizer` is that of
    the target side. Each round translates by the weights of the one before. None if the table cannot win: with the
    first weights, even the best translation in the list of each sentence, chosen by its reference, scores less than
    the `rivals`, other translations.
    """
    references, tgt_lang = pairs.references, pairs.direction.tgt
    scorers = [Scorer([[text]], tgt_lang, ("bleu", "chrf")) for text in references]
    bleu, chrf = Scorer([references], tgt_lang, ("bleu", "chrf")).metrics.values()
    words = len if written_without_spaces(tgt_lang, tokenizer.letters) else _count_words
    width = len(scorers[0].measure("", [references[0]]).measured[0].rows[0])  # the statistics of BLEU come first

    def statistics(row: int, text: str) -> Floats:
        measured = scorers[row].measure("", [text]).measured
        return np.array([*measured[0].rows[0], *measured[1].rows[0], words(text), words(references[row])], np.float64)

    def objective(sums: Floats) -> float:
        of_bleu, of_chrf, ratio = sums[:width].tolist(), sums[width:-2].tolist(), sums[-2] / max(sums[-1], 1)
        penalty = _RATIO_PENALTY * max(0.0, abs(ratio - length) - _FREE_RATIO)
        points = bleu._compute_score_from_stats(of_bleu).score + chrf._compute_score_from_stats(of_chrf).score
        return float(points - penalty)

    lists: list[dict[str, tuple[Floats, Floats]]] = [{} for _ in sources]
    generator, weights = np.random.default_rng(0), table.weights
    best, best_value, reach = weights, -np.inf, 0.3
    search = PhraseSearch(table)
    for number in range(_ROUNDS + 1):
        search.weights, first = weights, list[Floats]()
        for start in range(0, len(sources), _SIDE_BY_SIDE):
            found = search.search(sources[start : start + _SIDE_BY_SIDE], _LIST if number < _ROUNDS else 1)
            for row, outputs in enumerate(found, start):
                texts = [tokenizer.decode(output.tokens) for output in outputs]
                for text, output in zip(texts, outputs, strict=True):
                    if text not in lists[row]:
                        lists[row][text] = output.features, statistics(row, text)
                first.append(lists[row][texts[0]][1])
        if number == 0 and rivals is not None:
            best_of_lists = [max((found[1] for found in one.values()), key=objective) for one in lists]
            of_rivals = [statistics(row, text) for row, text in enumerate(rivals)]
            if objective(np.sum(best_of_lists, axis=0)) < objective(np.sum(of_rivals, axis=0)):
                return None
        value = objective(np.sum(first, axis=0))
        log.debug("phrase table: %.2f in round %d", value, number)
        if value > best_value:
            best, best_value = weights, value
        else:  # begin again, from the best weights and more translations, with more caution
            reach /= 2
        weights = _optimize(lists, objective, best, reach, generator)
    return table._replace(weights=best)


def _count_words(text: str) -> int:
    return len(text.split())


def _optimize(
    lists: _Lists, objective: Callable[[Floats], float], start: Floats, share: float, generator: np.random.Generator
) -> Floats:
    """Return weights that choose the best of the lists, found along axes and random directions.

    They differ from `start` by at most about `share`.
    """
    longest = max(map(len, lists))
    padded = [[*one.values()] + [next(iter(one.values()))] * (longest - len(one)) for one in lists]
    features = np.array([[entry[0] for entry in row] for row in padded])  # [sentences, translations, features]
    statistics = np.array([[entry[1] for entry in row] for row in padded])
    rows, reach, weights = np.arange(len(lists)), share * (np.abs(start) + 0.1), start

    def values(tried: Floats) -> list[float]:
        chosen = (features @ tried.T).argmax(1)  # [sentences, tried]
        caution = _CAUTION * (((tried - start) / reach) ** 2).mean(-1)
        return [
            objective(statistics[rows, column].sum(0)) - cost for column, cost in zip(chosen.T, caution, strict=True)
        ]

    best, improves = values(weights[None])[0], True
    while improves:
        improves = False
        for direction in (*np.eye(len(start)), *generator.normal(scale=0.5, size=(len(start), len(start)))):
            tried = np.clip(weights + _STEPS[:, None] * direction * reach, start - reach, start + reach)
            found = values(tried)
            if max(found) > best + 1e-3:
                weights, best, improves = tried[int(np.argmax(found))], max(found), True
    return weights
