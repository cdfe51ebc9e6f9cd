"""Sample tokens with separate random numbers for each row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from nmt.config import SearchOptions
from nmt.decoding.hypothesis import sampling_numbers


class Sampler:
    """Draws the next token of each row according to its probability, from all tokens or the most probable ones.

    The random numbers of a row depend only on the seed, the source and the index of the sample, not on the rest of the
    batch or its order. The same source therefore always gives the same samples.
    """

    def __init__(
        self, options: SearchOptions, sources: Sequence[Sequence[int]], limits: Sequence[int], num_rows: int,
        device: torch.device, draws: Sequence[int] | None = None,
    ):  # fmt: skip
        """Prepare `options.num_hypotheses` samples per source, grouped by source; `limits` has one entry per source.

        `draws` has a number for each source that changes its random numbers.
        """
        self.options = options
        numbers = np.zeros((num_rows, max(limits)))
        for row in range(len(sources) * options.num_hypotheses):
            source, sample = divmod(row, options.num_hypotheses)
            draw = draws[source] if draws else 0
            limit = limits[source]
            numbers[row, :limit] = sampling_numbers(options.seed, sample, sources[source], limit, draw)
        # Cumulative probabilities need fp64, which Apple GPUs lack, so the host draws the tokens there.
        self.device = torch.device("cpu") if device.type == "mps" else device
        self.numbers = torch.from_numpy(numbers).to(self.device)  # [.., longest], uniform in [0, 1)
        self._numbers = self.numbers  # of the rows of the batch

    def draw(self, log_probs: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Draw a token for each row of log_probs [R, V]; return its log-probability [R] and id [R], on the same device.

        `positions` [R] are those of the tokens in the outputs.

        Temperature, top_k and top_p change which tokens are drawn, but not their log-probabilities.
        """
        options = self.options
        device = log_probs.device
        log_probs = log_probs.to(self.device)
        scaled = log_probs / options.temperature
        order = None
        if options.top_k:
            scaled, order = scaled.topk(min(options.top_k, scaled.size(1)))
        elif options.top_p < 1.0:
            scaled, order = scaled.sort(descending=True, stable=True)
        probs = scaled.double().softmax(-1)
        if options.top_p < 1.0:
            probs[probs.cumsum(-1) - probs >= options.top_p] = 0.0  # always keeps the first
        cumulative = probs.cumsum(-1)
        shares = self._numbers.gather(1, positions[:, None].to(self.device)) * cumulative[:, -1:]
        drawn = torch.searchsorted(cumulative, shares, right=True).clamp_max(cumulative.size(1) - 1)
        ids = drawn if order is None else order.gather(1, drawn)
        return log_probs.gather(1, ids)[:, 0].to(device), ids[:, 0].to(device)

    def select_rows(self, rows: Tensor) -> None:
        """Draw for the `rows` [R] of those that there are numbers for."""
        self._numbers = self.numbers[rows.to(self.device)]
