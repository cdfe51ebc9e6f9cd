"""Texts to translations: encode, sort, batch, search, restore the order, decode."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from nmt.data.tokenizer import TokenizerPair
from nmt.decoding.hypothesis import Hypothesis
from nmt.rundir import RunDir, find_run

MAX_BATCH_SENTENCES = 256


class Engine(Protocol):
    """One runtime for a model."""

    def search(self, sources: Sequence[Sequence[int]]) -> list[Hypothesis]:
        """Source pieces (without specials) in, a hypothesis each out, in the same order."""
        ...

    def cross_attention(self, source: Sequence[int], target: Sequence[int]) -> list[list[float]]:
        """Attention weights [T][S]: for each id of `target` as it was chosen, over the source pieces and eos."""
        ...


class Translation(NamedTuple):
    """One translated text."""

    text: str
    score: float  # sum of natural-log probabilities of the pieces, eos included
    src_ids: list[int]  # source pieces as translated, after truncation
    tgt_ids: list[int]
    truncated: bool  # the source was longer than the model's limit and lost its end
    finished: bool  # the output ended of itself


class Translator:
    """Translates texts with one model.

    >>> from nmt import Translator
    >>> Translator.load("runs/demo-en-zh").translate(["I am from China"])  # doctest: +SKIP
    ['我来自中国。']
    """

    def __init__(self, tokenizers: TokenizerPair, engine: Engine, *, max_src_len: int, batch_tokens: int):
        """`max_src_len` in pieces, eos included; `batch_tokens` source pieces are searched together."""
        self.tokenizers = tokenizers
        self.engine = engine
        self.max_src_len = max_src_len
        self.batch_tokens = batch_tokens

    @classmethod
    def load(cls, run: str | Path | RunDir | None = None, device: str = "auto") -> Translator:
        """The best model of a run; without a name, that of $NMT_MODEL or the run under ./runs trained last."""
        from nmt.engines.torch_engine import TorchEngine

        found = run if isinstance(run, RunDir) else find_run(None if run is None else str(run))
        config = found.config()
        tokenizers = TokenizerPair.load(found.tokenizer)
        engine = TorchEngine.load(found, tokenizers, device)
        return cls(tokenizers, engine, max_src_len=config.model.max_src_len, batch_tokens=config.decoding.batch_tokens)

    def translate(self, texts: Sequence[str]) -> list[str]:
        """One translation a text, in order; a blank text gives a blank one.

        A text longer than the model's limit is cut, with a UserWarning.
        """
        translations = self.translate_fully(texts)
        for number, translation in enumerate(translations, 1):
            if translation.truncated:
                limit = f"text {number} is longer than {self.max_src_len} pieces; its end is not translated"
                warnings.warn(limit, stacklevel=2)
        return [translation.text for translation in translations]

    def translate_fully(self, texts: Sequence[str]) -> list[Translation]:
        """As `translate`, with scores, pieces and flags; a text that was cut is flagged, not warned of."""
        ids = [self.tokenizers.src.encode(text) if text.strip() else [] for text in texts]
        done: dict[int, Translation] = {
            i: Translation("", 0.0, [], [], False, True) for i, row in enumerate(ids) if not row
        }
        for batch in self._batches(ids):
            kept = [ids[i][: self.max_src_len - 1] for i in batch]
            for i, source, hypothesis in zip(batch, kept, self.engine.search(kept), strict=True):
                done[i] = self._finish(source, hypothesis, truncated=len(ids[i]) > len(source))
        return [done[i] for i in range(len(texts))]

    def _batches(self, ids: list[list[int]]) -> list[list[int]]:
        """Indices of the texts that are not blank, like lengths together, longest first."""
        batches: list[list[int]] = []
        longest = 0
        for i in sorted((i for i, row in enumerate(ids) if row), key=lambda i: -len(ids[i])):
            full = bool(batches) and (len(batches[-1]) + 1) * longest > self.batch_tokens
            if not batches or full or len(batches[-1]) == MAX_BATCH_SENTENCES:
                batches.append([])
                longest = min(len(ids[i]) + 1, self.max_src_len)
            batches[-1].append(i)
        return batches

    def _finish(self, source: list[int], hypothesis: Hypothesis, truncated: bool) -> Translation:
        text = self.tokenizers.tgt.decode(hypothesis.ids)
        return Translation(text, hypothesis.score, source, hypothesis.ids, truncated, hypothesis.finished)
