"""Stores in memory, and batches of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from nmt.config import Config
from nmt.data.store.store import Side
from nmt.training.batches import UpdateBatches
from nmt.training.update.distributed import ProcessGroup


class Pairs:
    """A store in memory, of pairs with the given lengths."""

    def __init__(self, src_lens, tgt_lens):
        self.src, self.tgt = (
            Side(np.full(sum(lens), 9, dtype=np.uint16), np.cumsum([0, *lens], dtype=np.int64), 1000, Path())
            for lens in (src_lens, tgt_lens)
        )

    def __len__(self):
        return len(self.src.offsets) - 1

    def sizes(self, num_corpora):
        """All pairs are of one corpus."""
        return (len(self),)


def some_pairs():
    """501 pairs of random lengths."""
    draw = np.random.default_rng(3)
    return Pairs(draw.integers(1, 30, 501).tolist(), draw.integers(1, 40, 501).tolist())


def batches_of(pairs, order=None, **training):
    """Batches of at most 200 tokens of `pairs`, in `order` if it is given, with these settings."""
    settings = {"batch_tokens": 200, "tokens_per_update": 0, "seed": 5, **training}
    values = {
        "data": {"src_lang": "x", "tgt_lang": "y", "train": {"tsv": "train.tsv"}},
        "model": {"max_src_len": 25, "max_tgt_len": 31},
        "training": settings,
    }
    batches = UpdateBatches(pairs, Config.model_validate(values), ProcessGroup())
    batches.order = order or batches.order
    return batches
