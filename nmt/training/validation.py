"""Scores of a model on the validation set: loss, perplexity, BLEU and chrF."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch

from nmt.config import Config
from nmt.data.batching import Batch, collate, fill_batches
from nmt.data.tokenizer import TokenizerPair
from nmt.decoding.options import SearchOptions
from nmt.engines.torch_engine import TorchEngine
from nmt.evaluate import score
from nmt.model.loss import projected_token_loss
from nmt.model.transformer import Transformer
from nmt.translate import Translator


class Scores(NamedTuple):
    """`loss` is cross-entropy in nats a token, without label smoothing; perplexity is its exponential."""

    loss: float
    perplexity: float
    bleu: float
    chrf: float
    signatures: dict[str, str]  # sacreBLEU's, of bleu and chrf

    def values(self) -> dict[str, float]:
        """The figures alone."""
        return {"loss": self.loss, "perplexity": self.perplexity, "bleu": self.bleu, "chrf": self.chrf}


class Validator:
    """Scores models on one validation set; greedy translation for BLEU and chrF."""

    def __init__(self, sources: list[str], references: list[str], tokenizers: TokenizerPair, config: Config):
        self.sources = sources
        self.references = references
        self.tokenizers = tokenizers
        self.config = config

    def __call__(self, model: Transformer) -> Scores:
        """Score `model`, which is left in the mode it was in."""
        was_training = model.training
        model.eval()
        loss = self._loss(model)
        decoding = self.config.decoding
        greedy = SearchOptions(max_len_factor=decoding.max_len_factor, max_len_offset=decoding.max_len_offset)
        translator = Translator(
            self.tokenizers,
            TorchEngine([model], self.tokenizers),
            max_src_len=self.config.model.max_src_len,
            batch_tokens=decoding.batch_tokens,
            options=greedy,
        )
        translations = translator.translate_fully(self.sources)
        bleu, chrf = score([t.text for t in translations], self.references, self.config.data.tgt_lang)
        model.train(was_training)
        signatures = {"bleu": bleu.signature, "chrf": chrf.signature}
        return Scores(loss, math.exp(min(loss, 700.0)), bleu.value, chrf.value, signatures)

    @torch.inference_mode()
    def _loss(self, model: Transformer) -> float:
        loss_sum, num_tokens = 0.0, 0
        for batch in self._batches():
            on_device = batch.to(model.device)
            states = model.decode_states(on_device.tgt_in, model.start_cache(model.encode(on_device.src)))
            loss, count = projected_token_loss(states, model.output_proj.weight, on_device.tgt_out)
            loss_sum += float(loss)
            num_tokens += int(count)
        return loss_sum / num_tokens

    def _batches(self) -> list[Batch]:
        sources = self.tokenizers.src.encode_batch(self.sources)
        targets = self.tokenizers.tgt.encode_batch(self.references)
        longest = torch.tensor([max(len(s), len(t)) + 1 for s, t in zip(sources, targets, strict=True)])
        order = longest.argsort(stable=True)
        runs = fill_batches(longest[order].numpy(), self.config.training.batch_tokens)
        limits = self.config.model.max_src_len, self.config.model.max_tgt_len
        chosen = [[int(order[i]) for i in run] for run in runs]
        return [collate([sources[i] for i in rows], [targets[i] for i in rows], *limits) for rows in chosen]
