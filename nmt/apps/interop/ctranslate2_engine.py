"""Search and score with CTranslate2, to prove that an export translates like its run."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from nmt.base.errors import NmtError
from nmt.base.machine import num_cores
from nmt.base.special_tokens import EOS_ID
from nmt.config import SearchOptions
from nmt.config.model import ModelConfig
from nmt.data.text.tags import output_tags
from nmt.data.tokens.tokenizer import TokenizerPair
from nmt.decoding.hypothesis import Hypothesis

if TYPE_CHECKING:
    import ctranslate2

Input = TypeVar("Input")
Output = TypeVar("Output")

_MAX_BATCH_SENTENCES = 64
_HARDLY_ANY = 1e-9
_IMPOSSIBLE = -1e8  # outputs with scores below this violate a constraint


class CTranslate2Engine:
    """Translates batches of token ids with the model in a folder, on the CPU: what the proof of an export needs.

    Without sampling, exact search and shortlists, which CTranslate2 lacks or does differently, and without scores per
    token.
    """

    num_threads = 1  # one search at a time, which CTranslate2 itself distributes over the cores
    forms_batches = True

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
        sources: Sequence[Sequence[int]],
        options: SearchOptions,
        prefixes: Sequence[Sequence[int]] | None = None,
        draws: Sequence[int] | None = None,
    ) -> list[list[Hypothesis]]:
        """Implement `Engine.search`. Scores are CTranslate2's: normalized over the tokens that may come next."""
        src = [self._source(ids) for ids in sources]
        forced = [self._target(ids) for ids in prefixes or [()] * len(src)]
        limits = [
            self._max_output_len(options, *lengths) for lengths in zip(map(len, src), map(len, forced), strict=True)
        ]
        found: list[list[Hypothesis]] = [[] for _ in src]
        # Without a penalty, CTranslate2 stops once the best hypothesis is final, even if the rest of the n-best is not.
        penalty = options.length_penalty or (_HARDLY_ANY if options.num_hypotheses > 1 else 0.0)
        waiting: list[tuple[int, ctranslate2.AsyncTranslationResult]] = []
        # In beam search, a limit beyond that of a sentence may change its output: one call for each limit.
        for limit, group in groupby(sorted(range(len(src)), key=limits.__getitem__), key=limits.__getitem__):
            rows = list(group)
            results = self._model.translate_batch(
                [src[i] for i in rows],
                [forced[i] for i in rows] if any(forced) else None,
                max_batch_size=_MAX_BATCH_SENTENCES,
                asynchronous=True,
                beam_size=options.beam_size,
                num_hypotheses=options.num_hypotheses,
                length_penalty=penalty if options.beam_size > 1 else 0.0,
                no_repeat_ngram_size=options.no_repeat_ngram,
                max_input_length=0,
                max_decoding_length=limit,
                min_decoding_length=min(options.min_len + (self._num_tags if any(forced) else 0), limit),
                return_scores=True,
                return_end_token=True,
                suppress_sequences=self._never_generated,
            )
            waiting += zip(rows, results, strict=True)
        for i, result in waiting:
            found[i] = self._hypotheses(result.result().hypotheses, result.result().scores, options)
        return found

    def score(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[list[float]]:
        """Implement `Engine.score`."""
        # CTranslate2 adds eos; its score is dropped if eos would exceed the limit.
        results = self._model.score_batch(
            [self._source(ids) for ids in sources],
            [self._target(ids[: self._max_tgt_len]) for ids in targets],
            max_batch_size=_MAX_BATCH_SENTENCES,
            max_input_length=0,
        )
        return [list(result.log_probs[: self._max_tgt_len]) for result in results]

    def cross_attention(
        self, source: Sequence[int], target: Sequence[int], layer: int = -1, head: int | None = None
    ) -> list[list[float]]:
        """Raise NmtError: CTranslate2 does not return the attention of a given output."""
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

    def _hypotheses(
        self, outputs: Sequence[Sequence[str]], scores: Sequence[float], options: SearchOptions
    ) -> list[Hypothesis]:
        """Return the hypotheses of one source, best first.

        In beam search, CTranslate2 divides scores by length^penalty, eos counted; ours are sums.
        """
        hypotheses: list[Hypothesis] = []
        for tokens, score in zip(outputs, scores, strict=True):
            ids = [self._tgt_ids[token] for token in tokens]
            total = score * len(ids) ** options.length_penalty if options.beam_size > 1 else score
            finished = ids[-1:] == [EOS_ID]
            if total > _IMPOSSIBLE or not hypotheses:
                hypotheses.append(Hypothesis(ids[:-1] if finished else ids, total, finished))
        return hypotheses
