"""Find the pairs of a corpus that are least probable for their length under a model, such as mistranslations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from nmt.base.languages import is_variant
from nmt.base.special_tokens import UNK_ID
from nmt.config.corpora import ParallelFiles
from nmt.data.check.summary import Example, ModelReport, example_of
from nmt.data.read.corpus import SentencePair
from nmt.translation.segments import ForcedScore
from nmt.translation.translator import Translator

_BLOCK_PAIRS = 1000
_BUCKET_GROWTH = 1.5  # ratio of the lengths of one bucket to those of the previous one
_MIN_BUCKET = 30  # pairs; the pairs of smaller buckets are compared with all pairs
_MAD_TO_SCALE = 1.4826  # median absolute deviation to standard deviation, for a normal distribution


def find_least_probable(
    translator: Translator, pairs: Iterable[SentencePair], corpora: Sequence[ParallelFiles], name: str, count: int = 20
) -> ModelReport:
    """Score `pairs` of `corpora` and report the `count` least probable ones; `name` is the model's.

    The measure is the log-probability per token, end of sentence included, minus the median of pairs with targets of
    similar length (within a factor of 1.5), in robust standard deviations. Pairs that have an empty side or exceed the
    model's limit are left out. A model with several target languages scores each pair in the target language of its
    corpus; NmtError if the model does not know that language.
    """
    whole = (pair for pair in pairs if pair.src and pair.tgt)
    scored = [
        score
        for corpus, group in groupby(whole, attrgetter("corpus"))
        for score in _scored(group, translator, _languages(translator, corpora[corpus]))
    ]
    lengths = np.array([len(score.token_scores) for _, score, _ in scored])
    per_token = np.array([score.score for _, score, _ in scored]) / np.maximum(1, lengths)
    deviations = _deviations(per_token, lengths)
    first = np.argsort(deviations, kind="stable")[:count].tolist()
    examples: list[Example] = [example_of(scored[place][0], corpora) for place in first]
    return ModelReport(
        model=name,
        scored=len(scored),
        unspellable=sum(unspellable for *_, unspellable in scored),
        deviations=[round(float(deviations[place]), 2) for place in first],
        per_token=[round(float(per_token[place]), 3) for place in first],
        pairs=examples,
    )


def _languages(translator: Translator, corpus: ParallelFiles) -> tuple[str | None, str | None]:
    """Return the target and the source language of `corpus`; None for languages that the model need not be told."""
    is_told = translator.languages.language_tags == "both"
    return _target(translator, corpus), corpus.src_lang if is_told else None


def _target(translator: Translator, corpus: ParallelFiles) -> str | None:
    """Return the target language for scoring `corpus`; None if the model has only one."""
    targets, own = translator.languages.targets, corpus.tgt_lang
    if len(targets) == 1 or own is None or own in targets:
        return own if len(targets) > 1 else None
    return next((tgt for tgt in targets if is_variant(own, tgt)), own)


def _scored(
    pairs: Iterator[SentencePair], translator: Translator, languages: tuple[str | None, str | None]
) -> Iterator[tuple[SentencePair, ForcedScore, bool]]:
    """Yield each pair with its score, and whether it contains characters that the tokenizer cannot represent."""
    while block := list(islice(pairs, _BLOCK_PAIRS)):
        sources = [pair.src for pair in block]
        to, from_ = languages
        scores: Sequence[ForcedScore] = translator.score(sources, [pair.tgt for pair in block], to=to, from_=from_)
        for pair, score, src_ids in zip(block, scores, translator.tokenizers.src.encode_batch(sources), strict=True):
            if not score.truncated:
                yield pair, score, UNK_ID in src_ids or UNK_ID in score.tgt_ids


def _deviations(values: NDArray[np.float64], lengths: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return how many standard deviations each value is above the median of its length bucket."""
    buckets = np.floor(np.log(np.maximum(1, lengths)) / np.log(_BUCKET_GROWTH))
    deviations = np.zeros(len(values))
    for bucket in np.unique(buckets):
        rows = buckets == bucket
        peers = values[rows] if rows.sum() >= _MIN_BUCKET else values
        median = np.median(peers)
        scale = _MAD_TO_SCALE * np.median(np.abs(peers - median))
        deviations[rows] = (values[rows] - median) / max(scale, 1e-6)
    return deviations
