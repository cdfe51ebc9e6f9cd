"""Search and score with CTranslate2, to prove that an export translates like its run."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from nmt.base.errors import NmtError
from nmt.base.machine import num_cores
from nmt.base.special_tokens import EOS_ID
from nmt.config import SearchOptions
from nmt.config.model import ModelConfig
from nmt.data.text.tags import output_tags
from nmt.data.tokens.tokenizer import TokenizerPair
from nmt.decoding.engines.interface import Ids, Input, Output, Terms, Weights
from nmt.decoding.hypothesis import Hypothesis

if TYPE_CHECKING:
    import ctranslate2

_MAX_BATCH_SENTENCES = 64


class CTranslate2Engine:
    """Translates batches of token ids with the model in a folder, on the CPU: what the proof of an export needs.

    Without n-best lists, scores per token, and what CTranslate2 lacks or does differently: sampling, exact search and
    shortlists.
    """

    num_threads = 1  # one search at a time, which CTranslate2 itself distributes over the cores
    forms_batches = True
    takes_terms = False

    def __init__(self, folder: Path, config: ModelConfig, tokenizers: TokenizerPair):
        import ctranslate2

        ctranslate2.set_log_level(logging.ERROR)  # it would warn about an unsupported precision
        # One thread per worker: threads that share a small matrix product wait for each other.
        self._model = ctranslate2.Translator(str(folder), "cpu", inter_threads=num_cores(), intra_threads=1)
        self.max_src_len, self._max_tgt_len = config.max_src_len, config.max_tgt_len
        self._src_tokens = tokenizers.src.tokens(range(tokenizers.src.vocab_size))
        self._tgt_tokens = tokenizers.tgt.tokens(range(tokenizers.tgt.vocab_size))
        self._tgt_ids = {token: i for i, token in enumerate(self._tgt_tokens)}
        tags = output_tags(tokenizers.tgt, config.language_tags)
        self._num_tags = tags.length  # tokens at the start of each prefix that are not part of the output
        never = (*tokenizers.tgt.never_generated, *tags.never_generated)
        self._never_generated = [[self._tgt_tokens[i]] for i in never]

    @property
    def precision(self) -> str:
        """The precision that CTranslate2 computes in on this machine; on most CPUs, float16 weights become float32."""
        return str(self._model.compute_type)

    def map(self, function: Callable[[Input], Output], inputs: Sequence[Input]) -> list[Output]:
        """Implement `Engine.map` sequentially, because CTranslate2 distributes each search over its threads."""
        return [function(each) for each in inputs]

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
        forced = [self._target(ids) for ids in prefixes or [()] * len(src)]
        limits = [self._max_output_len(options, len(ids), len(prefix)) for ids, prefix in zip(src, forced, strict=True)]
        waiting: dict[int, ctranslate2.AsyncTranslationResult] = {}
        # In beam search, a limit beyond that of a sentence may change its output: one call for each limit.
        for limit in set(limits):
            rows = [row for row, its_limit in enumerate(limits) if its_limit == limit]
            results = self._model.translate_batch(
                [src[row] for row in rows],
                [forced[row] for row in rows] if any(forced) else None,
                max_batch_size=_MAX_BATCH_SENTENCES,
                asynchronous=True,
                beam_size=options.beam_size,
                length_penalty=options.length_penalty if options.beam_size > 1 else 0.0,
                no_repeat_ngram_size=options.no_repeat_ngram,
                max_input_length=0,
                max_decoding_length=limit,
                min_decoding_length=min(options.min_len + (self._num_tags if any(forced) else 0), limit),
                return_scores=True,
                return_end_token=True,
                suppress_sequences=self._never_generated,
            )
            waiting |= zip(rows, results, strict=True)
        return [[self._hypothesis(waiting[row].result(), options)] for row in range(len(src))]

    def score(self, sources: Sequence[Ids], targets: Sequence[Ids]) -> list[list[float]]:
        """Implement `Engine.score`."""
        # CTranslate2 adds eos; its score is dropped if eos would exceed the limit.
        results = self._model.score_batch(
            [self._source(ids) for ids in sources],
            [self._target(ids[: self._max_tgt_len]) for ids in targets],
            max_batch_size=_MAX_BATCH_SENTENCES,
            max_input_length=0,
        )
        return [list(result.log_probs[: self._max_tgt_len]) for result in results]

    def cross_attention(self, source: Ids, target: Ids, layer: int = -1, head: int | None = None) -> Weights:
        """Raise NmtError: CTranslate2 does not return the attention of a given output."""
        raise NmtError("CTranslate2 does not support the attention of a given output", hint="ask the run for it")

    def attention_weights(self, source: Ids, target: Ids) -> NoReturn:
        """Raise NmtError, as `cross_attention`."""
        raise NmtError("CTranslate2 does not support the attention of a given output", hint="ask the run for it")

    def close(self) -> None:
        """Implement `Engine.close`: nothing, because CTranslate2 stops its threads when the model is deleted."""

    def _max_output_len(self, options: SearchOptions, src_len: int, prefix_len: int) -> int:
        """Return the maximum output length, eos counted; a prefix raises it up to the model's limit."""
        limit = options.max_len(src_len) + min(self._num_tags, prefix_len)
        return min(max(limit, prefix_len + 1), self._max_tgt_len)

    def _source(self, ids: Sequence[int]) -> list[str]:
        return [self._src_tokens[i] for i in (*ids[: self.max_src_len - 1], EOS_ID)]

    def _target(self, ids: Sequence[int]) -> list[str]:
        return [self._tgt_tokens[i] for i in ids]

    def _hypothesis(self, result: ctranslate2.TranslationResult, options: SearchOptions) -> Hypothesis:
        ids = [self._tgt_ids[token] for token in result.hypotheses[0]]
        # In beam search, CTranslate2 divides scores by length^penalty, eos counted; ours are sums.
        score = result.scores[0] * (len(ids) ** options.length_penalty if options.beam_size > 1 else 1)
        finished = ids[-1:] == [EOS_ID]
        return Hypothesis(ids[:-1] if finished else ids, score, finished)
