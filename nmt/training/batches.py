"""The batches of each update, and this rank's share of them."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from nmt.base.errors import ConfigError
from nmt.config import Config
from nmt.data.store.batching import Batch, BatchIndices, fill_batches, read_batch
from nmt.data.store.mixing import Order, corpus_weights, halved, order_of, quotas
from nmt.data.store.redraw import Redraw
from nmt.data.store.store import TokenStore
from nmt.training.metrics import Number
from nmt.training.stages import StageSpan
from nmt.training.update.block import BlockShape
from nmt.training.update.distributed import ProcessGroup

POOL_PAIRS = 1 << 16  # pairs that are sorted by length together


class Update(NamedTuple):
    """The data of one update."""

    indices: list[BatchIndices]  # the batches of all ranks
    batches: list[Batch]  # this rank's share of each
    num_tokens: int  # real target tokens in all ranks
    reading_seconds: float


@dataclass
class DataPosition:
    """A position in the data: the next batch."""

    epoch: Number = 0
    pool: Number = 0
    batch: Number = 0


class UpdateBatches:
    """An endless sequence of batches, and of updates of `training.tokens_per_update` real target tokens each.

    It is determined only by the corpus, the configuration of a stage and the position. Each epoch has as many pairs as
    the store, in an `order` that is computed index by index, without a list of the corpus in memory. Pools of 65,536
    pairs are sorted by length and cut into batches with sentences x longest side <= `batch_tokens`; then the batches of
    a pool are shuffled. With `training.both_directions`, the sides of half of the pairs are swapped in even epochs,
    those of the other half in odd ones.
    """

    def __init__(self, store: TokenStore, config: Config, group: ProcessGroup, redraw: Redraw | None = None):
        """Raise ConfigError if an update needs more tokens than an epoch has. `redraw` redraws the pairs of a pool."""
        refuse_beyond_epoch(config, store)
        sizes = store.sizes(len(config.data.corpora("train")))
        weights = corpus_weights(config.data, sizes)
        self.store = store
        self.settings = config.training
        self.limits = (config.model.max_src_len, config.model.max_tgt_len)  # in tokens
        self.group = group
        self.redraw = redraw
        self.order = order_of(sizes, weights, self.settings.seed)
        batch_tokens = self.settings.batch_tokens
        self.is_auto = batch_tokens == "auto"  # one batch per update
        if batch_tokens == "auto":
            batch_tokens = self._suited_batch_tokens(order_of(sizes, weights, seed=0))
        self.batch_tokens = batch_tokens
        self.seek(DataPosition())

    def seek(self, position: DataPosition) -> None:
        """Continue from `position`."""
        self.position = replace(position)
        self._pool: list[BatchIndices] | None = None  # the batches of the pool at `position`

    def _suited_batch_tokens(self, order: Order) -> int:
        """Return the `batch_tokens` that give about `tokens_per_update` real target tokens, estimated from a pool."""
        some = order.indices(np.arange(min(len(self.store), POOL_PAIRS), dtype=np.int64), epoch=0)
        lengths = np.stack([side.lengths(some) + 1 for side in (self.store.src, self.store.tgt)])
        if self.settings.both_directions:  # as many pairs in each, half of them swapped
            lengths = np.hstack([lengths, lengths[::-1]])
        src_len, tgt_len = np.minimum(lengths.T, self.limits).T
        return round(self.settings.tokens_per_update * float(np.maximum(src_len, tgt_len).sum() / tgt_len.sum()))

    def longest(self) -> tuple[int, int]:
        """Return the lengths in tokens of the longest source and target, eos included, after truncation."""
        max_src_len, max_tgt_len = self.limits
        if self.redraw is not None:  # a redrawn pair may become longer, up to the limits
            return max_src_len, max_tgt_len
        src_len, tgt_len = (len(side.length_counts()) for side in (self.store.src, self.store.tgt))
        if self.settings.both_directions:
            src_len = tgt_len = max(src_len, tgt_len)
        return min(max_src_len, src_len), min(max_tgt_len, tgt_len)

    def block_shape(self) -> BlockShape:
        """Return the shape of a block for a rank's share of the batches: that of the largest in the first pool.

        It depends on the corpus and the configuration alone, because the bits of a product depend on its shape.
        """
        count = self.group.world_size
        shares = [rows.share(rank, count) for rows in self.make_pool(DataPosition()) for rank in range(count)]
        return BlockShape.holding(
            num_src=max(int(rows.src_len.sum()) for rows in shares),
            num_tgt=max(rows.num_tgt_tokens for rows in shares),
            num_sentences=max(len(rows.indices) for rows in shares),
            width=max(self.longest()),
        )

    def next_update(self) -> Update:
        """Return the data of the next update."""
        started = time.perf_counter()
        indices: list[BatchIndices] = []
        batches: list[Batch] = []
        num_tokens = 0
        while not indices or (not self.is_auto and num_tokens < self.settings.tokens_per_update):
            rows = self.next_indices()
            indices.append(rows)
            num_tokens += rows.num_tgt_tokens
            batches.append(read_batch(rows.share(self.group.rank, self.group.world_size)))
        return Update(indices, batches, num_tokens, time.perf_counter() - started)

    def next_indices(self) -> BatchIndices:
        """Return the indices of the next batch, without reading its tokens."""
        while True:
            if self._pool is None:
                self._pool = self.make_pool(self.position)
            if self.position.batch < len(self._pool):
                break
            turns, pool = divmod(self.position.pool + 1, -(-len(self.store) // POOL_PAIRS))
            self.seek(DataPosition(self.position.epoch + turns, pool))
        rows = self._pool[self.position.batch]
        self.position.batch += 1
        return rows

    def make_pool(self, position: DataPosition) -> list[BatchIndices]:
        """Return the batches of the pool at `position`."""
        start = position.pool * POOL_PAIRS
        ranks = np.arange(start, min(start + POOL_PAIRS, len(self.store)), dtype=np.int64)
        indices = self.order.indices(ranks, position.epoch)
        swapped = np.zeros(len(ranks), dtype=np.bool_)
        if self.settings.both_directions:
            swapped = halved(indices, self.settings.seed) ^ (position.epoch % 2 == 1)
        sides = (self.store.src, self.store.tgt)
        if self.redraw is not None:
            sides = self.redraw.pool(indices, ranks, position.epoch)
            indices = np.arange(len(ranks))
        first_len, second_len = (side.lengths(indices) + 1 for side in sides)  # eos
        src_len = np.where(swapped, second_len, first_len).clip(max=self.limits[0])
        tgt_len = np.where(swapped, first_len, second_len).clip(max=self.limits[1])
        longest = np.maximum(src_len, tgt_len)
        by_length = np.lexsort((src_len, tgt_len, longest))
        pool = BatchIndices(sides, indices, src_len, tgt_len, swapped).select(by_length)
        batches = [pool.select(run) for run in fill_batches(longest[by_length], self.batch_tokens)]
        key = (self.settings.seed, position.epoch, position.pool)
        return [batches[i] for i in np.random.default_rng(key).permutation(len(batches))]


def refuse_unfit_stages(stages: Iterable[StageSpan], config: Config, store: TokenStore) -> None:
    """Do `refuse_beyond_epoch` for each of these stages of a training; an error names the stage."""
    for stage in stages:
        try:
            refuse_beyond_epoch(stage.config, store)
        except ConfigError as error:
            if not config.training.stages:
                raise
            raise ConfigError(
                f"training.stages: stage {stage.number + 1}: {error.message.removeprefix('training.')}", hint=error.hint
            ) from error


def refuse_beyond_epoch(config: Config, store: TokenStore) -> None:
    """Raise ConfigError if an update needs more tokens than an epoch has, or a corpus with a weight has no pairs."""
    sizes = store.sizes(len(config.data.corpora("train")))
    weights = corpus_weights(config.data, sizes)
    if weights is not None:
        quotas(sizes, weights)
    tokens_per_update, num_tokens = config.training.tokens_per_update, len(store.tgt.tokens) + len(store)  # eos
    if config.training.batch_tokens != "auto" and tokens_per_update > num_tokens:
        fault = f"{tokens_per_update:,}, but an epoch has only {num_tokens:,} target tokens"
        raise ConfigError(f"training.tokens_per_update is {fault}", hint=f"set it to at most {num_tokens:,}")
