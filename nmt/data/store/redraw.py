"""Redraw the pairs of a store for each epoch: change a share of them, and draw random segmentations.

The results are not stored. A pool of pairs depends only on the seed, the epoch and the ranks of its pairs, so every
process draws the same, and so does a resumed training run.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from nmt.base.special_tokens import UNK_ID
from nmt.config.data import AUGMENT_KINDS, AugmentConfig
from nmt.config.sections import Config
from nmt.config.tokenizer import SubwordRegularization
from nmt.data.store.mixing import permute
from nmt.data.store.store import Ints, Side, TokenStore, positions
from nmt.data.text.augment import PairChanger, TextPair
from nmt.data.tokens.subword_regularization import Segmentations
from nmt.data.tokens.tokenizer import Tokenizer, TokenizerPair

_KINDS_OF_EPOCH, _SEGMENTATIONS = 1, 2  # keep their random numbers distinct from each other and from the order's
_UNCHANGED = len(AUGMENT_KINDS)


class Redraw:
    """Redraws pools of pairs: changes an exact share of the pairs of an epoch, and draws a segmentation of each."""

    def __init__(self, config: Config, store: TokenStore, tokenizers: TokenizerPair):
        """Prepare draws for a training run with `config`."""
        data, regularization = config.data, config.tokenizer.subword_regularization
        self._store, self._augment = store, data.augment
        self._limits = (config.model.max_src_len, config.model.max_tgt_len)
        self._seed, self._tokenizers = config.training.seed, tokenizers
        self._src = _SideRedraw(store.src, tokenizers.src, regularization)
        self._tgt = _SideRedraw(store.tgt, tokenizers.tgt, regularization)
        directions = [data.direction_of(files) for files in data.corpora("train")]
        symbols = {*tokenizers.src.user_symbols, *tokenizers.tgt.user_symbols}
        self._changers = [PairChanger(direction, symbols) for direction in directions]
        self._corpus_ends = np.cumsum(store.sizes(len(directions)))

    @classmethod
    def from_config(cls, config: Config, store: TokenStore, tokenizers: TokenizerPair) -> Self | None:
        """Return the redraw of `store` for a training run; None if the stored pairs are used unchanged."""
        data = config.data
        if data.augment.is_on or config.tokenizer.subword_regularization.per_epoch:
            return cls(config, store, tokenizers)
        return None

    def pool(self, indices: Ints, ranks: Ints, epoch: int) -> tuple[Side, Side]:
        """Draw the pairs at `indices` of the store, which have the `ranks` in `epoch`; return both sides, in order.

        A pair stays unchanged if it is too long or would become too long, or if it has unknown tokens. RunError if the
        store is damaged.
        """
        stored = (self._src.read(indices), self._tgt.read(indices))
        may_change = self._fits(stored)
        for sentences in stored:
            rows = np.repeat(np.arange(len(indices)), sentences.lengths)
            may_change[rows[sentences.ids == UNK_ID]] = False
        key = (self._seed, epoch)
        kinds = kinds_of(ranks, len(self._store), self._augment, key)
        changed = self._changed(stored, np.where(may_change, kinds, _UNCHANGED), indices, (ranks, epoch))

        first_rank = int(ranks[0]) if len(ranks) else 0
        drawn = []
        for number, (side, before) in enumerate(zip((self._src, self._tgt), stored, strict=True)):
            texts = {row: pair[number] for row, pair in changed.items()}
            seeds = (self._seed, epoch, first_rank, _SEGMENTATIONS, number)
            drawn.append(side.segment(before, texts, np.flatnonzero(may_change), seeds))
        fits = self._fits(drawn)
        src, tgt = (_where(fits, after, before) for after, before in zip(drawn, stored, strict=True))
        return _as_side(src, self._store.src), _as_side(tgt, self._store.tgt)

    def _fits(self, sides: Sequence[Segmentations]) -> NDArray[np.bool_]:
        """Return which pairs are within the limits on both sides, where eos takes one token."""
        src_fits, tgt_fits = (side.lengths < limit for side, limit in zip(sides, self._limits, strict=True))
        return src_fits & tgt_fits

    def _changed(
        self,
        stored: tuple[Segmentations, Segmentations],
        kinds: Ints,
        indices: Ints,
        position: tuple[Ints, int],
    ) -> dict[int, TextPair]:
        """Return the texts of the changed rows."""
        corpora = np.searchsorted(self._corpus_ends, indices, side="right")
        src_ids_of, tgt_ids_of = map(_reader, stored)
        ranks, epoch = position

        changed = {}
        for row in np.flatnonzero(kinds != _UNCHANGED).tolist():
            draw = random.Random((self._seed << 96) + (epoch << 48) + int(ranks[row]))
            pair = TextPair(self._tokenizers.src.decode(src_ids_of(row)), self._tokenizers.tgt.decode(tgt_ids_of(row)))
            new = self._changers[corpora[row]].change(AUGMENT_KINDS[kinds[row]], pair, draw)
            if new != pair:
                changed[row] = new
        return changed


def kinds_of(ranks: Ints, num_pairs: int, config: AugmentConfig, key: tuple[int, int]) -> Ints:
    """Return the kind of change of the pairs at `ranks` of an epoch.

    It is an index into `AUGMENT_KINDS`, or their number for no change. Each kind gets exactly its share of an epoch's
    `num_pairs`, rounded. `key` is the seed and the epoch.
    """
    counts = [round(share * num_pairs) for share in config.shares().values()]
    slots = permute(ranks, num_pairs, key=(*key, 0, _KINDS_OF_EPOCH))
    kinds: Ints = np.searchsorted(np.cumsum(counts), slots, side="right")
    return kinds


class _SideRedraw:
    """Reads one language of a store, and draws its segmentations."""

    def __init__(self, side: Side, tokenizer: Tokenizer, regularization: SubwordRegularization):
        self._side, self._tokenizer = side, tokenizer
        self._sampler = tokenizer.sampler(regularization.alpha) if regularization.per_epoch else None

    def read(self, indices: Ints) -> Segmentations:
        """Read the sentences at `indices` of the store. RunError if they contain invalid tokens."""
        return Segmentations(self._side.concatenated(indices), self._side.lengths(indices))

    def segment(
        self, stored: Segmentations, texts: dict[int, str], rows: Ints, seeds: tuple[int, ...]
    ) -> Segmentations:
        """Return the sentences with new `texts` in some of `rows`; if segmentations are drawn, draw all `rows`."""
        if self._sampler is None:
            encoded = self._tokenizer.encode_batch(texts.values())
            lengths = np.array([len(ids) for ids in encoded], dtype=np.int64)
            new = Segmentations(np.array([i for ids in encoded for i in ids], dtype=np.int64), lengths)
            return _overlay(stored, np.array(list(texts), dtype=np.int64), new)
        changed = dict(zip(texts, self._tokenizer.normalize_batch(texts.values()), strict=True))
        ids_of, spelling = _reader(stored), self._tokenizer.spelling
        spelled = [changed[row] if row in changed else spelling(ids_of(row)) for row in rows.tolist()]
        return _overlay(stored, rows, self._sampler.draw(spelled, *seeds))


def _reader(sentences: Segmentations) -> Callable[[int], list[int]]:
    """Return a function that returns the tokens of a row."""
    ends = sentences.lengths.cumsum()
    starts = ends - sentences.lengths
    return lambda row: sentences.ids[starts[row] : ends[row]].tolist()


def _overlay(stored: Segmentations, rows: Ints, others: Segmentations) -> Segmentations:
    """Return the sentences of `stored` with `rows` replaced by `others`."""
    lengths = stored.lengths.copy()
    lengths[rows] = others.lengths
    starts = lengths.cumsum() - lengths
    ids = np.zeros(int(lengths.sum()), dtype=np.int64)
    kept = np.delete(np.arange(len(lengths)), rows)
    ids[positions(starts[kept], lengths[kept])] = _take(stored, kept).ids
    ids[positions(starts[rows], lengths[rows])] = others.ids
    return Segmentations(ids, lengths)


def _take(sentences: Segmentations, rows: Ints) -> Segmentations:
    """Return the sentences at `rows`."""
    starts, lengths = sentences.lengths.cumsum() - sentences.lengths, sentences.lengths[rows]
    return Segmentations(sentences.ids[positions(starts[rows], lengths)], lengths)


def _where(condition: NDArray[np.bool_], drawn: Segmentations, stored: Segmentations) -> Segmentations:
    """Return the sentences of `drawn` where `condition` holds, else those of `stored`."""
    rows = np.flatnonzero(~condition)
    return _overlay(drawn, rows, _take(stored, rows))


def _as_side(sentences: Segmentations, like: Side) -> Side:
    offsets = np.zeros(len(sentences.lengths) + 1, dtype=np.int64)
    offsets[1:] = sentences.lengths.cumsum()
    return replace(like, tokens=sentences.ids, offsets=offsets)
