"""Translate segments, the units of search: sort, batch, search, restore the order, decode."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

from nmt.config import SearchOptions
from nmt.data.tokens.tokenizer import Tokenizer, TokenizerPair
from nmt.decoding.engines.interface import Engine
from nmt.decoding.hypothesis import Hypothesis

MAX_BATCH_SENTENCES = 256
MIN_BATCH_SENTENCES = 16
"""Smaller batches are not worth distributing over an engine's threads."""


class Segment(NamedTuple):
    """Token ids, without specials, of a source and of the required prefix of its translation."""

    src_ids: list[int]
    prefix_ids: Sequence[int] = ()
    draw: int = 0  # in sampling: segments of the same source and the same draw get the same samples
    tgt_tag: Sequence[int] = ()  # the tag at the beginning of the output, if the model has target-side tags


class SegmentTranslation(NamedTuple):
    """One hypothesis for one segment, as text."""

    text: str
    score: float  # sum of natural-log probabilities of the tokens, eos included
    src_ids: list[int]  # source tokens as translated, after truncation
    tgt_ids: list[int]
    truncated: bool  # the source was longer than the model's limit; its end is not translated
    finished: bool  # the output ended with eos, not at its maximum length
    # The summands of `score`, including that of eos if the output is finished; read-only.
    token_scores: Sequence[float] = ()
    tgt_tag: Sequence[int] = ()  # the tag before `tgt_ids`; it has no score


class ForcedScore(NamedTuple):
    """The log-probability of a given translation under the model."""

    score: float  # sum of natural-log probabilities of the tokens, eos included
    tgt_ids: list[int]
    token_scores: list[float]  # the summands of `score`, that of eos last
    truncated: bool  # a side exceeded the model's limit; the score does not include the truncated part


def untranslated(text: str) -> SegmentTranslation:
    """Return `text` as its own translation, with no tokens."""
    return SegmentTranslation(text, 0.0, [], [], truncated=False, finished=True)


def translate_segments(
    engine: Engine, tokenizers: TokenizerPair, segments: Sequence[Segment], options: SearchOptions
) -> list[list[SegmentTranslation]]:
    """Return up to `options.num_hypotheses` translations of each of `segments`, best first, in order.

    An empty segment has a single, empty translation.
    """
    limit = engine.max_src_len - 1  # eos
    sources = [segment.src_ids[:limit] for segment in segments]
    has_prefixes = any(segment.prefix_ids or segment.tgt_tag for segment in segments)
    has_draws = options.sample and any(segment.draw for segment in segments)

    def search(batch: list[int]) -> list[list[Hypothesis]]:
        prefixes = [[*segments[i].tgt_tag, *segments[i].prefix_ids] for i in batch] if has_prefixes else None
        draws = [segments[i].draw for i in batch] if has_draws else None
        return engine.search([sources[i] for i in batch], options, prefixes, draws)

    translations = [[untranslated("")] for _ in segments]
    batches = list(make_batches([len(source) for source in sources], engine, options.batch_tokens))
    for batch, results in zip(batches, engine.map(search, batches), strict=True):
        for i, hypotheses in zip(batch, results, strict=True):
            decode = partial(_decoded, tokenizers.tgt, segments[i], sources[i])
            translations[i] = [decode(hypothesis) for hypothesis in hypotheses]
    return translations


def _decoded(tokenizer: Tokenizer, segment: Segment, source: list[int], found: Hypothesis) -> SegmentTranslation:
    """Return the translation of `segment`; `source` are the tokens that were actually translated."""
    tag = segment.tgt_tag
    ids, scores = found.ids[len(tag) :], found.token_scores[len(tag) :]
    truncated = len(segment.src_ids) > len(source)
    return SegmentTranslation(tokenizer.decode(ids), found.score, source, ids, truncated, found.finished, scores, tag)


class PairToScore(NamedTuple):
    """A source with its tag, and a translation without tag; `tgt_tag` has the tokens to put before the translation."""

    src: str
    tgt: str
    tgt_tag: Sequence[int] = ()


def score_segments(
    engine: Engine, tokenizers: TokenizerPair, pairs: Sequence[PairToScore], batch_tokens: int
) -> list[ForcedScore]:
    """Score the translation of each of `pairs`."""
    limit = engine.max_src_len - 1  # eos
    src_ids = tokenizers.src.encode_batch(pair.src for pair in pairs)
    tgt_ids = tokenizers.tgt.encode_batch(pair.tgt for pair in pairs)

    def score(batch: list[int]) -> list[list[float]]:
        tags = [pairs[i].tgt_tag for i in batch]
        found = engine.score(
            [src_ids[i][:limit] for i in batch], [[*tag, *tgt_ids[i]] for i, tag in zip(batch, tags, strict=True)]
        )
        return [scores[len(tag) :] for scores, tag in zip(found, tags, strict=True)]

    # Even a pair of empty texts has a score: that of eos.
    lengths = [max(len(src), len(tgt), 1) for src, tgt in zip(src_ids, tgt_ids, strict=True)]
    batches = list(make_batches(lengths, engine, batch_tokens))
    scores: dict[int, ForcedScore] = {}
    for batch, results in zip(batches, engine.map(score, batches), strict=True):
        for i, token_scores in zip(batch, results, strict=True):
            truncated = len(src_ids[i]) > limit or len(tgt_ids[i]) >= len(token_scores)
            scores[i] = ForcedScore(sum(token_scores), tgt_ids[i], token_scores, truncated)
    return [scores[i] for i in range(len(pairs))]


def make_batches(lengths: Sequence[int], engine: Engine, batch_tokens: int) -> Iterator[list[int]]:
    """Yield batches of indices into `lengths` (tokens), without empty texts: similar lengths together, longest first.

    A batch has at most `batch_tokens` tokens, padding included, and is small enough to give every thread work. An
    engine that does not form batches gets all sources at once, in order.
    """
    if not engine.forms_batches:
        if all_sources := [i for i, length in enumerate(lengths) if length]:
            yield all_sources
        return
    batch: list[int] = []
    indices = sorted((i for i, length in enumerate(lengths) if length), key=lambda i: -lengths[i])
    max_sentences = min(MAX_BATCH_SENTENCES, max(MIN_BATCH_SENTENCES, -(-len(indices) // engine.num_threads)))
    for i in indices:
        longest = min(lengths[batch[0] if batch else i] + 1, engine.max_src_len)
        if batch and ((len(batch) + 1) * longest > batch_tokens or len(batch) == max_sentences):
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch
