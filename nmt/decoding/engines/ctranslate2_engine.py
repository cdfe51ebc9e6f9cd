"""Translate token ids with CTranslate2, from a folder created by `nmt export ctranslate2`. Imports no torch.

On a CPU, there is one single-threaded worker per core (docs/explanation/exports.md explains why). A batch is split into
chunks of similar length, which the workers process one after the other.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import groupby
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from nmt.artifacts.exportdir import ExportDir, ExportInfo
from nmt.base.errors import NmtError, RunError, how_to_install
from nmt.base.machine import num_cores
from nmt.base.special_tokens import EOS_ID
from nmt.config import SearchOptions
from nmt.data.text.tags import output_tags
from nmt.data.tokens.tokenizer import TokenizerPair
from nmt.decoding.engines.per_process import PerProcess
from nmt.decoding.hypothesis import Hypothesis

if TYPE_CHECKING:
    import ctranslate2

_one_sampler = PerProcess(threading.Lock)
Input = TypeVar("Input")
Output = TypeVar("Output")

CHUNK_SENTENCES = 64  # the maximum number of sentences that a worker translates together
_HARDLY_ANY = 1e-9
_IMPOSSIBLE = -1e8  # outputs with scores below this violate a constraint


class _Chunk(NamedTuple):
    """Sentences that a worker translates together."""

    rows: list[int]  # indices among the sentences of the call
    max_len: int  # maximum output length in tokens, eos counted


class CTranslate2Engine:
    """Translates batches of token ids with the model of an export."""

    num_threads = 1  # one search at a time, which CTranslate2 itself distributes over the cores
    forms_batches = True

    def __init__(
        self,
        export: ExportDir,
        info: ExportInfo,
        tokenizers: TokenizerPair,
        device: str = "auto",
        *,
        token_scores: bool = False,
        scores: bool = True,
    ):
        """Load the model of `export`, whose files have been checked; with `token_scores`, rescore every output.

        Without `scores`, single outputs have the score nan, and CTranslate2 computes no softmax in greedy search.

        RunError if the model cannot be loaded. NmtError if `device` is not auto, cpu or cuda.
        """
        self.info = info
        self.max_src_len = info.max_src_len
        self.token_scores = token_scores
        self.scores = scores
        self._device = _choose_device(device)
        self._num_workers = 1 if self._device == "cuda" else num_cores()
        self._path = export.path
        self._src_tokens = tokenizers.src.tokens(range(tokenizers.src.vocab_size))
        self._tgt_tokens = tokenizers.tgt.tokens(range(tokenizers.tgt.vocab_size))
        # CTranslate2 would read an id beyond the model's vocabulary from outside its tables.
        if (export.vocabulary("source"), export.vocabulary("target")) != (self._src_tokens, self._tgt_tokens):
            raise RunError("the vocabularies do not match the tokenizer", path=export.path)
        self._tgt_ids = {token: i for i, token in enumerate(self._tgt_tokens)}
        self._eos = self._tgt_tokens[EOS_ID]
        tags = output_tags(tokenizers.tgt, info.language_tags)
        self.num_tags = tags.length  # tokens at the start of each prefix that are not part of the output
        self._tags = [*tags.ids.values()]
        never = (*tokenizers.tgt.never_generated, *tags.never_generated)
        self._never_generated = [[self._tgt_tokens[i]] for i in never]
        self._model = PerProcess(partial(_load_model, self._path, self._device, self._num_workers))
        self._model.get()  # so that an unusable model is rejected now

    @property
    def precision(self) -> str:
        """The precision that CTranslate2 computes in on this machine; on most CPUs, float16 weights become float32."""
        return self._model.get().compute_type

    def map(self, function: Callable[[Input], Output], inputs: Sequence[Input]) -> list[Output]:
        """Implement `Engine.map` sequentially, because CTranslate2 distributes each search over its threads."""
        return [function(each) for each in inputs]

    def close(self) -> None:
        """Implement `Engine.close`: delete the model and its threads."""
        self._model.take()

    def search(
        self,
        sources: Sequence[Sequence[int]],
        options: SearchOptions,
        prefixes: Sequence[Sequence[int]] | None = None,
        draws: Sequence[int] | None = None,
    ) -> list[list[Hypothesis]]:
        """Implement `Engine.search`; NmtError for the options `exact` and `shortlist`, which CTranslate2 lacks.

        CTranslate2 renormalizes probabilities over the allowed tokens, and returns no scores per token. With
        `token_scores`, scores mean the same as those of a run, at the cost of one more pass over the outputs.
        """
        _refuse_unsupported(options)
        if draws:
            raise NmtError("CTranslate2 does not support samples that depend on the line", hint="sample with the run")
        kept = [list(ids[: self.info.max_src_len - 1]) for ids in sources]
        forced = None if prefixes is None or not any(prefixes) else [list(prefix) for prefix in prefixes]
        limits = self._limits(kept, options, forced or [[]] * len(kept))
        # In greedy search, a higher limit does not change outputs that stay within it; in beam search, it may.
        greedy = options.beam_size == 1 and not options.sample
        found = self._search(kept, limits, options, forced, exact_limits=not greedy)
        if greedy:
            over = [i for i, limit in enumerate(limits) if _length(found[i][0]) > limit]
            again = self._search(
                [kept[i] for i in over],
                [limits[i] for i in over],
                options,
                forced and [forced[i] for i in over],
                exact_limits=True,
            )
            for i, hypotheses in zip(over, again, strict=True):
                found[i] = hypotheses
        if self.token_scores:
            return self._scored_anew(found, kept, options)
        if forced is None or not self._asks_for_scores(options):
            return found
        return self._with_prefix_scores(found, kept, forced, options)

    def score(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[list[float]]:
        """Implement `Engine.score`."""
        src = [self._source(ids[: self.info.max_src_len - 1]) for ids in sources]
        # Truncate targets to the limit. CTranslate2 adds eos; its score is dropped if eos would exceed the limit.
        kept = [list(ids[: self.info.max_tgt_len]) for ids in targets]
        tgt = [self._target(ids) for ids in kept]
        order = sorted(range(len(src)), key=lambda i: -max(len(src[i]), len(tgt[i])))
        scores: list[list[float]] = [[] for _ in src]
        with _errors_of(self._path):
            waiting = []
            for rows in _cut(order, self._chunk_size(len(order))):
                batch = [src[i] for i in rows], [tgt[i] for i in rows]
                waiting.append((rows, self._model.get().score_batch(*batch, max_input_length=0, asynchronous=True)))
            for rows, results in waiting:
                for i, result in zip(rows, results, strict=True):
                    scores[i] = list(result.result().log_probs[: self.info.max_tgt_len])
        return scores

    def cross_attention(
        self, source: Sequence[int], target: Sequence[int], layer: int = -1, head: int | None = None
    ) -> list[list[float]]:
        """Implement `Engine.cross_attention`, averaged over the heads of the last layer; NmtError for anything else.

        `target` includes eos if the output ended with it; S counts the source's eos.
        """
        if layer != -1 or head is not None:
            raise NmtError(
                "CTranslate2 does not support the attention of a single layer or head",
                hint="it returns only the mean over the heads of the last layer; use the run for others",
            )
        if not target:
            return []
        with _errors_of(self._path):
            (result,) = self._model.get().translate_batch(
                [self._source(source[: self.info.max_src_len - 1])],
                target_prefix=[self._target(target)],
                max_input_length=0,
                max_decoding_length=len(target),
                min_decoding_length=0,
                beam_size=1,
                return_end_token=True,
                return_attention=True,
            )
        return [list(row) for row in result.attention[0]]

    def _search(
        self,
        sources: list[list[int]],
        limits: list[int],
        options: SearchOptions,
        prefixes: list[list[int]] | None,
        *,
        exact_limits: bool,
    ) -> list[list[Hypothesis]]:
        """Search in chunks; unless `exact_limits`, all sentences of a chunk share their highest length limit."""
        found: list[list[Hypothesis]] = [[] for _ in sources]
        if not sources:
            return found
        chunks = self._chunks(sources, limits, exact_limits)
        num_tags = 0 if prefixes is None else self.num_tags
        with _errors_of(self._path), self._model_for(options) as model:
            waiting = []
            for chunk in chunks:
                results = model.translate_batch(
                    [self._source(sources[i]) for i in chunk.rows],
                    None if prefixes is None else [self._target(prefixes[i]) for i in chunk.rows],
                    asynchronous=True,
                    max_input_length=0,
                    max_decoding_length=chunk.max_len,
                    min_decoding_length=min(options.min_len + num_tags, chunk.max_len),
                    return_scores=self._asks_for_scores(options),
                    return_end_token=True,
                    suppress_sequences=self._never_generated,
                    **_search_arguments(options),
                )
                waiting.append((chunk, results))
            for chunk, results in waiting:
                for i, result in zip(chunk.rows, results, strict=True):
                    found[i] = self._hypotheses(result.result(), options)
        return found

    def _asks_for_scores(self, options: SearchOptions) -> bool:
        """Return whether CTranslate2's own scores are used: returned to the caller, or to rank outputs."""
        return options.num_hypotheses > 1 or (self.scores and not self.token_scores)

    def _limits(self, sources: list[list[int]], options: SearchOptions, prefixes: list[list[int]]) -> list[int]:
        """Return the maximum output length for each source, eos counted; a prefix raises it up to the model's limit."""
        most = self.info.max_tgt_len
        if (longest := max(map(len, prefixes), default=0)) >= most:
            hint = f"the model's maximum output length is {most} tokens, end of sentence included"
            raise NmtError(f"a prefix of {longest} tokens is too long", hint=hint)
        pairs = zip(sources, prefixes, strict=True)
        wanted = [options.max_len(len(ids) + 1) + min(self.num_tags, len(prefix)) for ids, prefix in pairs]
        return [min(max(limit, len(prefix) + 1), most) for limit, prefix in zip(wanted, prefixes, strict=True)]

    def _chunks(self, sources: list[list[int]], limits: list[int], exact_limits: bool) -> Iterator[_Chunk]:
        """Yield chunks of sentences of similar length, longest first, so that no worker gets a long one last."""
        order = sorted(range(len(sources)), key=lambda i: (-limits[i], -len(sources[i])))
        size = self._chunk_size(len(order))
        groups = (list(rows) for _, rows in groupby(order, key=limits.__getitem__)) if exact_limits else [order]
        for group in groups:
            for rows in _cut(group, size):
                yield _Chunk(rows, limits[rows[0]])

    def _chunk_size(self, num_sentences: int) -> int:
        """Return the chunk size that keeps all workers busy, up to `CHUNK_SENTENCES`."""
        return max(1, min(CHUNK_SENTENCES, -(-num_sentences // self._num_workers)))

    def _source(self, ids: Sequence[int]) -> list[str]:
        return [*(self._src_tokens[i] for i in ids), self._src_tokens[EOS_ID]]

    def _target(self, ids: Sequence[int]) -> list[str]:
        return [self._tgt_tokens[i] for i in ids]

    def _hypotheses(self, result: ctranslate2.TranslationResult, options: SearchOptions) -> list[Hypothesis]:
        """Return the hypotheses of one result, best first.

        In beam search, CTranslate2 divides scores by length^penalty, eos counted; ours are sums.
        """
        hypotheses: list[Hypothesis] = []
        for tokens, ranked_by in zip(result.hypotheses, result.scores or [math.nan], strict=True):
            finished = bool(tokens) and tokens[-1] == self._eos
            ids = [self._tgt_ids[token] for token in (tokens[:-1] if finished else tokens)]
            score = ranked_by * len(tokens) ** options.length_penalty if options.beam_size > 1 else ranked_by
            if score > _IMPOSSIBLE or not hypotheses:
                hypotheses.append(Hypothesis(ids, score, finished))
        return self._ranked(hypotheses, options) if options.sample else hypotheses

    def _with_prefix_scores(
        self,
        found: list[list[Hypothesis]],
        sources: list[list[int]],
        prefixes: list[list[int]],
        options: SearchOptions,
    ) -> list[list[Hypothesis]]:
        """Add the log-probabilities of the prefixes to the scores of `found`, and rerank by the sums."""
        if max(map(len, prefixes)) <= self.num_tags:  # the tags of outputs have no score
            return found
        forced = [sum(scores[self.num_tags : -1]) for scores in self.score(sources, prefixes)]
        return [
            self._ranked([one._replace(score=one.score + added) for one in hypotheses], options)
            for hypotheses, added in zip(found, forced, strict=True)
        ]

    def _scored_anew(
        self, found: list[list[Hypothesis]], sources: list[list[int]], options: SearchOptions
    ) -> list[list[Hypothesis]]:
        """Replace the scores of `found` by forced-decoding scores, also per token, and rerank by them."""
        pairs = [(source, one.ids) for source, best in zip(sources, found, strict=True) for one in best]
        scores = iter(self.score([source for source, _ in pairs], [ids for _, ids in pairs]))
        for i, hypotheses in enumerate(found):
            per_token = [self._without_tags(next(scores)[: _length(one)], one) for one in hypotheses]
            both = zip(hypotheses, per_token, strict=True)
            found[i] = self._ranked([one._replace(score=sum(row), token_scores=row) for one, row in both], options)
        return found

    def _without_tags(self, scores: list[float], hypothesis: Hypothesis) -> list[float]:
        """Return `scores` with 0 for the tag at the beginning of `hypothesis`, if there is one."""
        num_tags = self.num_tags if self.num_tags and hypothesis.ids[: self.num_tags] in self._tags else 0
        return [0.0] * num_tags + scores[num_tags:]

    def _ranked(self, hypotheses: list[Hypothesis], options: SearchOptions) -> list[Hypothesis]:
        return sorted(hypotheses, key=lambda found: -options.normalized(found.score, _length(found)))

    @contextmanager
    def _model_for(self, options: SearchOptions) -> Iterator[ctranslate2.Translator]:
        """Yield the model; for sampling, a model with a single worker, seeded with `options.seed`."""
        if not options.sample:
            yield self._model.get()
            return
        with _one_sampler.get():  # the seed is global to the process, and is read when a worker first draws
            yield _load_model(self._path, self._device, 1, options.seed)


def _refuse_unsupported(options: SearchOptions) -> None:
    if options.exact:
        raise NmtError("CTranslate2 does not support exact beam search", hint="translate with the run, or without it")
    if options.shortlist:
        hint = "translate with the run, or with --no-shortlist"
        raise NmtError("CTranslate2 does not support the shortlists of runs", hint=hint)


def _load_model(path: Path, device: str, num_workers: int, seed: int | None = None) -> ctranslate2.Translator:
    """Load the model at `path`; `seed` seeds the random numbers of its workers."""
    ctranslate2 = _ctranslate2()
    ctranslate2.set_log_level(logging.ERROR)  # it would warn about an unsupported precision
    if seed is not None:
        ctranslate2.set_random_seed(seed)
    with _errors_of(path):
        return ctranslate2.Translator(
            str(path), device, inter_threads=num_workers, intra_threads=1, max_queued_batches=-1
        )


def _ctranslate2() -> ModuleType:
    try:
        import ctranslate2
    except ImportError as error:
        hint = how_to_install("ctranslate2")
        raise RunError(f"this export needs CTranslate2, which is not installed ({error})", hint=hint) from None
    return ctranslate2


def _search_arguments(options: SearchOptions) -> dict[str, Any]:
    """Translate our options into CTranslate2's arguments. In greedy search, its scores stay sums, like ours."""
    # Without a penalty, CTranslate2 stops once the best hypothesis is final, even if the rest of the n-best is not.
    penalty = options.length_penalty or (_HARDLY_ANY if options.num_hypotheses > 1 else 0.0)
    arguments: dict[str, Any] = {
        "beam_size": options.beam_size,
        "num_hypotheses": options.num_hypotheses,
        "length_penalty": penalty if options.beam_size > 1 else 0.0,
        "no_repeat_ngram_size": options.no_repeat_ngram,
    }
    if options.sample:
        if options.top_k == 1 and options.num_hypotheses > 1:
            raise NmtError(
                "CTranslate2 does not support several samples with top_k 1", hint="they would all be the same"
            )
        arguments |= {
            "sampling_topk": options.top_k,
            "sampling_topp": options.top_p,
            "sampling_temperature": options.temperature,
        }
    return arguments


def _length(hypothesis: Hypothesis) -> int:
    """Return the number of tokens, eos counted."""
    return len(hypothesis.ids) + hypothesis.finished


def _cut(rows: list[int], size: int) -> Iterator[list[int]]:
    return (rows[start : start + size] for start in range(0, len(rows), size))


def _choose_device(name: str) -> str:
    if name == "auto":
        return "cuda" if _ctranslate2().get_cuda_device_count() else "cpu"
    if name not in ("cpu", "cuda"):
        raise NmtError(f"CTranslate2 does not support the device {name}", hint="choose cpu, cuda or auto")
    return name


@contextmanager
def _errors_of(path: Path) -> Iterator[None]:
    """Turn exceptions of CTranslate2 into a RunError about the export at `path`."""
    try:
        yield
    except (RuntimeError, ValueError, MemoryError, LookupError, OverflowError, TypeError) as error:
        raise RunError(f"CTranslate2 cannot use this export: {error}", path=path) from error
