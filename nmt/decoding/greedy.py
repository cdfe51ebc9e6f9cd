"""Greedy search and sampling, which differ only in how they choose the next token."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nmt.base.special_tokens import EOS_ID
from nmt.decoding.constraints import Constraints
from nmt.decoding.decoder import Decoder
from nmt.decoding.hypothesis import Hypothesis, check_finite
from nmt.decoding.sampling import Sampler
from nmt.decoding.search import Search


@torch.inference_mode()
def greedy_search(
    decoder: Decoder, limits: Sequence[int], constraints: Constraints, sampler: Sampler | None = None, *,
    scores: bool = True,
) -> list[list[Hypothesis]]:  # fmt: skip
    """Choose the most probable next token, or one drawn by `sampler`, until eos or the sentence's length limit.

    Return an output for each of a sentence's W rows. `limits` has the maximum length in tokens, eos counted, of each
    sentence. Without `scores`, those of the outputs are nan. RunError if the model's probabilities are not numbers.
    """
    search = _Greedy(decoder, limits, constraints, sampler)
    search.normalized = scores
    search.run()
    if scores:
        return search.outputs
    return [[found._replace(score=math.nan, token_scores=[]) for found in outputs] for outputs in search.outputs]


class _Greedy(Search):
    def __init__(self, decoder: Decoder, limits: Sequence[int], constraints: Constraints, sampler: Sampler | None):
        super().__init__(decoder, limits, constraints)
        self.sampler = sampler
        self.outputs: list[list[Hypothesis]] = [[] for _ in limits]
        # The ids and scores of each row; longer than outputs, because the host may see the end of one some steps late.
        self.seen = np.zeros((len(self.ids), decoder.max_len + decoder.check_every, 2), np.float32)
        self.ended = np.zeros(len(self.ids), bool)
        if sampler is not None:
            sampler.select_rows(decoder.rows)

    def choose(self, log_probs: Tensor) -> tuple[Tensor, Tensor]:
        if self.sampler is None:
            scores, last = _most_probable(log_probs)
        else:
            scores, last = self.sampler.draw(log_probs, self.decoder.positions)
        # fp32 represents ids exactly, because a vocabulary has fewer than 2^24 tokens.
        return last, torch.stack([last.float(), scores.float()], 1)

    def collect(self, chosen: NDArray[np.float32]) -> None:
        decoder = self.decoder
        num_steps = len(chosen)
        lengths = decoder.lengths.repeat(decoder.beam_size)
        columns = (lengths - num_steps)[:, None] + np.arange(num_steps)
        rows = np.arange(len(lengths))[:, None]
        # Clipped, because the lengths of free places grow without end.
        self.seen[rows, columns.clip(max=self.seen.shape[1] - 1)] = chosen.swapaxes(0, 1)
        limits = self.limits[decoder.numbers]
        self.ended |= (chosen[:, :, 0] == EOS_ID).any(0) | (lengths >= limits.repeat(decoder.beam_size))
        done = decoder.running & self.ended.reshape(-1, decoder.beam_size).all(1)
        for place in np.flatnonzero(done).tolist():
            first = place * decoder.beam_size
            rows_of_place = self.seen[first : first + decoder.beam_size, : limits[place]].swapaxes(1, 2)
            self.outputs[decoder.numbers[place]] = [_hypothesis(*row) for row in rows_of_place.tolist()]
        decoder.running &= ~done

    def select_rows(self, rows: Tensor, fresh: Tensor) -> None:
        former = rows.cpu().numpy()
        self.seen = self.seen[former]
        self.ended = self.ended[former]
        self.ended[fresh.cpu().numpy()] = False
        if self.sampler is not None:
            self.sampler.select_rows(self.decoder.rows)


def _most_probable(log_probs: Tensor) -> tuple[Tensor, Tensor]:
    """Return the maximum of each row of log_probs [R, V], and its id: [R] each."""
    if log_probs.device.type != "cpu":
        return log_probs.max(-1)
    ids = torch.from_numpy(log_probs.float().numpy().argmax(1))  # numpy uses vector instructions, torch does not
    return log_probs.gather(1, ids[:, None])[:, 0], ids


def _hypothesis(ids_as_floats: list[float], scores: list[float]) -> Hypothesis:
    """Return the output with these ids and `scores`, up to its first eos."""
    ids = [int(number) for number in ids_as_floats]
    finished = EOS_ID in ids
    length = ids.index(EOS_ID) if finished else len(ids)
    scores = scores[: length + finished]
    score = sum(scores)
    check_finite(score)
    return Hypothesis(ids[:length], score, finished, scores)
