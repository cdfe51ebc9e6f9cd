"""What an output may not hold, and what it must begin with."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from nmt.config import SearchOptions
from nmt.special_tokens import EOS_ID, PAD_ID

_NEVER = float("-inf")


class Constraints:
    """Takes the probability of what may not come next; the others keep theirs, which are not scaled up to one.

    So the score of an output is what the model thinks of it, however it was searched for.
    """

    def __init__(
        self,
        options: SearchOptions,
        never_generated: Sequence[int],
        prefixes: Sequence[Sequence[int]],
        num_rows: int,
        device: torch.device,
    ):
        """`never_generated` ids come in a prefix only. `prefixes`: one a row for the first rows; others have none."""
        self.banned = torch.tensor([*never_generated], dtype=torch.int64, device=device)
        self.min_len = options.min_len
        self.no_repeat_ngram = options.no_repeat_ngram
        longest = max(map(len, prefixes), default=0)
        rows = [[*prefix, *[PAD_ID] * (longest - len(prefix))] for prefix in prefixes]
        self.prefixes = torch.full((num_rows, longest), PAD_ID, device=device)
        if longest:
            self.prefixes[: len(rows)] = torch.tensor(rows, device=device)

    def apply(self, log_probs: Tensor, step: int, ids: Tensor) -> None:
        """Write into log_probs [R, V], those of the token after the first `step` of ids [R, at least `step`]."""
        forced = log_probs.gather(1, self.prefixes[:, step, None]) if step < self.prefixes.size(1) else None
        eos = log_probs[:, EOS_ID].clone() if step < self.min_len else None
        log_probs.index_fill_(1, self.banned, _NEVER)
        if eos is not None:
            log_probs[:, EOS_ID] = _NEVER
        if 0 < self.no_repeat_ngram <= step + 1:
            _ban_repeats(log_probs, ids[:, :step], self.no_repeat_ngram)
            if eos is not None:  # too short, but nothing else may come
                stuck = log_probs.amax(1) == _NEVER
                log_probs[:, EOS_ID] = torch.where(stuck, eos, _NEVER)
        if forced is not None:
            tokens = self.prefixes[:, step, None]
            inside = tokens != PAD_ID
            log_probs.masked_fill_(inside, _NEVER)
            log_probs.scatter_(1, tokens, torch.where(inside, forced, _NEVER))

    def select_rows(self, rows: Tensor) -> None:
        """Go on with `rows` only."""
        if self.prefixes.size(1):
            self.prefixes = self.prefixes[rows]


def _ban_repeats(log_probs: Tensor, ids: Tensor, size: int) -> None:
    """Ban every token that would end an n-gram of `size` which ids [R, T] hold already (Paulus et al. 2018, 2.5)."""
    num_ids = ids.size(1)
    if num_ids < size:
        return
    seen = ids.unfold(1, size, 1)  # [R, T - size + 1, size]
    latest = ids[:, None, num_ids - size + 1 :]  # [R, 1, size - 1]
    repeated = (seen[:, :, :-1] == latest).all(-1)
    # PAD may never come anyway: it stands for nothing to ban.
    log_probs.scatter_(1, torch.where(repeated, seen[:, :, -1], PAD_ID), _NEVER)
