"""Redraw the pairs of a store for each epoch: change a share of them, and draw random segmentations.

The results are not stored. A pool of pairs depends only on the seed, the epoch and the ranks of its pairs, so every
process draws the same, and so does a resumed training run.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Self

import numpy as np

from nmt.base.special_tokens import UNK_ID
from nmt.config.data import AUGMENT_KINDS, AugmentConfig
from nmt.config.sections import Config
from nmt.data.store.mixing import permute
from nmt.data.store.positions import Ints
from nmt.data.store.store import Side, TokenStore
from nmt.data.text.augment import PairChanger, TextPair
from nmt.data.tokens.tokenizer import TokenizerPair

_KINDS_OF_EPOCH, _SEGMENTATIONS = 1, 2  # keep their random numbers distinct from each other and from the order's
_UNCHANGED = len(AUGMENT_KINDS)


class Redraw:
    """Redraws pools of pairs: changes an exact share of the pairs of an epoch, and draws a segmentation of each."""

    def __init__(self, config: Config, store: TokenStore, tokenizers: TokenizerPair):
        """Prepare draws for a training run with `config`."""
        data = config.data
        regularization = config.tokenizer.subword_regularization
        self._store = store
        self._augment = data.augment
        self._limits = (config.model.max_src_len, config.model.max_tgt_len)
        self._seed = config.training.seed
        self._tokenizers = (tokenizers.src, tokenizers.tgt)
        self._samplers = [
            each.sampler(regularization.alpha) if regularization.per_epoch else None for each in self._tokenizers
        ]
        directions = [data.direction_of(files) for files in data.corpora("train")]
        symbols = {*tokenizers.src.user_symbols, *tokenizers.tgt.user_symbols}
        self._changers = [PairChanger(direction, symbols) for direction in directions]
        self._corpus_ends = np.cumsum(store.sizes(len(directions)))

    @classmethod
    def from_config(cls, config: Config, store: TokenStore, tokenizers: TokenizerPair) -> Self | None:
        """Return the redraw of `store` for a training run; None if the stored pairs are used unchanged."""
        if config.data.augment.is_on or config.tokenizer.subword_regularization.per_epoch:
            return cls(config, store, tokenizers)
        return None

    def pool(self, indices: Ints, ranks: Ints, epoch: int) -> tuple[Side, Side]:
        """Draw the pairs at `indices` of the store, which have the `ranks` in `epoch`; return both sides, in order.

        A pair stays unchanged if it is too long or would become too long, or if it has unknown tokens. RunError if the
        store is damaged.
        """
        src, tgt = self._store.src, self._store.tgt
        may_change = np.ones(len(indices), dtype=np.bool_)
        sentences = []
        for side, limit in zip((src, tgt), self._limits, strict=True):
            ids = side.concatenated(indices)
            lengths = side.lengths(indices)
            rows = np.repeat(np.arange(len(indices)), lengths)
            may_change &= lengths < limit  # eos takes one token
            may_change[rows[ids == UNK_ID]] = False
            sentences.append(_cut(ids, lengths))
        pairs: list[tuple[Ints, ...]] = list(zip(*sentences, strict=True))

        kinds = kinds_of(ranks, len(self._store), self._augment, (self._seed, epoch))
        changed = self._changed(pairs, np.where(may_change, kinds, _UNCHANGED), indices, (ranks, epoch))
        seeds = (self._seed, epoch, int(ranks[0]) if len(ranks) else 0, _SEGMENTATIONS)
        rows_to_draw = np.flatnonzero(may_change).tolist()
        drawn = zip(*(self._segment(number, pairs, changed, rows_to_draw, seeds) for number in (0, 1)), strict=True)
        rows_drawn = changed if self._samplers[0] is None else rows_to_draw
        for row, pair_drawn in zip(rows_drawn, drawn, strict=True):
            if all(len(ids) < limit for ids, limit in zip(pair_drawn, self._limits, strict=True)):
                pairs[row] = pair_drawn
        return _as_side((ids for ids, _ in pairs), src), _as_side((ids for _, ids in pairs), tgt)

    def _changed(
        self, pairs: Sequence[tuple[Ints, ...]], kinds: Ints, indices: Ints, position: tuple[Ints, int]
    ) -> dict[int, TextPair]:
        """Return the texts of the changed rows."""
        corpora = np.searchsorted(self._corpus_ends, indices, side="right")
        ranks, epoch = position
        changed = {}
        for row in np.flatnonzero(kinds != _UNCHANGED).tolist():
            rng = random.Random((self._seed << 96) + (epoch << 48) + int(ranks[row]))
            texts = zip(self._tokenizers, pairs[row], strict=True)
            pair = TextPair(*(tokenizer.decode(ids.tolist()) for tokenizer, ids in texts))
            new = self._changers[corpora[row]].change(AUGMENT_KINDS[kinds[row]], pair, rng)
            if new != pair:
                changed[row] = new
        return changed

    def _segment(
        self,
        number: int,
        pairs: Sequence[tuple[Ints, ...]],
        changed: dict[int, TextPair],
        rows: list[int],
        seeds: tuple[int, ...],
    ) -> list[Ints]:
        """Return one side of the `changed` pairs; if segmentations are drawn, draw one for each of `rows`."""
        tokenizer = self._tokenizers[number]
        sampler = self._samplers[number]
        texts = [pair[number] for pair in changed.values()]
        if sampler is None:
            segmented = tokenizer.encode_batch(texts)
        else:
            new = dict(zip(changed, tokenizer.normalize_batch(texts), strict=True))
            spelled = [new[row] if row in new else tokenizer.spelling(pairs[row][number].tolist()) for row in rows]
            segmented = sampler.draw(spelled, *seeds, number)
        return [np.array(ids, dtype=np.int64) for ids in segmented]


def kinds_of(ranks: Ints, num_pairs: int, config: AugmentConfig, key: tuple[int, int]) -> Ints:
    """Return the kind of change of the pairs at `ranks` of an epoch.

    It is an index into `AUGMENT_KINDS`, or their number for no change. Each kind gets exactly its share of an epoch's
    `num_pairs`, rounded. `key` is the seed and the epoch.
    """
    counts = [round(share * num_pairs) for share in config.shares().values()]
    slots = permute(ranks, num_pairs, key=(*key, 0, _KINDS_OF_EPOCH))
    kinds: Ints = np.searchsorted(np.cumsum(counts), slots, side="right")
    return kinds


def _cut(ids: Ints, lengths: Ints) -> list[Ints]:
    """Return the sentences with these `lengths`, whose ids are concatenated."""
    return [ids[start:end] for start, end in pairwise([0, *lengths.cumsum().tolist()])]


def _as_side(sentences: Iterable[Ints], like: Side) -> Side:
    nothing = np.zeros(0, dtype=np.int64)
    parts = [nothing, *sentences]
    return replace(like, tokens=np.concatenate(parts), offsets=np.cumsum(list(map(len, parts))))
