"""Drawing tokens at random, each row with numbers of its own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from nmt.decoding.options import SearchOptions


class Sampler:
    """Draws the next token of each row by its probability, from all tokens or the most probable ones.

    The random numbers of a row follow from the seed, its source and its place among the samples of that source, so
    that what else is translated, and where it stands, changes nothing; the same source gives the same samples.
    """

    def __init__(
        self, options: SearchOptions, sources: Sequence[Sequence[int]], limits: Sequence[int], num_rows: int,
        device: torch.device,
    ):  # fmt: skip
        """`limits`, one for each sample of each source: `options.num_hypotheses` that follow each other."""
        self.options = options
        numbers = np.zeros((num_rows, max(limits)))
        for row, limit in enumerate(limits):
            source, sample = divmod(row, options.num_hypotheses)
            numbers[row, :limit] = np.random.default_rng((options.seed, sample, *sources[source])).random(limit)
        self.numbers = torch.from_numpy(numbers).to(device)  # [R, longest], uniform in [0, 1)

    def draw(self, log_probs: Tensor, step: int) -> tuple[Tensor, Tensor]:
        """log_probs [R, V] -> the log-probabilities [R] and the ids [R] of the tokens drawn.

        The log-probabilities are those given: temperature, top_k and top_p change which tokens come, not their scores.
        """
        options = self.options
        scaled, order = log_probs / options.temperature, None
        if options.top_k:
            scaled, order = scaled.topk(min(options.top_k, scaled.size(1)))
        elif options.top_p < 1.0:
            scaled, order = scaled.sort(descending=True, stable=True)
        probs = scaled.double().softmax(-1)
        if options.top_p < 1.0:
            probs[probs.cumsum(-1) - probs >= options.top_p] = 0.0  # the first, before which there is nothing, stays
        cumulative = probs.cumsum(-1)
        wanted = self.numbers[:, step, None] * cumulative[:, -1:]
        drawn = torch.searchsorted(cumulative, wanted, right=True).clamp_max(cumulative.size(1) - 1)
        ids = drawn if order is None else order.gather(1, drawn)
        return log_probs.gather(1, ids)[:, 0], ids[:, 0]

    def select_rows(self, rows: Tensor) -> None:
        """Go on with `rows` only."""
        self.numbers = self.numbers[rows]
