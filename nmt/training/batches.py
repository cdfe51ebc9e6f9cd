"""The batches of each update, and this rank's share of them."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from nmt.base.errors import ConfigError
from nmt.config import Config
from nmt.data.store.batching import Batch, BatchIndices, DataPosition, TokenBudgetSampler, read_batch, tokens_for
from nmt.data.store.mixing import corpus_weights, order_of, quotas
from nmt.data.store.redraw import Redraw
from nmt.data.store.store import TokenStore
from nmt.training.stages import StageSpan
from nmt.training.update.block import BlockShape
from nmt.training.update.distributed import ProcessGroup


class Update(NamedTuple):
    """The data of one update."""

    indices: list[BatchIndices]  # the batches of all ranks
    batches: list[Batch]  # this rank's share of each
    num_tokens: int  # real target tokens in all ranks
    reading_seconds: float


class UpdateBatches:
    """Gathers batches until an update has `training.tokens_per_update` real target tokens."""

    def __init__(self, store: TokenStore, config: Config, group: ProcessGroup, redraw: Redraw | None = None):
        """Raise ConfigError if an update needs more tokens than an epoch has. `redraw` redraws pairs each epoch."""
        model = config.model
        training = config.training
        sizes = store.sizes(len(config.data.corpora("train")))
        weights = corpus_weights(config.data, sizes)
        self.store = store
        self.group = group
        self.is_auto = training.batch_tokens == "auto"  # one batch per update
        self.tokens_per_update = training.tokens_per_update
        if training.batch_tokens == "auto":
            limits = model.max_src_len, model.max_tgt_len
            sample = order_of(sizes, weights, seed=0)
            self.batch_tokens = tokens_for(training.tokens_per_update, store, *limits, sample, training.both_directions)
        else:
            self.batch_tokens = training.batch_tokens
        refuse_beyond_epoch(config, store)
        self.sampler = TokenBudgetSampler(
            store,
            order_of(sizes, weights, training.seed),
            batch_tokens=self.batch_tokens,
            max_src_len=model.max_src_len,
            max_tgt_len=model.max_tgt_len,
            both_directions=training.both_directions,
            redraw=redraw,
        )

    def longest(self) -> tuple[int, int]:
        """Return the lengths in tokens of the longest source and target, eos included, after truncation."""
        if self.sampler.redraw is not None:  # a redrawn pair may become longer, up to the limits
            return self.sampler.max_src_len, self.sampler.max_tgt_len
        sides = (self.store.src, self.store.tgt)
        src_len, tgt_len = (1 + max(int(lengths.max()) for lengths in side.length_blocks()) for side in sides)
        if self.sampler.both_directions:
            src_len = tgt_len = max(src_len, tgt_len)
        return min(self.sampler.max_src_len, src_len), min(self.sampler.max_tgt_len, tgt_len)

    def block_shape(self) -> BlockShape:
        """Return the shape of a block for a rank's share of the batches: that of the largest in the first pool.

        It depends on the corpus and the configuration alone, because the bits of a product depend on its shape.
        """
        first_pool = replace(self.sampler, position=DataPosition()).make_pool()
        count = self.group.world_size
        shares = [rows.share(rank, count) for rows in first_pool for rank in range(count)]
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
        while not indices or (not self.is_auto and num_tokens < self.tokens_per_update):
            indices.append(self.sampler.next_indices())
            num_tokens += indices[-1].num_tgt_tokens
            rows = indices[-1].share(self.group.rank, self.group.world_size)
            batches.append(read_batch(self.store, rows))
        return Update(indices, batches, num_tokens, time.perf_counter() - started)


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
