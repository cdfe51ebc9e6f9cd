"""Search and score with CTranslate2, to prove that an export translates like its run."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nmt.base.machine import num_cores
from nmt.base.special_tokens import EOS_ID
from nmt.config import SearchOptions
from nmt.data.tokens.tokenizer import TokenizerPair
from nmt.decoding.engines.interface import Ids, Terms
from nmt.decoding.engines.torch_engine import TorchEngine
from nmt.decoding.hypothesis import Hypothesis, output_limits
from nmt.model.transformer import Transformer

if TYPE_CHECKING:
    import ctranslate2

_MAX_BATCH_SENTENCES = 64


class CTranslate2Engine(TorchEngine):
    """The engine of the exported model, but for searches and scores, which CTranslate2 computes on the CPU.

    Without n-best lists, scores per token, and what CTranslate2 lacks or does differently: sampling,
    shortlists, and a beam that goes on until no running hypothesis can win.
    """

    def __init__(self, folder: Path, model: Transformer, tokenizers: TokenizerPair):
        import ctranslate2

        super().__init__([model], tokenizers, num_threads=1)  # CTranslate2 itself distributes a search over the cores
        ctranslate2.set_log_level(logging.ERROR)  # it would warn about an unsupported precision
        # One thread per worker: threads that share a small matrix product wait for each other.
        self._translator = ctranslate2.Translator(str(folder), "cpu", inter_threads=num_cores(), intra_threads=1)
        self._src_tokens = tokenizers.src.vocabulary
        self._tgt_tokens = tokenizers.tgt.vocabulary
        self._tgt_ids = {token: i for i, token in enumerate(self._tgt_tokens)}

    @property
    def precision(self) -> str:
        """The precision that CTranslate2 computes in on this machine; on most CPUs, float16 weights become float32."""
        return str(self._translator.compute_type)

    def search(
        self,
        sources: Sequence[Ids],
        options: SearchOptions,
        prefixes: Sequence[Ids] | None = None,
        draws: Sequence[int] | None = None,
        drafts: Sequence[Ids] | None = None,
        terms: Terms | None = None,
    ) -> list[list[Hypothesis]]:
        """Implement `Engine.search` for one hypothesis. Scores are normalized over the tokens that may come next."""
        src = [self._source(ids) for ids in sources]
        prefixes = prefixes or [()] * len(src)
        forced = [self._target(ids) for ids in prefixes]
        limits = output_limits(sources, options, prefixes, self.max_src_len, self.max_tgt_len, self.num_tags)
        waiting: dict[int, ctranslate2.AsyncTranslationResult] = {}
        # In beam search, a limit beyond that of a sentence may change its output: one call for each limit.
        for limit in set(limits):
            rows = [row for row, its_limit in enumerate(limits) if its_limit == limit]
            results = self._translator.translate_batch(
                [src[row] for row in rows],
                [forced[row] for row in rows] if any(forced) else None,
                max_batch_size=_MAX_BATCH_SENTENCES,
                asynchronous=True,
                beam_size=options.beam_size,
                length_penalty=options.length_penalty if options.beam_size > 1 else 0.0,
                no_repeat_ngram_size=options.no_repeat_ngram,
                max_input_length=0,
                max_decoding_length=limit,
                min_decoding_length=min(options.min_len + (self.num_tags if any(forced) else 0), limit),
                return_scores=True,
                return_end_token=True,
                suppress_sequences=[[self._tgt_tokens[i]] for i in self.never_generated],
            )
            waiting |= zip(rows, results, strict=True)
        return [[self._hypothesis(waiting[row].result(), options)] for row in range(len(src))]

    def score(self, sources: Sequence[Ids], targets: Sequence[Ids]) -> list[list[float]]:
        """Implement `Engine.score`."""
        # CTranslate2 adds eos; its score is dropped if eos would exceed the limit.
        results = self._translator.score_batch(
            [self._source(ids) for ids in sources],
            [self._target(ids[: self.max_tgt_len]) for ids in targets],
            max_batch_size=_MAX_BATCH_SENTENCES,
            max_input_length=0,
        )
        return [list(result.log_probs[: self.max_tgt_len]) for result in results]

    def _source(self, ids: Sequence[int]) -> list[str]:
        return [self._src_tokens[i] for i in ids[: self.max_src_len - 1]]

    def _target(self, ids: Sequence[int]) -> list[str]:
        return [self._tgt_tokens[i] for i in ids]

    def _hypothesis(self, result: ctranslate2.TranslationResult, options: SearchOptions) -> Hypothesis:
        ids = [self._tgt_ids[token] for token in result.hypotheses[0]]
        # In beam search, CTranslate2 divides scores by length^penalty, eos counted; ours are sums.
        score = result.scores[0] * (len(ids) ** options.length_penalty if options.beam_size > 1 else 1)
        finished = ids[-1:] == [EOS_ID]
        return Hypothesis(ids[:-1] if finished else ids, score, finished)
