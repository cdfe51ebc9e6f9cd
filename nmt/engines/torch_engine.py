"""Piece ids to hypotheses with torch."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from nmt.checkpoint import load_model
from nmt.config.sections import DecodingConfig
from nmt.data.batching import collate_sources
from nmt.data.tokenizer import BOS_ID, TokenizerPair
from nmt.decoding.greedy import greedy_search
from nmt.decoding.hypothesis import Hypothesis
from nmt.device import choose_device
from nmt.model.transformer import Transformer
from nmt.rundir import RunDir


class TorchEngine:
    """Translates one batch of piece ids at a time."""

    def __init__(self, model: Transformer, tokenizers: TokenizerPair, config: DecodingConfig):
        self.model = model
        self.config = config
        self.never_generated = tokenizers.tgt.never_generated

    @classmethod
    def load(cls, run: RunDir, tokenizers: TokenizerPair, device: str = "auto") -> TorchEngine:
        """The best model of `run`."""
        return cls(load_model(run, tokenizers, choose_device(device)), tokenizers, run.config().decoding)

    def search(self, sources: Sequence[Sequence[int]]) -> list[Hypothesis]:
        """Translate source pieces (without specials), one hypothesis each, in their order."""
        limits = self.model.config
        src = collate_sources(sources, limits.max_src_len).to(self.model.device)
        lengths = [min(len(ids) + 1, limits.max_src_len) for ids in sources]
        max_lens = [int(self.config.max_len_factor * length) + self.config.max_len_offset for length in lengths]
        return greedy_search(self.model, src, [min(n, limits.max_tgt_len) for n in max_lens], self.never_generated)

    @torch.inference_mode()
    def cross_attention(self, source: Sequence[int], target: Sequence[int]) -> list[list[float]]:
        """Weights [T][S] of the last decoder layer, mean over heads, as each id of `target` was chosen.

        `target` holds eos where the output ended of itself; S counts the source's eos.
        """
        src = collate_sources([source], self.model.config.max_src_len).to(self.model.device)
        tgt_in = torch.tensor([[BOS_ID, *target[:-1]]], device=self.model.device)
        cache = self.model.start_cache(self.model.encode(src), keep_attention=True)
        self.model.decode_states(tgt_in, cache)
        weights = cache.attention[-1] if cache.attention else None
        assert weights is not None
        return weights[0].float().mean(0).tolist()
