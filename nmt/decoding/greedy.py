"""Greedy search and sampling, which differ only in how they choose the next token."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from nmt.base.special_tokens import BOS_ID, EOS_ID
from nmt.decoding.constraints import Constraints
from nmt.decoding.decoder import Decoder
from nmt.decoding.hypothesis import Hypothesis, check_finite
from nmt.decoding.sampling import Sampler


@torch.inference_mode()
def greedy_search(
    decoder: Decoder, limits: Sequence[int], constraints: Constraints, sampler: Sampler | None = None
) -> list[Hypothesis]:
    """Choose the most probable next token, or one drawn by `sampler`, until eos or the row's length limit.

    `limits` has the maximum length in tokens, eos counted, for each of the first rows of `decoder`. Finished sentences
    leave the batch through `Decoder.drop_finished`. RunError if the model's probabilities are not numbers.
    """
    rows = _GreedyState(decoder, limits)
    last = torch.full((len(rows.running),), BOS_ID, device=decoder.device)
    for step in range(rows.longest):
        log_probs = decoder.step(last)
        constraints.apply(log_probs, step, rows.ids)
        scores, last = _most_probable(log_probs) if sampler is None else sampler.draw(log_probs, step)
        rows.add(last, scores, step)
        if (step + 1) % decoder.check_every and step + 1 < rows.longest:
            continue
        running = rows.running.view(-1, decoder.beam_size).any(1)
        num_running = int(running.count_nonzero())
        if num_running == 0:
            break
        kept = decoder.drop_finished(running, num_running)
        if kept is not None:
            rows.keep(kept)
            last = last[kept]
            constraints.select_rows(kept)
            if sampler is not None:
                sampler.select_rows(kept)
    return rows.hypotheses()


def _most_probable(log_probs: Tensor) -> tuple[Tensor, Tensor]:
    """Return the maximum of each row of log_probs [R, V], fp32, and its id: [R] each."""
    if log_probs.device.type != "cpu":
        return log_probs.max(-1)
    ids = torch.from_numpy(log_probs.numpy().argmax(1))  # numpy uses vector instructions, torch does not
    return log_probs.gather(1, ids[:, None])[:, 0], ids


class _GreedyState:
    """The outputs of a greedy search so far."""

    def __init__(self, decoder: Decoder, limits: Sequence[int]):
        num_rows = decoder.num_sentences * decoder.beam_size
        self.limits = [*limits, *[0] * (num_rows - len(limits))]
        self.longest = max(limits)
        self.ids = torch.zeros((num_rows, self.longest), dtype=torch.int64, device=decoder.device)
        self.scores = torch.zeros((num_rows, self.longest), device=decoder.device)
        self._limits = torch.tensor(self.limits, device=decoder.device)
        self._steps_with_a_limit = set(limits)
        self.running = self._limits > 0
        self._numbers = torch.arange(num_rows)  # the original index of each remaining row
        self._hypotheses: list[Hypothesis | None] = [None] * len(limits)

    def add(self, ids: Tensor, scores: Tensor, step: int) -> None:
        """Record the tokens chosen at `step`; `hypotheses` later removes tokens after the end of a row."""
        self.ids[:, step] = ids
        self.scores[:, step] = scores
        self.running.logical_and_(ids != EOS_ID)
        if step + 1 in self._steps_with_a_limit:
            self.running.logical_and_(self._limits > step + 1)

    def keep(self, kept: Tensor) -> None:
        """Continue with only the rows `kept`."""
        self._finish(~self.running)
        self._numbers = self._numbers[kept.cpu()]
        self.ids, self.scores = self.ids[kept], self.scores[kept]
        self._limits, self.running = self._limits[kept], self.running[kept]

    def hypotheses(self) -> list[Hypothesis]:
        """Return the outputs, in the original order of the rows."""
        self._finish(torch.ones_like(self.running))
        return [hypothesis for hypothesis in self._hypotheses if hypothesis is not None]

    def _finish(self, ended: Tensor) -> None:
        numbers = self._numbers[ended.cpu()].tolist()
        for number, ids, scores in zip(numbers, self.ids[ended].tolist(), self.scores[ended].tolist(), strict=True):
            if number >= len(self._hypotheses):  # a row that only pads the batch
                continue
            limit = self.limits[number]
            finished = EOS_ID in ids[:limit]
            length = ids.index(EOS_ID) if finished else limit
            scores = scores[: length + finished]
            score = sum(scores)
            check_finite(score)
            self._hypotheses[number] = Hypothesis(ids[:length], score, finished, scores)
