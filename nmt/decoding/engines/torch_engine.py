"""Translate token ids with torch."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial

import torch

from nmt.artifacts.checkpoint import load_model
from nmt.artifacts.rundir import RunDir
from nmt.base.device import DTYPES, choose_device, choose_precision, is_out_of_memory
from nmt.base.errors import NmtError
from nmt.base.special_tokens import BOS_ID, EOS_ID
from nmt.config import SearchOptions
from nmt.data.lexicon.shortlist import Shortlist, refuse_shortlist
from nmt.data.store.batching import collate_sources, pad_rows
from nmt.data.text.tags import output_tags
from nmt.data.tokens.tokenizer import TokenizerPair
from nmt.decoding.beam import beam_search
from nmt.decoding.constraints import Constraints
from nmt.decoding.cuda_graphs import StepRecordings
from nmt.decoding.decoder import SRC_MULTIPLE, Decoder, ensemble_log_probs, min_rows
from nmt.decoding.engines.interface import Ids, Input, Output, Terms, Weights, check_layer_and_head
from nmt.decoding.engines.threads import Threads
from nmt.decoding.greedy import greedy_search
from nmt.decoding.hypothesis import Hypothesis, check_finite, output_limits
from nmt.decoding.sampling import Sampler
from nmt.model.cache import KVCache
from nmt.model.recording import AttentionWeights, attention_weights
from nmt.model.transformer import Transformer

# On a GPU, the batches that one search takes. Sentences of those after the first wait for the places
# of those that end, so that a recording's rows stay in use. Chosen by hand.
BATCHES_PER_RECORDING = 16


class TorchEngine:
    """Translates batches of token ids with one model or an ensemble."""

    name = "torch"
    takes_terms = False

    def __init__(self, models: Sequence[Transformer], tokenizers: TokenizerPair, num_threads: int | None = None):
        """Run `num_threads` searches at once on a CPU (default: torch's number of threads), one on a GPU."""
        self.models = list(models)
        self.device = self.models[0].device
        # On a CPU, separate sentences per core are faster than all cores on one batch, whose matrix products are small.
        self.num_threads = (num_threads or torch.get_num_threads()) if self.device.type == "cpu" else 1
        self.recordings = StepRecordings(self.models) if self.device.type == "cuda" else None
        self.batches_per_search = 1 if self.recordings is None else BATCHES_PER_RECORDING
        self.scores = True  # False: greedy search computes no scores; those of its outputs are nan
        self.min_rows = max(min_rows(model) for model in models)
        tags = output_tags(tokenizers.tgt, self.models[0].config.language_tags)
        self.num_tags = tags.length  # tokens at the start of each prefix that are not part of the output
        self.never_generated = [*tokenizers.tgt.never_generated, *tags.never_generated]
        self.load_shortlist: Callable[[], Shortlist] = refuse_shortlist  # called when a search first needs it
        self.max_src_len = min(model.config.max_src_len for model in models)
        self.max_tgt_len = min(model.config.max_tgt_len for model in models)
        self._threads = Threads(partial(_start_threads, self.num_threads))
        self._gpu_lock = threading.Lock()

    @classmethod
    def load(
        cls, runs: Sequence[RunDir], tokenizers: TokenizerPair, device: str = "auto", precision: str = "fp32", *,
        scores: bool = True,
    ) -> TorchEngine:  # fmt: skip
        """Load the best models of `runs`, which share `tokenizers`, in fp32 or bf16.

        `auto` is bf16 on a GPU if a short trial finds it clearly faster, else fp32. NmtError if `precision` is int8.
        """
        if precision == "int8":
            raise NmtError(
                "the engine torch does not support the precision int8",
                hint="use bf16 or fp32; on a CPU, the native engine translates single models in int8",
            )
        chosen = choose_device(device)
        if precision == "auto":
            precision = "fp32" if chosen.type == "cpu" else choose_precision(precision, chosen).name
        models = [load_model(run, tokenizers, chosen).to(DTYPES[precision]) for run in runs]
        engine = cls(models, tokenizers)
        engine.scores = scores
        engine.load_shortlist = partial(Shortlist.load, runs[0].shortlist, tokenizers)
        return engine

    @cached_property
    def _shortlist(self) -> Shortlist:
        return self.load_shortlist()

    @property
    def precision(self) -> str:
        """The precision that the models compute in: fp32 or bf16."""
        return next(name for name, dtype in DTYPES.items() if dtype == self.models[0].output_proj.weight.dtype)

    def map(self, function: Callable[[Input], Output], inputs: Sequence[Input]) -> list[Output]:
        """Implement `Engine.map`: on a CPU in a thread pool; on a GPU, or with one thread, sequentially."""
        if self.num_threads > 1:
            return list(self._threads.get().map(function, inputs))
        if self.device.type == "cpu":
            return [function(each) for each in inputs]
        with self._gpu_lock:  # recorded steps always write their results to the same memory
            return [function(each) for each in inputs]

    def close(self) -> None:
        """Implement `Engine.close`."""
        self._threads.close()

    @torch.inference_mode()
    def search(
        self,
        sources: Sequence[Ids],
        options: SearchOptions,
        prefixes: Sequence[Ids] | None = None,
        draws: Sequence[int] | None = None,
        drafts: Sequence[Ids] | None = None,
        terms: Terms | None = None,
    ) -> list[list[Hypothesis]]:
        """Implement `Engine.search`; `drafts` do not make it faster. NmtError for `terms`."""
        if terms is not None:
            raise NmtError("the engine torch does not support terms")
        every = [()] * len(sources) if prefixes is None else prefixes

        def search(rows: slice, share: float) -> list[list[Hypothesis]]:
            own_draws = None if draws is None else draws[rows]
            return self._search(sources[rows], options, every[rows], own_draws, int(share * options.batch_tokens))

        return self._within_memory(search, slice(0, len(sources)))

    def _within_memory(
        self, work: Callable[[slice, float], list[Output]], rows: slice, share: float = 1.0
    ) -> list[Output]:
        """Return the results of `work` for `rows`: for each half by itself if there is no memory for all of them.

        `work` may take up to `share` of the usual memory.
        """
        if rows.start == rows.stop:
            return []
        try:
            return work(rows, share)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            if rows.stop - rows.start == 1:
                raise NmtError(
                    "not enough memory even for a single sentence",
                    hint="free memory, lower decoding.beam_size, or use another device (--device cpu)",
                ) from error
        # Here, not above: until then, the error keeps all that the work has allocated.
        if self.recordings is not None:
            self.recordings.forget()
        middle = (rows.start + rows.stop) // 2
        first = self._within_memory(work, slice(rows.start, middle), share / 2)
        return first + self._within_memory(work, slice(middle, rows.stop), share / 2)

    def _search(
        self, sources: Sequence[Ids], options: SearchOptions, prefixes: Sequence[Ids], draws: Sequence[int] | None,
        batch_tokens: int,
    ) -> list[list[Hypothesis]]:  # fmt: skip
        device = self.device
        limits = output_limits(sources, options, prefixes, self.max_src_len, self.max_tgt_len, self.num_tags)
        src = collate_sources(sources, self.max_src_len).to(device)
        width = options.num_hypotheses if options.sample else options.beam_size
        is_beam = width > 1 and not options.sample
        width += is_beam  # one more row, for the hypothesis of greedy search
        max_sentences = max(1, batch_tokens // max(SRC_MULTIPLE, src.size(1)))
        num_first = len(src) if self.recordings is None else max_sentences
        decoder = Decoder(self.models, src[:num_first], max(limits), width, self.min_rows, self.recordings)
        if decoder.graph_step is not None:
            decoder.graph_step.waiting = src[num_first:]
        if options.shortlist:
            outputs = self._shortlist.outputs
            kept = [source[: self.max_src_len - 1] for source in sources]
            decoder.restrict([outputs(source, prefix) for source, prefix in zip(kept, prefixes, strict=True)])
        num_rows = max(len(sources), decoder.num_places) * width
        row_prefixes = [prefix for prefix in prefixes for _ in range(width)] if any(prefixes) else ()
        constraints = Constraints(options, self.never_generated, row_prefixes, num_rows, device, self.num_tags)
        if is_beam:
            return beam_search(decoder, limits, constraints, options)
        if not options.sample:
            return greedy_search(decoder, limits, constraints, scores=self.scores)
        sampler = Sampler(options, sources, limits, num_rows, device, draws)
        best_first = partial(sorted, key=lambda h: -options.normalized(h.score, len(h.token_scores)))
        return [best_first(found) for found in greedy_search(decoder, limits, constraints, sampler)]

    @torch.inference_mode()
    def score(self, sources: Sequence[Ids], targets: Sequence[Ids]) -> list[list[float]]:
        """Implement `Engine.score`; the probabilities of an ensemble are the mean over its models."""
        return self._within_memory(lambda rows, _: self._score(sources[rows], targets[rows]), slice(0, len(sources)))

    def _score(self, sources: Sequence[Ids], targets: Sequence[Ids]) -> list[list[float]]:
        device = self.device
        src = collate_sources(sources, self.max_src_len).to(device)
        wanted = [[*target, EOS_ID][: self.max_tgt_len] for target in targets]
        tgt_in = pad_rows([[BOS_ID, *ids[:-1]] for ids in wanted]).to(device)
        tgt_out = pad_rows(wanted).to(device)
        log_probs = [
            model(src, tgt_in).log_softmax(-1, dtype=torch.float32).gather(2, tgt_out[:, :, None])[:, :, 0]
            for model in self.models
        ]
        scores: list[list[float]] = ensemble_log_probs(log_probs).tolist()
        scores = [row[: len(ids)] for row, ids in zip(scores, wanted, strict=True)]
        check_finite(sum(map(sum, scores)))
        return scores

    @torch.inference_mode()
    def cross_attention(self, source: Ids, target: Ids, layer: int = -1, head: int | None = None) -> Weights:
        """Implement `Engine.cross_attention`; for an ensemble, return that of its first model.

        `target` includes eos if the output ended with it; S counts the source's eos.
        """
        model = self.models[0]
        check_layer_and_head(model.config, layer, head)
        src = collate_sources([source], model.config.max_src_len).to(model.device)
        tgt_in = torch.tensor([[BOS_ID, *target[:-1]]], device=model.device)
        memory = model.encode(src)
        cache = KVCache(model.project_memory(memory), memory.mask, keep_attention=True)
        model.decode_states(tgt_in, cache)
        weights = cache.attention[layer] if cache.attention else None
        assert weights is not None
        return (weights[0].float().mean(0) if head is None else weights[0, head].float()).tolist()

    def attention_weights(self, source: Ids, target: Ids) -> AttentionWeights:
        """Implement `Engine.attention_weights` for the first model, by recording what its layers compute."""
        model = self.models[0]
        src = collate_sources([source], model.config.max_src_len).to(model.device)
        return attention_weights(model, src, torch.tensor([[BOS_ID, *target[:-1]]], device=model.device))


def _start_threads(count: int) -> ThreadPoolExecutor:
    """Start `count` threads that each run torch on one core."""
    num_threads = torch.get_num_threads()
    all_started = threading.Barrier(count)

    def start() -> None:
        torch.get_num_threads()  # a thread's first call adopts the number that was last set in any thread
        torch.set_num_threads(1)  # for this thread, and as the number that was last set
        all_started.wait()

    pool = ThreadPoolExecutor(count, "nmt-search", initializer=start)
    list(pool.map(int, range(count)))
    torch.set_num_threads(num_threads)  # so that threads started elsewhere get the original number
    return pool
