"""Greedy search with cached keys and values."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from nmt.data.tokenizer import BOS_ID, EOS_ID, PAD_ID
from nmt.decoding.hypothesis import Hypothesis
from nmt.model.transformer import Transformer


@torch.inference_mode()
def greedy_search(
    model: Transformer, src: Tensor, max_lens: Sequence[int], never_generated: Sequence[int] = ()
) -> list[Hypothesis]:
    """The most probable next piece, again and again, until eos or `max_lens` pieces (eos counted; one limit a row).

    src [B, S], right-padded. `never_generated` ids are never chosen; probabilities are over the others. Rows that have
    ended leave the batch once they are a quarter of it.
    """
    device = src.device
    longest = max(max_lens)
    cache = model.start_cache(model.encode(src), max_len=longest)
    banned = torch.tensor([*never_generated], dtype=torch.int64, device=device)
    limits = torch.tensor(max_lens, device=device)
    chosen_ids = torch.full((len(src), longest), PAD_ID, dtype=torch.int64, device=device)
    scores = torch.zeros(len(src), device=device)
    rows = torch.arange(len(src), device=device)  # which sentence each row of the cache is
    running = torch.ones(len(src), dtype=torch.bool, device=device)
    last = torch.full((len(src), 1), BOS_ID, dtype=torch.int64, device=device)
    for step in range(longest):
        logits = model.decode(last, cache)[:, 0].float()  # [rows, V]
        logits.index_fill_(1, banned, float("-inf"))
        best, ids = logits.max(-1)
        chosen_ids[rows, step] = torch.where(running, ids, PAD_ID)
        scores[rows] += torch.where(running, best - logits.logsumexp(-1), 0.0)
        running = running & (ids != EOS_ID) & (limits > step + 1)
        num_running = int(running.sum())
        if num_running == 0:
            break
        last = ids[:, None]
        if num_running <= 0.75 * len(rows):
            kept = running.nonzero().squeeze(1)
            cache.select_rows(kept)
            rows, last, limits, running = rows[kept], last[kept], limits[kept], running[kept]
    return [_finish(ids, score) for ids, score in zip(chosen_ids.tolist(), scores.tolist(), strict=True)]


def _finish(ids: list[int], score: float) -> Hypothesis:
    finished = EOS_ID in ids
    end = ids.index(EOS_ID if finished else PAD_ID) if finished or PAD_ID in ids else len(ids)
    return Hypothesis(ids[:end], score, finished)
