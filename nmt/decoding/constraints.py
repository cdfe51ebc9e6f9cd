"""Constraints on an output: forbidden tokens, and a required prefix."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from nmt.base.special_tokens import EOS_ID, PAD_ID
from nmt.config import SearchOptions

_NEVER = float("-inf")


class Constraints:
    """Sets the probability of forbidden tokens to zero without renormalizing the others.

    The score of an output is therefore always its probability under the model, whatever the constraints were.
    """

    def __init__(
        self,
        options: SearchOptions,
        never_generated: Sequence[int],
        prefixes: Sequence[Sequence[int]],
        num_rows: int,
        device: torch.device,
        num_tags: int = 0,
    ):
        """Ban `never_generated` ids except in prefixes; `prefixes` has one prefix for each of the first rows.

        The first `num_tags` tokens of each prefix are a tag, which is given and therefore has probability 1.
        """
        self.banned = torch.tensor([*never_generated], dtype=torch.int64, device=device)
        self.num_tags = num_tags if any(prefixes) else 0
        self.min_len = options.min_len + self.num_tags
        self.no_repeat_ngram = options.no_repeat_ngram
        longest = max(map(len, prefixes), default=0)
        # Padding, which is always banned, stands for any token. The last column is for all that follow.
        rows = [[*prefix, *[PAD_ID] * (longest + 1 - len(prefix))] for prefix in prefixes]
        self.prefixes = torch.full((num_rows, longest + 1), PAD_ID, device=device)
        if longest:
            self.prefixes[: len(rows)] = torch.tensor(rows, device=device)
        self._prefix_of_rows = self.prefixes  # of the rows in the batch

    def apply(self, log_probs: Tensor, positions: Tensor, ids: Tensor) -> None:
        """Constrain log_probs [R, V] of the tokens at `positions` [R], in place; ids [R, T] are those before."""
        longest = self._prefix_of_rows.size(1) - 1
        tokens = self._prefix_of_rows.gather(1, positions.clamp(max=longest)[:, None])
        forced = log_probs.gather(1, tokens) if longest else None
        eos = log_probs[:, EOS_ID].clone() if self.min_len else None
        log_probs.index_fill_(1, self.banned, _NEVER)
        if eos is not None:
            is_short = positions < self.min_len
            log_probs[:, EOS_ID] = eos.masked_fill(is_short, _NEVER)
        if self.no_repeat_ngram:
            _ban_repeats(log_probs, positions, ids, self.no_repeat_ngram)
            if eos is not None:  # allow eos below the minimum length if every other token is banned
                stuck = is_short & (log_probs.amax(1) == _NEVER)
                log_probs[:, EOS_ID] = torch.where(stuck, eos, log_probs[:, EOS_ID])
        if forced is not None:
            inside = tokens != PAD_ID
            if self.num_tags:
                forced.masked_fill_((positions < self.num_tags)[:, None], 0.0)
            log_probs.masked_fill_(inside, _NEVER)
            log_probs.scatter_(1, tokens, torch.where(inside, forced, _NEVER))

    def have_prefix(self) -> list[bool]:
        """Return for each row whether a prefix that is more than a tag is required."""
        return (self.prefixes[:, self.num_tags :] != PAD_ID).any(1).tolist()

    def select_rows(self, rows: Tensor) -> None:
        """Constrain only the given `rows` [R] from now on, in this order."""
        self._prefix_of_rows = self.prefixes[rows]


def _ban_repeats(log_probs: Tensor, positions: Tensor, ids: Tensor, size: int) -> None:
    """Ban every token that would repeat an n-gram of `size` in ids [R, T] (Paulus et al. 2018, section 2.5).

    Of each row of ids, those before its position are real.
    """
    if ids.size(1) < size:
        return
    seen = ids.unfold(1, size, 1)  # [R, T - size + 1, size]
    ends = torch.arange(size, ids.size(1) + 1, device=ids.device)
    before = positions[:, None] + torch.arange(1 - size, 0, device=ids.device)
    latest = ids.gather(1, before.clamp(0, ids.size(1) - 1))[:, None]  # [R, 1, size - 1]
    repeated = (seen[:, :, :-1] == latest).all(-1) & (ends <= positions[:, None])
    # PAD is always banned, so it can stand for "nothing to ban".
    log_probs.scatter_(1, torch.where(repeated, seen[:, :, -1], PAD_ID), _NEVER)
