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
        rows = [[*prefix, *[PAD_ID] * (longest - len(prefix))] for prefix in prefixes]
        self.prefixes = torch.full((num_rows, longest), PAD_ID, device=device)
        if longest:
            self.prefixes[: len(rows)] = torch.tensor(rows, device=device)

    def apply(self, log_probs: Tensor, step: int, ids: Tensor) -> None:
        """Constrain log_probs [R, V] of the token that follows `step` tokens of ids [R, >= step], in place."""
        forced = log_probs.gather(1, self.prefixes[:, step, None]) if step < self.prefixes.size(1) else None
        eos = log_probs[:, EOS_ID].clone() if step < self.min_len else None
        log_probs.index_fill_(1, self.banned, _NEVER)
        if eos is not None:
            log_probs[:, EOS_ID] = _NEVER
        if 0 < self.no_repeat_ngram <= step + 1:
            _ban_repeats(log_probs, ids[:, :step], self.no_repeat_ngram)
            if eos is not None:  # allow eos below the minimum length if every other token is banned
                stuck = log_probs.amax(1) == _NEVER
                log_probs[:, EOS_ID] = torch.where(stuck, eos, _NEVER)
        if forced is not None:
            tokens = self.prefixes[:, step, None]
            inside = tokens != PAD_ID
            if step < self.num_tags:
                forced = torch.zeros_like(forced)
            log_probs.masked_fill_(inside, _NEVER)
            log_probs.scatter_(1, tokens, torch.where(inside, forced, _NEVER))

    def have_prefix(self) -> list[bool]:
        """Return for each row whether a prefix that is more than a tag is required."""
        return (self.prefixes[:, self.num_tags :] != PAD_ID).any(1).tolist()

    def select_rows(self, rows: Tensor) -> None:
        """Continue with only the `rows` [R']."""
        if self.prefixes.size(1):
            self.prefixes = self.prefixes[rows]


def _ban_repeats(log_probs: Tensor, ids: Tensor, size: int) -> None:
    """Ban every token that would repeat an n-gram of `size` in ids [R, T] (Paulus et al. 2018, section 2.5)."""
    num_ids = ids.size(1)
    if num_ids < size:
        return
    seen = ids.unfold(1, size, 1)  # [R, T - size + 1, size]
    latest = ids[:, None, num_ids - size + 1 :]  # [R, 1, size - 1]
    repeated = (seen[:, :, :-1] == latest).all(-1)
    # PAD is always banned, so it can stand for "nothing to ban".
    log_probs.scatter_(1, torch.where(repeated, seen[:, :, -1], PAD_ID), _NEVER)
