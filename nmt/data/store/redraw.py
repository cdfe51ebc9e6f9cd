"""Redraw the pairs of a store for each epoch: change a share of them.

The results are not stored. A pool of pairs depends only on the seed, the epoch and the ranks of its pairs, so every
process draws the same, and so does a resumed training run.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence, Sized
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

_KINDS_OF_EPOCH = 1  # keeps these random numbers distinct from the order's
_UNCHANGED = len(AUGMENT_KINDS)


class Redraw:
    """Redraws pools of pairs: changes an exact share of the pairs of an epoch."""

    def __init__(self, config: Config, store: TokenStore, tokenizers: TokenizerPair):
        """Prepare draws for a training run with `config`."""
        data = config.data
        self._store = store
        self._augment = data.augment
        self._limits = (config.model.max_src_len, config.model.max_tgt_len)
        self._seed = config.training.seed
        self._tokenizers = (tokenizers.src, tokenizers.tgt)
        directions = [data.direction_of(files) for files in data.corpora("train")]
        symbols = {*tokenizers.src.user_symbols, *tokenizers.tgt.user_symbols}
        self._changers = [PairChanger(direction, symbols) for direction in directions]
        self._corpus_ends = np.cumsum(store.sizes(len(directions)))

    @classmethod
    def from_config(cls, config: Config, store: TokenStore, tokenizers: TokenizerPair) -> Self | None:
        """Return the redraw of `store` for a training run; None if the stored pairs are used unchanged."""
        return cls(config, store, tokenizers) if config.data.augment.is_on else None

    def pool(self, indices: Ints, ranks: Ints, epoch: int) -> tuple[Side, Side]:
        """Draw the pairs at `indices` of the store, which have the `ranks` in `epoch`; return both sides, in order.

        A pair stays unchanged if it is too long or would become too long, or if it has unknown tokens. RunError if the
        store is damaged.
        """
        stored = (self._store.src, self._store.tgt)
        sentences = [_cut(side.concatenated(indices), side.lengths(indices)) for side in stored]
        kinds = kinds_of(ranks, len(self._store), self._augment, (self._seed, epoch))
        corpora = np.searchsorted(self._corpus_ends, indices, side="right")
        changed: dict[int, TextPair] = {}
        for row in np.flatnonzero(kinds != _UNCHANGED).tolist():
            ids_of_pair = [side[row] for side in sentences]
            if not self._fits(ids_of_pair) or any(UNK_ID in ids for ids in ids_of_pair):
                continue
            texts = zip(self._tokenizers, ids_of_pair, strict=True)
            pair = TextPair(*(tokenizer.decode(ids.tolist()) for tokenizer, ids in texts))
            rng = random.Random((self._seed << 96) + (epoch << 48) + int(ranks[row]))
            new = self._changers[corpora[row]].change(AUGMENT_KINDS[kinds[row]], pair, rng)
            if new != pair:
                changed[row] = new

        encoded = [
            tokenizer.encode_batch(pair[number] for pair in changed.values())
            for number, tokenizer in enumerate(self._tokenizers)
        ]
        for row, *ids_of_pair in zip(changed, *encoded, strict=True):
            if self._fits(ids_of_pair):
                for side, ids in zip(sentences, ids_of_pair, strict=True):
                    side[row] = np.array(ids, dtype=np.int64)
        src, tgt = (_as_side(side, like) for side, like in zip(sentences, stored, strict=True))
        return src, tgt

    def _fits(self, ids_of_pair: Sequence[Sized]) -> bool:
        """Return whether both sides are within the model's limits; eos takes one token."""
        return all(len(ids) < limit for ids, limit in zip(ids_of_pair, self._limits, strict=True))


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
