"""Beam search with cached keys and values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nmt.base.special_tokens import EOS_ID
from nmt.config import SearchOptions
from nmt.decoding.constraints import Constraints
from nmt.decoding.decoder import Decoder
from nmt.decoding.hypothesis import Hypothesis, check_finite
from nmt.decoding.search import Search

_BLOCK_TOKENS = 16  # of a block in `_top`; chosen by hand
_NONE = float("-inf")  # score of an absent hypothesis
# In the bound on the score of a running hypothesis: tokens of probability 1 that it may still get. With as many as the
# maximum length allows, a search takes 1.5 times as long, and found nothing better (docs/log/quality.md, 2026-11-28).
_FREE_TOKENS = 4


@torch.inference_mode()
def beam_search(
    decoder: Decoder, limits: Sequence[int], constraints: Constraints, options: SearchOptions
) -> list[list[Hypothesis]]:
    """Return up to `options.num_hypotheses` outputs per sentence, best first by length-penalized score.

    Each step considers all continuations of a sentence's W hypotheses. The W best that do not end stay in the beam.
    Those that end and are among the W best of all are collected as outputs (Sutskever et al. 2014, section 3.2). The
    first of the W + 1 rows per sentence of `decoder` is greedy search, so its output is always collected. `limits` has
    the maximum length in tokens, eos counted, for each of the first sentences; hypotheses that reach it are truncated
    and ranked with the others. A sentence is done when no running hypothesis would be among the `num_hypotheses` best
    with four more tokens of probability 1. With a prefix, it is done when W have ended: a prefix may be improbable, so
    that the mean log-probability rises with the length. The host looks for that every `decoder.check_every` steps.
    RunError if the model's probabilities are not numbers.
    """
    beam = _Beam(decoder, limits, constraints, options)
    beam.run()
    return beam.hypotheses()


class _Continuations(NamedTuple):
    """Continuations of the hypotheses of each sentence by one token; all fields are [B, number of continuations]."""

    scores: Tensor  # of the whole hypothesis, not length-penalized
    parents: Tensor  # which of the W + 1 rows it continues
    tokens: Tensor  # the new one
    token_scores: Tensor  # of the new token


def _best(log_probs: Tensor, live: Tensor) -> _Continuations:
    """Return the best continuation of greedy search, then the 2W best ones of the beam, best first.

    `live` [B, W + 1] are scores of hypotheses, log_probs [B x (W + 1), V] those of their next tokens. At most W of the
    2W are eos, so at least W continue. Each is among the 2W best continuations of its hypothesis.
    """
    few = min(2 * live.size(1) - 2, log_probs.size(1))
    token_scores, tokens = (part.view(len(live), -1) for part in _top(log_probs, few))  # [B, (W + 1) x few]
    totals = token_scores + live.repeat_interleave(few, 1)
    in_beam = totals[:, few:].topk(2 * live.size(1) - 2).indices + few
    chosen = torch.cat([torch.zeros_like(in_beam[:, :1]), in_beam], 1)
    scores, tokens, token_scores = (part.gather(1, chosen) for part in (totals, tokens, token_scores))
    return _Continuations(scores, chosen.div(few, rounding_mode="floor"), tokens, token_scores)


def _top(log_probs: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return `log_probs.topk(count)` for [R, V], faster than torch, which on a CPU scans each row token by token.

    The `count` best tokens are in the `count` blocks with the highest maxima, which vector instructions find quickly. A
    block consists of every `num_blocks`-th token.
    """
    num_tokens = log_probs.size(1)
    num_blocks = num_tokens // _BLOCK_TOKENS
    if num_blocks < 4 * count:  # most of a small vocabulary would be looked at anyway
        return log_probs.topk(count)
    whole = num_blocks * _BLOCK_TOKENS
    maxima = log_probs[:, :whole].unflatten(1, (_BLOCK_TOKENS, num_blocks)).amax(1)
    blocks = maxima.topk(count).indices[:, None]  # [R, 1, count]
    tokens = (blocks + torch.arange(0, whole, num_blocks, device=log_probs.device)[:, None]).flatten(1)
    rest = torch.arange(whole, num_tokens, device=log_probs.device).expand(len(tokens), -1)
    tokens = torch.cat([tokens, rest], 1)
    scores, columns = log_probs.gather(1, tokens).topk(count)
    return scores, tokens.gather(1, columns)


