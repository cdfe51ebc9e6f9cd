"""Beam search with cached keys and values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from nmt.decoding.constraints import Constraints
from nmt.decoding.decoder import Decoder
from nmt.decoding.hypothesis import Hypothesis
from nmt.decoding.options import SearchOptions
from nmt.special_tokens import BOS_ID, EOS_ID

_BLOCK_TOKENS = 16
_NONE = float("-inf")  # score of a hypothesis that is none


@torch.inference_mode()
def beam_search(
    decoder: Decoder, limits: Sequence[int], constraints: Constraints, options: SearchOptions
) -> list[list[Hypothesis]]:
    """Up to `options.num_hypotheses` outputs a sentence, best first by the length-penalized score.

    Of all continuations of a sentence's W hypotheses, the W best that do not end go on; those that end, and are among
    the W best of all, are kept (Sutskever et al. 2014, section 3.2). `limits`, one for each of
    the first sentences of `decoder`: tokens, eos counted; what has not ended there is cut, and ranked with the rest.
    A sentence is done when W of its hypotheses have ended; with `options.exact`, when no later one can be among the
    `num_hypotheses` best: since scores only fall, none can be better than a running score at the longest length.
    """
    beam = _Beam(decoder, limits, options)
    last = torch.full((len(beam.ids),), BOS_ID, device=decoder.device)
    for step in range(max(limits)):
        log_probs = decoder.step(last)
        constraints.apply(log_probs, step, beam.ids)
        candidates = _best(log_probs, beam.live)
        beam.collect(candidates, step)
        if not any(beam.running):
            break
        last = beam.advance(candidates, step)
        kept = decoder.drop_finished(torch.tensor(beam.running, device=decoder.device), sum(beam.running))
        if kept is not None:
            beam.keep(kept)
            constraints.select_rows(kept)
            last = last[kept]
    return beam.hypotheses()


class _Candidates(NamedTuple):
    """The 2W best continuations of each sentence, best first: all [B, 2W]."""

    scores: Tensor  # of the whole hypothesis
    parents: Tensor  # which of the W hypotheses it continues
    tokens: Tensor
    token_scores: Tensor


def _best(log_probs: Tensor, live: Tensor) -> _Candidates:
    """The best continuations by log_probs [B x W, V] of hypotheses with scores live [B, W].

    2W, of which W at most are eos, leave W that go on. They are among the 2W best of each hypothesis.
    """
    width = live.size(1)
    few = min(2 * width, log_probs.size(1))
    token_scores, tokens = _top(log_probs, few)  # [B x W, few]
    totals = (token_scores + live.view(-1, 1)).view(len(live), -1)  # [B, W x few]
    scores, places = totals.topk(min(2 * width, totals.size(1)))
    return _Candidates(
        scores,
        places.div(few, rounding_mode="floor"),
        tokens.view(len(live), -1).gather(1, places),
        token_scores.view(len(live), -1).gather(1, places),
    )


def _top(log_probs: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """As `log_probs.topk(count)` for [R, V], which walks a row token by token on a CPU.

    The `count` best lie in the `count` blocks with the best maximum; maxima of blocks are quick to find. A block is
    every `num_blocks`-th token, so that they are compared side by side.
    """
    num_tokens = log_probs.size(1)
    num_blocks = num_tokens // _BLOCK_TOKENS
    if num_blocks < 4 * count:
        return log_probs.topk(count)
    device, whole = log_probs.device, num_blocks * _BLOCK_TOKENS
    maxima = log_probs[:, :whole].unflatten(1, (_BLOCK_TOKENS, num_blocks)).amax(1)
    blocks = maxima.topk(count).indices[:, None]  # [R, 1, count]
    tokens = (blocks + torch.arange(0, whole, num_blocks, device=device)[:, None]).flatten(1)
    rest = torch.arange(whole, num_tokens, device=device).expand(len(tokens), -1)
    tokens = torch.cat([tokens, rest], 1)
    scores, places = log_probs.gather(1, tokens).topk(count)
    return scores, tokens.gather(1, places)


class _Beam:
    """The running hypotheses of each sentence, W rows that follow each other, and those that have ended."""

    def __init__(self, decoder: Decoder, limits: Sequence[int], options: SearchOptions):
        width, num_sentences, device = decoder.beam_size, decoder.num_sentences, decoder.device
        self.decoder = decoder
        self.options = options
        self.limits = [*limits, *[0] * (num_sentences - len(limits))]
        self.running = [limit > 0 for limit in self.limits]  # of the sentences that are left
        self.numbers = list(range(num_sentences))  # which sentence of the start each of them is
        self.found: list[list[Hypothesis]] = [[] for _ in limits]
        self.live = torch.full((num_sentences, width), _NONE, device=device)
        self.live[:, 0] = 0.0  # all begin alike: one of them is enough
        self.ids = torch.zeros((num_sentences * width, max(limits)), dtype=torch.int64, device=device)
        self.token_scores = torch.zeros(self.ids.shape, device=device)

    def collect(self, candidates: _Candidates, step: int) -> None:
        """Keep the candidates that end at `step`, and see which sentences are done."""
        width = self.live.size(1)
        ends = (candidates.tokens[:, :width] == EOS_ID) & (candidates.scores[:, :width] > _NONE)
        at_limit = [self.limits[number] == step + 1 for number in self.numbers]
        if any(at_limit):
            last_step = torch.tensor(at_limit, device=ends.device)[:, None]
            ends |= last_step & (candidates.scores[:, :width] > _NONE)
        for sentence, rank in ends.nonzero().tolist():
            if self.running[sentence]:
                self.found[self.numbers[sentence]].append(self._hypothesis(candidates, sentence, rank, step))
        best_live = candidates.scores.masked_fill(candidates.tokens == EOS_ID, _NONE).amax(1).tolist()
        for sentence, running in enumerate(self.running):
            if running:
                self.running[sentence] = not at_limit[sentence] and self._may_improve(sentence, best_live[sentence])

    def _hypothesis(self, candidates: _Candidates, sentence: int, rank: int, step: int) -> Hypothesis:
        parent, token = int(candidates.parents[sentence, rank]), int(candidates.tokens[sentence, rank])
        row = sentence * self.live.size(1) + parent
        finished = token == EOS_ID
        ids = self.ids[row, :step].tolist() + ([] if finished else [token])
        token_scores = [*self.token_scores[row, :step].tolist(), float(candidates.token_scores[sentence, rank])]
        return Hypothesis(ids, float(candidates.scores[sentence, rank]), finished, token_scores)

    def _rank(self, hypothesis: Hypothesis) -> float:
        return self.options.normalized(hypothesis.score, len(hypothesis.token_scores))

    def _may_improve(self, sentence: int, best_live: float) -> bool:
        """Whether a sentence whose best running hypothesis scores `best_live` is to go on."""
        found = self.found[self.numbers[sentence]]
        if best_live == _NONE:  # nothing may follow
            return False
        if not self.options.exact:
            return len(found) < self.live.size(1)
        wanted = self.options.num_hypotheses
        if len(found) < wanted:
            return True
        found.sort(key=self._rank, reverse=True)  # stable: of equals, the one found first
        del found[wanted:]
        return self.options.normalized(best_live, self.limits[self.numbers[sentence]]) > self._rank(found[-1])

    def advance(self, candidates: _Candidates, step: int) -> Tensor:
        """Go on with the W best candidates that do not end; returns their last tokens [R]."""
        width = self.live.size(1)
        going_on = (candidates.tokens == EOS_ID).to(torch.uint8).argsort(dim=1, stable=True)[:, :width]
        scores, parents, tokens, token_scores = (part.gather(1, going_on) for part in candidates)
        places = _places(parents)
        self.live, parents, tokens, token_scores = (
            part.gather(1, places) for part in (scores, parents, tokens, token_scores)
        )
        first_rows = torch.arange(0, len(self.ids), width, device=parents.device)[:, None]
        rows = (first_rows + parents).flatten()
        target = (rows != torch.arange(len(rows), device=rows.device)).nonzero()[:, 0]
        if len(target):
            source = rows[target]
            self.decoder.copy_rows(source, target)
            for past in (self.ids[:, :step], self.token_scores[:, :step]):
                past.index_copy_(0, target, past.index_select(0, source))
        self.ids[:, step] = last = tokens.flatten()
        self.token_scores[:, step] = token_scores.flatten()
        return last

    def keep(self, kept: Tensor) -> None:
        """Go on with the rows `kept` only, which are whole sentences."""
        width = self.live.size(1)
        sentences = kept[::width].div(width, rounding_mode="floor")
        self.live = self.live[sentences]
        self.ids, self.token_scores = self.ids[kept], self.token_scores[kept]
        self.running = [self.running[i] for i in sentences.tolist()]
        self.numbers = [self.numbers[i] for i in sentences.tolist()]

    def hypotheses(self) -> list[list[Hypothesis]]:
        """The best of each sentence, in the order of the start."""
        return [sorted(found, key=self._rank, reverse=True)[: self.options.num_hypotheses] for found in self.found]


def _places(parents: Tensor) -> Tensor:
    """An order of the new hypotheses in which the cache changes least: which of them stands in each place, [B, W].

    parents [B, W]: the place each comes from. The first child of a parent takes its place, so that nothing is copied;
    the other children take the places of those that have none.
    """
    width = parents.size(1)
    same = parents[:, :, None] == parents[:, None, :]  # [B, W, W]
    is_later = same.tril(-1).any(2)  # an earlier one has the same parent
    childless = torch.ones_like(is_later).scatter_(1, parents, False)
    free_places = (~childless).to(torch.uint8).argsort(dim=1, stable=True)  # childless ones first
    nth_later = (is_later.cumsum(1) - 1).clamp(0, width - 1)
    return torch.where(is_later, free_places.gather(1, nth_later), parents).argsort(1)
