"""Texts to translations: encode, sort, batch, search, restore the order, decode."""

from __future__ import annotations

import os
import warnings
from collections.abc import Container, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, Protocol

from nmt.data.tokenizer import TokenizerPair
from nmt.decoding.hypothesis import Hypothesis
from nmt.decoding.options import SearchOptions
from nmt.errors import NmtError
from nmt.exportdir import ExportDir, find_model
from nmt.rundir import RunDir

MAX_BATCH_SENTENCES = 256
MIN_SHARE = 16  # sentences; fewer are not shared out among workers


class Engine(Protocol):
    """One runtime for a model. What it cannot serve it refuses with an NmtError: "… does not support …"."""

    num_threads: int  # searches that may run at once, each in a thread of its own

    @property
    def precision(self) -> str:
        """What it computes in, such as fp32."""
        ...

    def search(
        self,
        sources: Sequence[Sequence[int]],
        options: SearchOptions,
        prefixes: Sequence[Sequence[int]] | None = None,
    ) -> list[list[Hypothesis]]:
        """Source tokens (without specials) in; up to `num_hypotheses` out for each, best first, in the same order.

        The outputs of source i begin with the tokens of `prefixes[i]`.
        """
        ...

    def score(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[list[float]]:
        """Natural-log probabilities of each token of each target and of the eos after it.

        A target longer than the model's limit is cut there: it gets as many numbers as the limit, none for eos.
        """
        ...

    def cross_attention(
        self, source: Sequence[int], target: Sequence[int], layer: int = -1, head: int | None = None
    ) -> list[list[float]]:
        """Attention weights [T][S]: for each id of `target` as it was chosen, over the source tokens and eos.

        Of decoder layer `layer` (negative: from the last) and one head, or the mean over heads.
        """
        ...


class Translation(NamedTuple):
    """One translated text."""

    text: str
    score: float  # sum of natural-log probabilities of the tokens, eos included
    src_ids: list[int]  # source tokens as translated, after truncation
    tgt_ids: list[int]
    truncated: bool  # the source was longer than the model's limit and lost its end
    finished: bool  # the output ended of itself
    # The summands of `score`, that of eos last where it is finished; nobody writes into it.
    token_scores: list[float] = []  # noqa: RUF012


class ForcedScore(NamedTuple):
    """How probable the model finds a given translation."""

    score: float  # sum of natural-log probabilities of the tokens, eos included
    tgt_ids: list[int]
    token_scores: list[float]  # the summands of `score`, that of eos last
    truncated: bool  # a side was longer than the model's limit; what was cut off is not in the score


class Translator:
    """Translates texts with one model.

    >>> from nmt import Translator
    >>> Translator.load("runs/demo-en-zh").translate(["I am from China"])  # doctest: +SKIP
    ['我来自中国。']
    """

    def __init__(
        self,
        tokenizers: TokenizerPair,
        engine: Engine,
        *,
        max_src_len: int,
        batch_tokens: int,
        options: SearchOptions | None = None,
    ):
        """`max_src_len` in tokens, eos included; `batch_tokens` source tokens are searched together."""
        self.tokenizers = tokenizers
        self.engine = engine
        self.max_src_len = max_src_len
        self.batch_tokens = batch_tokens
        self.options = options or SearchOptions()
        self._pool: tuple[tuple[int, int], ThreadPoolExecutor] | None = None  # and the process and size it was made for

    @classmethod
    def load(
        cls,
        model: str | Path | RunDir | ExportDir | Sequence[RunDir] | None = None,
        device: str = "auto",
        options: SearchOptions | None = None,
        *,
        token_scores: bool = False,
        precision: str = "fp32",
    ) -> Translator:
        """The best model of a run, or the one of a folder that `nmt export` made.

        Without a name, that of $NMT_MODEL or the run under ./runs trained last. Several runs are an ensemble: they need
        the same tokenizer, else NmtError. `options` are those of the (first) run's `decoding` section where none are
        given. `token_scores` asks for them, and for scores that mean the same, where they cost time: of an export.
        `precision` is what a run's model computes in: fp32, bf16, int8 (on a CPU), or auto, which is bf16 where that is
        faster; an export has its own.
        """
        if model is None or isinstance(model, str | Path):
            model = find_model(None if model is None else str(model))
        if isinstance(model, ExportDir):
            if precision not in ("auto", "fp32"):
                hint = "export the run again with --quantization"
                raise NmtError("an export computes in the precision it was made with", path=model.path, hint=hint)
            return cls._load_export(model, device, options, token_scores)
        from nmt.engines.torch_engine import TorchEngine

        runs = [model] if isinstance(model, RunDir) else list(model)
        tokenizers = _shared_tokenizers(runs)
        decoding = runs[0].config().decoding
        return cls(
            tokenizers,
            TorchEngine.load(runs, tokenizers, device, precision),
            max_src_len=min(run.config().model.max_src_len for run in runs),
            batch_tokens=decoding.batch_tokens,
            options=options or SearchOptions.from_config(decoding),
        )

    @classmethod
    def _load_export(
        cls, export: ExportDir, device: str, options: SearchOptions | None, token_scores: bool
    ) -> Translator:
        from nmt.engines.ctranslate2_engine import CTranslate2Engine

        info = export.info()
        export.check_files(info)
        tokenizers = TokenizerPair.load(export.tokenizer)
        return cls(
            tokenizers,
            CTranslate2Engine(export, info, tokenizers, device, token_scores=token_scores),
            max_src_len=info.max_src_len,
            batch_tokens=info.decoding.batch_tokens,
            options=options or SearchOptions.from_config(info.decoding),
        )

    def translate(self, texts: Sequence[str]) -> list[str]:
        """One translation a text, in order; a blank text gives a blank one.

        A text longer than the model's limit is cut, with a UserWarning.
        """
        translations = self.translate_fully(texts)
        for number, translation in enumerate(translations, 1):
            if translation.truncated:
                limit = f"text {number} is longer than {self.max_src_len} tokens; its end is not translated"
                warnings.warn(limit, stacklevel=2)
        return [translation.text for translation in translations]

    def translate_fully(self, texts: Sequence[str], prefixes: Sequence[str] | None = None) -> list[Translation]:
        """As `translate`, with scores, tokens and flags; a text that was cut is flagged, not warned of."""
        return [found[0] for found in self.translate_nbest(texts, prefixes)]

    def translate_nbest(self, texts: Sequence[str], prefixes: Sequence[str] | None = None) -> list[list[Translation]]:
        """`options.num_hypotheses` translations a text, best first (fewer where the search found fewer).

        The translation of text i begins with `prefixes[i]`. A blank text has one translation, which is blank.
        """
        ids = [self.tokenizers.src.encode(text) if text.strip() else [] for text in texts]
        forced = None if prefixes is None else [self.tokenizers.tgt.encode(prefix) for prefix in prefixes]
        done = {i: [Translation("", 0.0, [], [], False, True)] for i, row in enumerate(ids) if not row}
        batches = list(self._batches([len(row) for row in ids], skip=done))
        kept = [[ids[i][: self.max_src_len - 1] for i in batch] for batch in batches]
        prefix_ids = [None if forced is None else [forced[i] for i in batch] for batch in batches]
        for batch, sources, found in zip(batches, kept, self._search(kept, prefix_ids), strict=True):
            for i, source, hypotheses in zip(batch, sources, found, strict=True):
                cut = len(ids[i]) > len(source)
                done[i] = [self._finish(source, hypothesis, truncated=cut) for hypothesis in hypotheses]
        return [done[i] for i in range(len(texts))]

    def _search(
        self, batches: list[list[list[int]]], prefixes: list[list[list[int]] | None]
    ) -> list[list[list[Hypothesis]]]:
        """What the engine finds for each batch, in order; as many at once as it has workers."""
        options = [self.options] * len(batches)
        if self.engine.num_threads == 1:
            return [self.engine.search(*job) for job in zip(batches, options, prefixes, strict=True)]
        return list(self._threads().map(self.engine.search, batches, options, prefixes))

    def _threads(self) -> ThreadPoolExecutor:
        """Threads that stay, as new ones would set up their memory anew for every call; a forked process has none."""
        wanted = (os.getpid(), self.engine.num_threads)
        if self._pool is None or self._pool[0] != wanted:
            self._pool = wanted, ThreadPoolExecutor(self.engine.num_threads)
        return self._pool[1]

    def score(self, sources: Sequence[str], targets: Sequence[str]) -> list[ForcedScore]:
        """How probable each of `targets` is as the translation of the source beside it, in order."""
        src_ids = [self.tokenizers.src.encode(text) for text in sources]
        tgt_ids = [self.tokenizers.tgt.encode(text) for text in targets]
        done: dict[int, ForcedScore] = {}
        longest = [max(len(src), len(tgt)) for src, tgt in zip(src_ids, tgt_ids, strict=True)]
        for batch in self._batches(longest):
            kept = [src_ids[i][: self.max_src_len - 1] for i in batch]
            scores = self.engine.score(kept, [tgt_ids[i] for i in batch])
            for i, source, token_scores in zip(batch, kept, scores, strict=True):
                cut = len(src_ids[i]) > len(source) or len(tgt_ids[i]) >= len(token_scores)
                done[i] = ForcedScore(sum(token_scores), tgt_ids[i], token_scores, cut)
        return [done[i] for i in range(len(sources))]

    def _batches(self, lengths: list[int], skip: Container[int] = ()) -> Iterator[list[int]]:
        """Indices of texts of `lengths` tokens (those in `skip` left out), like lengths together, longest first."""
        batch: list[int] = []
        indices = sorted((i for i in range(len(lengths)) if i not in skip), key=lambda i: -lengths[i])
        most = min(MAX_BATCH_SENTENCES, max(MIN_SHARE, -(-len(indices) // self.engine.num_threads)))
        for i in indices:
            longest = min(lengths[batch[0] if batch else i] + 1, self.max_src_len)
            if batch and ((len(batch) + 1) * longest > self.batch_tokens or len(batch) == most):
                yield batch
                batch = []
            batch.append(i)
        if batch:
            yield batch

    def _finish(self, source: list[int], hypothesis: Hypothesis, truncated: bool) -> Translation:
        text = self.tokenizers.tgt.decode(hypothesis.ids)
        ids, score, finished, token_scores = hypothesis
        return Translation(text, score, source, ids, truncated, finished, token_scores)


def _shared_tokenizers(runs: Sequence[RunDir]) -> TokenizerPair:
    """The tokenizers of `runs`; NmtError unless all have the same."""
    first, *others = [TokenizerPair.load(run.tokenizer) for run in runs]
    for run, other in zip(runs[1:], others, strict=True):
        if (other.src.fingerprint, other.tgt.fingerprint) != (first.src.fingerprint, first.tgt.fingerprint):
            raise NmtError(
                f"this run and {runs[0].path} have different tokenizers, so they cannot translate together",
                path=run.path,
                hint="train the runs of an ensemble with one tokenizer: tokenizer.path names it",
            )
    return first
