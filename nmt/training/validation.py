"""Scores of a model on the validation set: loss, perplexity, BLEU and chrF."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import torch

from nmt.artifacts.run_records import MAX_DIFFERENCE
from nmt.artifacts.rundir import DirectedPairs
from nmt.base.errors import RunError
from nmt.config import Config
from nmt.data.store.batching import Batch, collate, fill_batches
from nmt.data.text.tags import language_prefix, target_prefix
from nmt.data.text.text_statistics import TextStatistics
from nmt.data.tokens.tokenizer import TokenizerPair
from nmt.decoding.engines import native_engine
from nmt.decoding.engines.interface import Engine
from nmt.decoding.engines.native_engine import Array, NativeEngine, arrays_in_order
from nmt.decoding.engines.torch_engine import TorchEngine
from nmt.evaluation import score_sets
from nmt.evaluation.significance import Scorer, System
from nmt.model.kernels.chunked_loss import projected_token_loss, with_bias
from nmt.model.transformer import Transformer
from nmt.training.update.distributed import ProcessGroup
from nmt.translation import LanguagePair, Translation, Translator

_LOSS_TOKENS = 4096  # batch size for computing the loss if training chooses its batches by memory
_COMPARED_PAIRS = 32  # of each direction, to compare two engines: other formulas show in any pair


class ValidationResult(NamedTuple):
    """Scores on the validation set: `loss` in nats per token, without label smoothing; perplexity is exp(loss).

    BLEU and chrF are means over the directions.
    """

    loss: float
    perplexity: float
    bleu: float
    chrf: float
    signatures: dict[str, str]  # sacreBLEU signatures of bleu, chrf, bleu.de-en and so on
    directions: dict[str, dict[str, float]]  # if several: loss, bleu and chrf of each direction, such as de-en

    def values(self) -> dict[str, float]:
        """Return the scores by name, without signatures; the scores of a direction as bleu.de-en."""
        values = {"loss": self.loss, "perplexity": self.perplexity, "bleu": self.bleu, "chrf": self.chrf}
        for direction, scores in self.directions.items():
            values |= {f"{metric}.{direction}": value for metric, value in scores.items()}
        return values


def is_untrained(config: Config) -> bool:
    """Return whether the network gets a single update, so that it is not worth the time to judge it.

    `nmt train --engine phrase` asks for that.
    """
    return config.training.max_updates == 1 and not config.training.init_from


def nothing(pairs: DirectedPairs) -> list[str]:
    """Return an empty translation of each sentence."""
    return [""] * len(pairs.sources)


def translate_sets(translator: Translator, sets: Sequence[DirectedPairs]) -> list[list[Translation]]:
    """Return the translations of the sources of each set, in its direction."""
    return [translator.translate(sources, to=direction.tgt, from_=direction.src) for direction, sources, _ in sets]


@dataclass
class Validator:
    """Scores models on a validation set; for BLEU and chrF, it translates like `nmt eval`, by greedy search.

    Each rank of `group` scores its share, and all get the same result. `statistics` are those of the training text, as
    `Translator` takes them. Placeholders count as copied, whatever an earlier end of this training has measured.
    """

    sets: Sequence[DirectedPairs]
    tokenizers: TokenizerPair
    config: Config
    group: ProcessGroup = field(default_factory=ProcessGroup)
    statistics: TextStatistics | None = None

    def __call__(self, model: Transformer) -> ValidationResult:
        """Score `model`; its mode (training or evaluation) is restored."""
        was_training = model.training
        model.eval()
        untrained = is_untrained(self.config)
        losses = [self._loss(model, pairs, _COMPARED_PAIRS if untrained else None) for pairs in self.sets]
        loss = sum(loss_sum for loss_sum, _ in losses) / sum(num_tokens for _, num_tokens in losses)
        with self._translator(
            TorchEngine([model], self.tokenizers) if untrained else self._engine(model)
        ) as translator:
            translate = nothing if untrained else partial(self._translate, translator)
            (bleu, chrf), others = score_sets(self.sets, translate, ("bleu", "chrf"))
        model.train(was_training)
        signatures = {"bleu": bleu.signature, "chrf": chrf.signature}
        directions = {}
        pairs = zip(losses, others.items(), strict=bool(others))
        for (loss_sum, num_tokens), (direction, (own_bleu, own_chrf)) in pairs:
            directions[direction] = {"loss": loss_sum / num_tokens, "bleu": own_bleu.value, "chrf": own_chrf.value}
            signatures[f"bleu.{direction}"] = own_bleu.signature
            signatures[f"chrf.{direction}"] = own_chrf.signature
        perplexity = math.exp(min(loss, 700.0))  # beyond 709, a float overflows
        return ValidationResult(loss, perplexity, bleu.value, chrf.value, signatures, directions)

    def _engine(self, model: Transformer) -> Engine:
        """Return an engine for `model`: on a CPU the native one, which is faster, if it computes the same."""
        config = model.config
        by_torch = TorchEngine([model], self.tokenizers)
        if model.device.type != "cpu" or native_engine.unsupported(config) or not native_engine.is_available():
            return by_torch
        arrays = {
            name: Array(tuple(weight.shape), "F32", weight.detach().contiguous().numpy().data.cast("B"))
            for name, weight in model.named_parameters()
        }
        ordered = arrays_in_order(config, self.tokenizers, arrays, Path("weights"))
        try:
            native = NativeEngine(config, ordered, self.tokenizers, "fp32", num_threads=by_torch.num_threads)
        except RunError:  # not enough memory for a second copy of the weights
            return by_torch
        if self.difference(native, by_torch) <= MAX_DIFFERENCE:
            return native
        native.close()
        return by_torch

    def difference(self, one: Engine, other: Engine) -> float:
        """Return the largest difference between two engines in the log-probability of a validation token.

        The native engine has formulas of its own, in C: it does not know of a change of those in `nmt.model`.
        """
        largest = 0.0
        for pairs in self.sets:
            sources, targets = self.encode(pairs, _COMPARED_PAIRS)
            sources = [ids[: one.max_src_len - 1] for ids in sources]
            scores = [chain.from_iterable(engine.score(sources, targets)) for engine in (one, other)]
            largest = max([largest, *(abs(left - right) for left, right in zip(*scores, strict=True))])
        return largest

    def _translate(self, translator: Translator, pairs: DirectedPairs) -> list[str]:
        """Return the translations of a set, of which each rank computes its share."""
        rank = self.group.rank
        count = self.group.world_size
        src, tgt = pairs.direction
        translations = translator.translate(pairs.sources[rank::count], to=tgt, from_=src)
        texts = [""] * len(pairs.sources)
        for start, share in enumerate(self.group.gather([translation.text for translation in translations])):
            texts[start::count] = share
        return texts

    def translate(self, engine: Engine) -> tuple[list[float], list[list[Translation]]]:
        """Translate all sets with `engine`, in this rank alone; close the engine.

        Return the means of BLEU and of chrF over the sets, and the translations.
        """
        with self._translator(engine) as translator:
            translated = translate_sets(translator, self.sets)
        systems = [self.measure(number, [each.text for each in of_set]) for number, of_set in enumerate(translated)]
        scores = zip(*([each.score() for each in system.measured] for system in systems), strict=True)
        return [sum(of_metric) / len(systems) for of_metric in scores], translated

    def measure(self, number: int, texts: Sequence[str]) -> System:
        """Return the BLEU and chrF of translations of set `number`; those of the same texts are computed once."""
        return self._measure(number, tuple(texts))

    @cached_property
    def _measure(self) -> Callable[[int, tuple[str, ...]], System]:
        scorers = [Scorer([pairs.references], pairs.direction.tgt, ("bleu", "chrf")) for pairs in self.sets]
        return cache(lambda number, texts: scorers[number].measure("", texts))

    def _translator(self, engine: Engine) -> Translator:
        options = self.config.decoding.greedy().changed(shortlist=False)
        statistics = self.statistics and self.statistics.model_copy(update={"placeholders_copied": None})
        return Translator(self.tokenizers, engine, LanguagePair.from_config(self.config), options, statistics)

    @torch.inference_mode()
    def _loss(self, model: Transformer, pairs: DirectedPairs, count: int | None) -> tuple[float, int]:
        """Return the summed loss on the first `count` pairs (None: all), and their number of real target tokens."""
        loss_sum = 0.0
        num_tokens = 0
        for batch in self._batches(pairs, count)[self.group.rank :: self.group.world_size]:
            on_device = batch.to(model.device)
            states = model.decode_states(on_device.tgt_in, model.start_cache(model.encode(on_device.src)))
            loss = projected_token_loss(*with_bias(states, model.output_proj), on_device.tgt_out, on_device.tgt_real)
            loss_sum += float(loss)
            num_tokens += batch.num_tgt_tokens
        shares = self.group.gather((loss_sum, num_tokens))
        return sum(share[0] for share in shares), sum(share[1] for share in shares)

    def encode(self, pairs: DirectedPairs, count: int | None = None) -> tuple[list[list[int]], list[list[int]]]:
        """Return the tokens of both sides of the first `count` pairs (None: all), with the tags of their languages."""
        tag = language_prefix(self.config, pairs.direction)
        tgt_tag = target_prefix(self.config, pairs.direction)
        sources = self.tokenizers.src.encode_batch(tag + text for text in pairs.sources[:count])
        return sources, self.tokenizers.tgt.encode_batch(tgt_tag + text for text in pairs.references[:count])

    def _batches(self, pairs: DirectedPairs, count: int | None) -> list[Batch]:
        sources, targets = self.encode(pairs, count)
        longest = torch.tensor([max(len(s), len(t)) + 1 for s, t in zip(sources, targets, strict=True)])
        order = longest.argsort(stable=True)
        budget = self.config.training.batch_tokens
        limits = self.config.model.max_src_len, self.config.model.max_tgt_len
        batches = []
        for run in fill_batches(longest[order].numpy(), _LOSS_TOKENS if budget == "auto" else budget):
            rows = [int(order[i]) for i in run]
            batches.append(collate([sources[i] for i in rows], [targets[i] for i in rows], *limits))
        return batches