def _survivors(best: _Continuations) -> _Continuations:
    """Return the best continuation of greedy search, and the W best ones of the beam that do not end, by future row."""
    ends = best.tokens == EOS_ID
    going_on = ends[:, 1:].to(torch.uint8).argsort(dim=1, stable=True)[:, : ends.size(1) // 2] + 1
    rows = _assign_rows(best.parents.gather(1, going_on) - 1)
    going_on = torch.cat([torch.zeros_like(rows[:, :1]), going_on.gather(1, rows)], 1)
    running = best._replace(scores=best.scores.masked_fill(ends, _NONE))
    return _Continuations(*(part.gather(1, going_on) for part in running))


def _pack(best: _Continuations, survivors: _Continuations) -> Tensor:
    """Return what the host needs of a step in one tensor [B, 8, W + 1]: of greedy search and the W best ones.

    The four fields of the best continuations, which may end, then those of the survivors. fp32 represents ids exactly,
    because a vocabulary has fewer than 2^24 tokens.
    """
    ranked = [part[:, : survivors.parents.size(1)] for part in best]
    return torch.stack([part.float() for part in (*ranked, *survivors)], 1)


class _Beam(Search):
    """The running hypotheses of each sentence, in W + 1 consecutive rows, and those that have ended."""

    def __init__(self, decoder: Decoder, limits: Sequence[int], constraints: Constraints, options: SearchOptions):
        super().__init__(decoder, limits, constraints)
        self.have_prefix = constraints.have_prefix()[:: decoder.beam_size]
        self.options = options
        self.ended: list[list[Hypothesis]] = [[] for _ in limits]
        self.first_live = torch.full((1, decoder.beam_size), _NONE, device=decoder.device)
        self.first_live[:, :2] = 0.0  # the beam starts out with identical hypotheses, so only one may run
        self.live = self.first_live.repeat(decoder.num_places, 1)  # scores
        # Of the row of each hypothesis after each step: the row that it continued, its token, and the token's score.
        num_steps = decoder.max_len + decoder.check_every
        self.past = np.zeros((decoder.num_places, num_steps, decoder.beam_size, 3), np.float32)

    def choose(self, log_probs: Tensor) -> tuple[Tensor, Tensor]:
        """Choose the survivors, which go on."""
        best = _best(log_probs, self.live)
        survivors = _survivors(best)
        own = torch.arange(len(self.ids), device=self.ids.device)
        source = (survivors.parents + own[:: self.live.size(1), None]).flatten()
        if self.decoder.check_every == 1:  # a GPU copies all rows, because finding those that change would wait for it
            own = (source != own).nonzero()[:, 0]
        if len(own):
            source = source[own]
            self.decoder.copy_rows(source, own)
            past = self.ids[:, : self.decoder.length - 1]
            past.index_copy_(0, own, past.index_select(0, source))
        self.live = survivors.scores
        return survivors.tokens.flatten(), _pack(best, survivors)

    def collect(self, chosen: NDArray[np.float32]) -> None:
        """Collect the hypotheses that ended, and decide which sentences are done; `chosen` [steps, B, 8, W + 1]."""
        lengths = self.decoder.lengths - len(chosen)
        for packed in chosen:
            lengths += 1
            self._collect_step(packed, lengths)

    def _collect_step(self, packed: NDArray[np.float32], lengths: NDArray[np.int64]) -> None:
        """Collect those of one step, which is `packed` [B, 8, W + 1]; by it, the outputs have `lengths` [B]."""
        running = self.decoder.running
        numbers = self.decoder.numbers
        # Fields 0 to 3 are those of the best continuations, 4 to 7 the same ones of the survivors.
        scores, parents, tokens, token_scores = packed[:, :4].swapaxes(0, 1)
        last = self.past.shape[1] - 1  # of free places, whose lengths mean nothing
        self.past[np.arange(len(lengths)), (lengths - 1).clip(max=last)] = packed[:, 5:].swapaxes(1, 2)
        best_live = packed[:, 4].max(1)  # the score of the best survivor
        check_finite(float(best_live[running].sum()))
        at_limit = self.limits[numbers] == lengths
        ends = (scores > _NONE) & ((tokens == EOS_ID) | at_limit[:, None]) & running[:, None]
        for index in map(tuple, np.argwhere(ends).tolist()):
            place = index[0]
            token = int(tokens[index])
            finished = token == EOS_ID
            past_ids, past_scores = self._past(place, parents[index], lengths[place] - 1)
            ids = past_ids + ([] if finished else [token])
            ended = self.ended[numbers[place]]
            if all(ids != other.ids for other in ended):  # greedy search may be in the beam, too
                score = float(scores[index])
                token_score = float(token_scores[index])
                ended.append(Hypothesis(ids, score, finished, [*past_scores, token_score]))
        for place in np.flatnonzero(running).tolist():
            running[place] = not at_limit[place] and self._may_improve(
                numbers[place], float(best_live[place]), lengths[place]
            )

    def _past(self, place: int, row: float, length: int) -> tuple[list[int], list[float]]:
        """Return the ids and scores of the hypothesis of `length` tokens in `row` of the sentence at `place`."""
        ids: list[int] = []
        scores: list[float] = []
        for rows in reversed(self.past[place, :length].tolist()):
            row, token, score = rows[int(row)]
            ids.append(int(token))
            scores.append(score)
        return ids[::-1], scores[::-1]

    def _rank(self, hypothesis: Hypothesis) -> float:
        return self.options.normalized(hypothesis.score, len(hypothesis.token_scores))

    def _may_improve(self, number: int, best_live: float, length: int) -> bool:
        """Return whether a running hypothesis of sentence `number` may still be among its best.

        `length` is the number of their tokens, `best_live` the score of the best of them.
        """
        ended = self.ended[number]
        if best_live == _NONE:  # no continuation is allowed
            return False
        if self.have_prefix[number]:
            return len(ended) < self.live.size(1) - 1
        if len(ended) < self.options.num_hypotheses:
            return True
        ended.sort(key=self._rank, reverse=True)  # stable: ties go to the one that ended first
        del ended[self.options.num_hypotheses :]
        longest = min(length + _FREE_TOKENS, self.limits[number])
        return self.options.normalized(best_live, longest) > self._rank(ended[-1])

    def select_rows(self, rows: Tensor, fresh: Tensor) -> None:
        """Continue with only the `rows`, which must be all rows of certain sentences."""
        width = self.live.size(1)
        places, new = (part[::width].div(width, rounding_mode="floor") for part in (rows, fresh))
        self.live = self.live[places].index_copy(0, new, self.first_live.repeat(len(new), 1))
        self.past = self.past[places.cpu().numpy()]

    def hypotheses(self) -> list[list[Hypothesis]]:
        """Return the best hypotheses of each sentence, in the original order."""
        return [sorted(ended, key=self._rank, reverse=True)[: self.options.num_hypotheses] for ended in self.ended]


def _assign_rows(parents: Tensor) -> Tensor:
    """Assign the new hypotheses to rows such that the cache needs the fewest copies; return the one per row, [B, W].

    parents [B, W] is the row that each hypothesis continues. The first child of a parent takes over its row without a
    copy; other children take the rows of parents without children.
    """
    width = parents.size(1)
    same = parents[:, :, None] == parents[:, None, :]  # [B, W, W]
    is_later = same.tril(-1).any(2)  # not the first child of its parent
    childless = torch.ones_like(is_later).scatter_(1, parents, False)
    free_rows = (~childless).to(torch.uint8).argsort(dim=1, stable=True)  # childless ones first
    nth_later = (is_later.cumsum(1) - 1).clamp(0, width - 1)
    return torch.where(is_later, free_rows.gather(1, nth_later), parents).argsort(1)
