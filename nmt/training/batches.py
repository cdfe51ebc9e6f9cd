"""The batches of each update, and this rank's share of them."""

from __future__ import annotations

import time
from typing import NamedTuple

from nmt.config import Config
from nmt.data.batching import Batch, BatchIndices, TokenBudgetSampler, read_batch, tokens_for
from nmt.data.mixing import order_of
from nmt.data.store import TokenStore
from nmt.errors import ConfigError
from nmt.training.distributed import ProcessGroup


class Update(NamedTuple):
    """The data of one update."""

    indices: list[BatchIndices]  # of all ranks
    batches: list[Batch]  # this rank's share of each
    num_tokens: int  # real target tokens, of all ranks
    reading_seconds: float


class UpdateBatches:
    """Gathers batches until an update has `training.tokens_per_update` real target tokens."""

    def __init__(self, store: TokenStore, config: Config, group: ProcessGroup):
        """Raise ConfigError if an update needs more tokens than an epoch has."""
        model, training, weights = config.model, config.training, None
        self.store, self.group = store, group
        self.is_auto = training.batch_tokens == "auto"  # one batch per update
        self.tokens_per_update = training.tokens_per_update
        if training.batch_tokens == "auto":
            limits = model.max_src_len, model.max_tgt_len
            sample = order_of(store.sizes, weights, seed=0)
            self.batch_tokens = tokens_for(training.tokens_per_update, store, *limits, sample)
        else:
            self.batch_tokens = training.batch_tokens
        refuse_beyond_epoch(config, store)
        self.sampler = TokenBudgetSampler(
            store,
            order_of(store.sizes, weights, training.seed),
            batch_tokens=self.batch_tokens,
            max_src_len=model.max_src_len,
            max_tgt_len=model.max_tgt_len,
            drop_too_long=config.data.on_too_long == "drop",
        )

    def longest(self) -> tuple[int, int]:
        """Return the lengths in tokens of the longest source and target, eos included, after truncation."""
        sides = ((self.store.src, self.sampler.max_src_len), (self.store.tgt, self.sampler.max_tgt_len))
        src_len, tgt_len = (
            min(limit, 1 + max(int(lengths.max()) for lengths in side.length_blocks())) for side, limit in sides
        )
        return src_len, tgt_len

    def next_update(self) -> Update:
        """Return the data of the next update."""
        started = time.perf_counter()
        indices = [self.sampler.next_indices()]
        while not self.is_auto and sum(rows.num_tgt_tokens for rows in indices) < self.tokens_per_update:
            indices.append(self.sampler.next_indices())
        rank, world_size = self.group.rank, self.group.world_size
        batches = [read_batch(self.store, rows.share(rank, world_size)) for rows in indices]
        num_tokens = sum(rows.num_tgt_tokens for rows in indices)
        return Update(indices, batches, num_tokens, time.perf_counter() - started)


def refuse_beyond_epoch(config: Config, store: TokenStore) -> None:
    """Raise ConfigError if an update needs more tokens than an epoch has: gathering them would never end."""
    tokens_per_update, model = config.training.tokens_per_update, config.model
    # Each pair has at least one token, the end of the sentence.
    if config.training.batch_tokens == "auto" or tokens_per_update <= len(store):
        return
    num_tokens = 0
    for src_len, tgt_len in zip(store.src.length_blocks(), store.tgt.length_blocks(), strict=True):
        lengths = tgt_len + 1
        if config.data.on_too_long == "drop":
            lengths = lengths[(src_len + 1 <= model.max_src_len) & (lengths <= model.max_tgt_len)]
        num_tokens += int(lengths.clip(max=model.max_tgt_len).sum())
    if tokens_per_update > num_tokens:
        raise ConfigError(
            f"training.tokens_per_update is {tokens_per_update:,}, but an epoch has only {num_tokens:,} target tokens",
            hint=f"set it to at most {num_tokens:,}",
        )
