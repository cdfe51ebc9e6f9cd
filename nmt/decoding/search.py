"""The loop that all searches share: they differ in how they choose the next tokens."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nmt.base.special_tokens import BOS_ID
from nmt.decoding.constraints import Constraints
from nmt.decoding.decoder import Decoder


class Search(ABC):
    """A search for the outputs of the sentences of `decoder`; subclasses choose tokens."""

    def __init__(self, decoder: Decoder, limits: Sequence[int], constraints: Constraints):
        """`limits` has the maximum length in tokens, eos counted, of each sentence."""
        self.decoder = decoder
        self.constraints = constraints
        self.normalized = True  # whether the choice needs log-probabilities, or only their order
        self.limits = np.zeros(max(len(limits), decoder.num_places), np.int64)  # also of the empty sentences
        self.limits[: len(limits)] = limits
        num_rows = decoder.num_places * decoder.beam_size
        self.ids = torch.zeros((num_rows, decoder.max_len), dtype=torch.int64, device=decoder.device)  # the outputs

    def run(self) -> None:
        """Search until no sentence is running; the host sees every few steps what has ended."""
        decoder = self.decoder
        constraints = self.constraints
        last = torch.full((len(self.ids),), BOS_ID, device=decoder.device)
        constraints.select_rows(decoder.rows)
        while decoder.running.any():
            left = (self.limits[decoder.numbers] - decoder.lengths)[decoder.running]
            on_device: list[Tensor] = []  # what the host has not seen yet
            for _ in range(min(decoder.check_every, int(left.max()))):
                log_probs = decoder.step(last, normalized=self.normalized)
                constraints.apply(log_probs, decoder.positions, self.ids[:, : decoder.length - 1])
                last, chosen = self.choose(log_probs)
                self.ids.scatter_(1, decoder.positions[:, None], last[:, None])
                on_device.append(chosen)
            self.collect(torch.stack(on_device).cpu().numpy())
            changed = decoder.replace_finished()
            if changed is not None:
                rows, fresh = changed
                last = last[rows].index_fill(0, fresh, BOS_ID)
                self.ids = self.ids[rows]
                constraints.select_rows(decoder.rows)
                self.select_rows(rows, fresh)

    @abstractmethod
    def choose(self, log_probs: Tensor) -> tuple[Tensor, Tensor]:
        """Choose from log_probs [R, V]; return the next token of each row [R], and all that the host needs of it."""

    @abstractmethod
    def collect(self, chosen: NDArray[np.float32]) -> None:
        """Collect what was chosen in the latest steps [steps, ...], and tell the decoder which sentences are done."""

    @abstractmethod
    def select_rows(self, rows: Tensor, fresh: Tensor) -> None:
        """Keep the former rows `rows` [R'], in this order; those that are then at `fresh` begin another sentence."""
