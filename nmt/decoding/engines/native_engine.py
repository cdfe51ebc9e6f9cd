"""Translate token ids with the native decoder, on a CPU, from a run's own weights. Imports no torch.

Each thread decodes several sources side by side. When one ends, the thread takes the next source from a counter shared
by all threads. So there are no batches, and the result for a source is bit-identical whatever is translated with it
(nmt/decoding/native/kernel.h explains why).
"""

from __future__ import annotations

import json
import math
import mmap
import sys
from array import array
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NoReturn

from nmt.artifacts.rundir import RunDir
from nmt.base.errors import NmtError, RunError
from nmt.base.machine import num_cores
from nmt.base.special_tokens import EOS_ID
from nmt.config import SearchOptions
from nmt.config.model import ModelConfig
from nmt.data.lexicon.shortlist import Shortlist, refuse_shortlist
from nmt.data.text.tags import output_tags
from nmt.data.tokens.tokenizer import TokenizerPair
from nmt.decoding.engines.interface import Ids, Input, Output, Terms, Weights, check_layer_and_head
from nmt.decoding.engines.threads import Threads
from nmt.decoding.hypothesis import Hypothesis, check_finite, output_limits, sampling_numbers
from nmt.model.shapes import VOCABULARIES, check_number_of_layers, check_shapes, parameter_shapes

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

try:
    from nmt.decoding.native import _decoder
except ImportError:  # it is only built if there is a C compiler
    _decoder = None  # type: ignore[assignment]

NativePrecision = Literal["int8", "fp32"]

# Hypotheses that a thread decodes side by side, reading each weight once for all of them. Products
# with 32 rows are the fastest (docs/log/translation-speed.md); 16 are enough if a cache keeps the
# weights, so that reading is cheap.
MAX_ROWS = 32
_ROWS_OF_SMALL_MODELS = 16
_KERNELS_OF_MANY_ROWS = {"avx512-amx"}  # that multiply faster than a cache can be read
CACHED_WEIGHTS = 16_000_000  # numbers that fit the processor's cache, in models that count as small
_MAX_AHEAD = 8  # tokens of a draft that are verified at once, as in nmt/decoding/native/search.c
MOST_ALONE = 255  # searches between two tries to get the help of a second thread; chosen by hand

MIN_MAPPED_BYTES = 256_000_000 if sys.platform != "win32" else sys.maxsize
"""Files of weights from this size on stay mapped after packing, which saves memory; but truncating a mapped file kills
the process that uses it. nmt itself only replaces files. On Windows, a mapped file could not be replaced."""

_PRECISIONS = ("int8", "fp32")

# The values of model options that the decoder supports, in the order of its own numbers for them. Of an option that is
# in neither table, it supports the default, so that a new option or value is refused until the decoder knows it.
_SUPPORTED: dict[str, tuple[object, ...]] = {
    "attention": ("scaled_dot_product",),
    "positions": ("sinusoidal", "learned", "rotary"),
    "norm_position": ("pre", "post"),
    "norm": ("layer", "rms"),
    "activation": ("relu", "gelu", "silu", "swiglu", "relu2"),
    "qk_norm": (False, True, "self"),
    "tied_embeddings": ("none", "target", "all"),
    "output_bias": (False, True),
}
_ANY_VALUE = {
    "d_model", "num_heads", "d_ff", "encoder_layers", "decoder_layers", "max_src_len", "max_tgt_len",
    "language_tags", "dropout", "attention_dropout", "embedding_dropout",
}  # fmt: skip


def is_available() -> bool:
    """Return whether the native decoder was built on this machine."""
    return _decoder is not None


def unsupported(config: ModelConfig) -> str:
    """Return what the native decoder does not support of a model with `config`; an empty string if it supports all."""
    for name, field in ModelConfig.model_fields.items():
        value = getattr(config, name)
        if name not in _ANY_VALUE and value not in _SUPPORTED.get(name, (field.default,)):
            return f"model.{name}: {value}"
    widest = 65_536  # inputs of a matrix product, whose sums must fit into 32 bits
    padded_heads = config.num_heads * math.ceil(config.d_model / config.num_heads / 16) * 16
    return "models as wide as this" if max(padded_heads, config.d_ff, config.d_model) > widest else ""


def kernels() -> list[str]:
    """Return the names of the kernels that this processor supports, fastest first."""
    return _decoder.kernels() if _decoder is not None else []


class _Inputs(NamedTuple):
    """The sources of a search, with the prefix and the maximum length of each output."""

    sources: Sequence[Ids]
    prefixes: Sequence[Ids]
    limits: Sequence[int]
    draws: Sequence[int] | None = None  # as in `Engine.search`
    num_tags: int = 0  # tokens at the start of each prefix that have no score
    drafts: Sequence[Ids] | None = None
    terms: Terms | None = None


class NativeEngine:
    """Translates token ids with one model. Several threads may use it at once."""

    name = "native"
    num_threads = 1  # calls that `map` makes at once; each call already uses all threads
    batches_per_search = 0
    takes_terms = True

    def __init__(
        self,
        config: ModelConfig,
        arrays: Sequence[Any],
        tokenizers: TokenizerPair,
        precision: NativePrecision = "int8",
        *,
        kernel: str | None = None,
        num_threads: int | None = None,
    ):
        """Pack the weights `arrays`, in the order of `arrays_in_order`, for `kernel` (default: the fastest one).

        Translate with `num_threads` threads (default: one per core). RunError if the decoder cannot use the weights.
        """
        self.precision: str = precision
        self.max_src_len, self.max_tgt_len = config.max_src_len, config.max_tgt_len
        self.kernel = kernel or kernels()[0]
        self._config = config
        shapes = parameter_shapes(config, tokenizers.src.vocab_size, tokenizers.tgt.vocab_size)
        num_weights = sum(map(math.prod, shapes.values()))
        self._is_large = num_weights > CACHED_WEIGHTS  # a second thread helps to translate one source
        # How many searches will not ask a second thread for help, and how many after the next that asks in vain.
        self._searches_alone = self._next_alone = 0
        reads_rarely = self._is_large or self.kernel in _KERNELS_OF_MANY_ROWS
        self._max_rows = MAX_ROWS if reads_rarely else _ROWS_OF_SMALL_MODELS
        self.scores = True  # False: greedy search skips the computation of scores; the scores of its outputs are nan
        self.load_shortlist: Callable[[], Shortlist] = refuse_shortlist  # called when a search first needs it
        tags = output_tags(tokenizers.tgt, config.language_tags)
        self.num_tags = tags.length  # tokens at the start of each prefix that are not part of the output
        self._never_generated = [*tokenizers.tgt.never_generated, *tags.never_generated]
        self._num_workers = num_threads or num_cores()
        self._threads = Threads(partial(_start_threads, max(1, self._num_workers - 1)))
        numbers = config_numbers(config, tokenizers, precision)
        file = getattr(arrays[0], "obj", None)
        mapped = isinstance(file, mmap.mmap) and len(file) >= MIN_MAPPED_BYTES
        if not mapped:  # the decoder refers to the embeddings: views of a file would keep all of it in memory
            source = bytes(arrays[0])
            arrays = [source, source if arrays[1] is arrays[0] else bytes(arrays[1]), *arrays[2:]]
        try:
            self._model = _decoder.load(self.kernel, numbers, arrays, mapped)
        except ValueError as error:
            raise RunError(
                f"the native decoder cannot load this model ({error})", hint="use the engine torch"
            ) from error
        except MemoryError:
            raise RunError("not enough memory to load this model") from None

    @classmethod
    def load(
        cls, run: RunDir, tokenizers: TokenizerPair, precision: NativePrecision = "int8", *, kernel: str | None = None,
        num_threads: int | None = None, scores: bool = True,
    ) -> NativeEngine:  # fmt: skip
        """Load the best model of `run`. RunError if its weights are damaged or do not match its configuration."""
        config = run.essentials().model
        path = run.usable_checkpoint()
        arrays = arrays_in_order(config, tokenizers, read_arrays(path), path)
        engine = cls(config, arrays, tokenizers, precision, kernel=kernel, num_threads=num_threads)
        engine.scores = scores
        engine.load_shortlist = partial(Shortlist.load, run.shortlist, tokenizers)
        return engine

    @cached_property
    def _shortlist(self) -> object:
        return _decoder.shortlist(self._model, *self.load_shortlist())

    def map(self, function: Callable[[Input], Output], inputs: Sequence[Input]) -> list[Output]:
        """Implement `Engine.map` sequentially, because each search already uses all threads."""
        return [function(each) for each in inputs]

    def close(self) -> None:
        """As `Engine.close`."""
        self._threads.close()

    def search(
        self,
        sources: Sequence[Ids],
        options: SearchOptions,
        prefixes: Sequence[Ids] | None = None,
        draws: Sequence[int] | None = None,
        drafts: Sequence[Ids] | None = None,
        terms: Terms | None = None,
    ) -> list[list[Hypothesis]]:
        """As `Engine.search`."""
        prefixes = [()] * len(sources) if prefixes is None else prefixes
        limits = output_limits(sources, options, prefixes, self.max_src_len, self.max_tgt_len, self.num_tags)
        is_greedy = options.beam_size == 1 and not options.sample
        drafts = [[*draft, EOS_ID] if draft else [] for draft in drafts] if drafts and is_greedy else None
        inputs = _Inputs(sources, prefixes, limits, draws, self.num_tags, drafts, terms)
        found = self._translate(inputs, options, with_scores=self.scores)
        results = [[Hypothesis(*output) for output in outputs] for outputs, _ in found]
        for hypothesis in chain.from_iterable(results):
            check_finite(hypothesis.score)
        if not self.scores and is_greedy:  # sums of logits
            results = [[h._replace(score=math.nan, token_scores=[]) for h in hypotheses] for hypotheses in results]
        if options.sample:
            for hypotheses in results:
                hypotheses.sort(key=lambda h: -options.normalized(h.score, len(h.token_scores)))
        return results

    def score(self, sources: Sequence[Ids], targets: Sequence[Ids]) -> list[list[float]]:
        """As `Engine.score`."""
        wanted = [[*target, EOS_ID][: self.max_tgt_len] for target in targets]
        found = self._translate(_Inputs(sources, wanted, [len(ids) for ids in wanted]), SearchOptions())
        scores = [outputs[0][3] for outputs, _ in found]
        check_finite(sum(map(sum, scores)))
        return scores

    def cross_attention(self, source: Ids, target: Ids, layer: int = -1, head: int | None = None) -> Weights:
        """Implement `Engine.cross_attention`; NmtError if there is no such layer or head."""
        check_layer_and_head(self._config, layer, head)
        if not target:
            return []
        attention = (layer % self._config.decoder_layers, -1 if head is None else head)
        ((_, weights),) = self._translate(_Inputs([source], [target], [len(target)]), SearchOptions(), attention)
        return weights

    def attention_weights(self, source: Ids, target: Ids) -> NoReturn:
        """Raise NmtError: the native decoder keeps the attention of one layer."""
        raise NmtError("this engine cannot return the attention of all layers", hint='load it with engine="torch"')

    def _translate(
        self,
        inputs: _Inputs,
        options: SearchOptions,
        attention: tuple[int, int] = (-1, -1),  # the layer and the head to return; -1: none, and all heads
        *,
        with_scores: bool = True,
    ) -> list[tuple[list[tuple[list[int], float, bool, list[float]]], Weights]]:
        """Return outputs (ids, score, finished, token scores) and attention weights for each source.

        RunError if there is not enough memory.
        """
        sources = inputs.sources
        if not sources:
            return []
        longest = max(inputs.limits)  # in tokens, of any output
        rows = options.num_hypotheses if options.sample else options.beam_size
        num_threads = min(self._num_workers, len(sources))
        share = -(-len(sources) // num_threads)
        is_helped = len(sources) == 1 and self._num_workers > 1 and self._is_large and self._searches_alone == 0
        self._searches_alone = max(0, self._searches_alone - 1)
        numbers = _random_numbers(options, sources, longest, inputs.draws) if options.sample else array("d")
        # The score of a hypothesis of each length is divided by this number: the length penalty.
        divisors = array("d", [max(length, 1) ** options.length_penalty for length in range(longest + 1)])
        job = _decoder.translate(
            self._model,
            sources=[[*source[: self.max_src_len - 1], EOS_ID] for source in sources],
            prefixes=inputs.prefixes,
            limits=inputs.limits,
            options=options,
            max_rows=min(self._max_rows, share * (rows + _MAX_AHEAD * bool(inputs.drafts))),
            numbers=numbers,
            divisors=divisors,
            never_generated=self._never_generated,
            shortlist=self._shortlist if options.shortlist else None,
            drafts=inputs.drafts,
            terms=inputs.terms,
            is_helped=is_helped,
            with_scores=with_scores,
            num_tags=inputs.num_tags,
            attention_layer=attention[0],
            attention_head=attention[1],
        )
        # Each thread takes the next source of the job until none is left. Of a single source, a second thread computes
        # half of each product.
        try:
            helpers: list[Future[Any]] = [self._threads.get().submit(_decoder.run, job) for _ in range(num_threads - 1)]
            helpers += [self._threads.get().submit(_decoder.help, job)] if is_helped else []
            try:
                if is_helped != _decoder.run(job):  # other processes need the cores: try more and more rarely
                    self._searches_alone = self._next_alone = min(2 * self._next_alone + 1, MOST_ALONE)
                elif is_helped:
                    self._next_alone = 0
            finally:
                for helper in helpers:
                    if not helper.cancel() and not is_helped:  # help ends by itself
                        helper.result()
        except MemoryError:
            raise RunError(
                "not enough memory to translate", hint="translate with a smaller beam, fewer samples or shorter outputs"
            ) from None
        return _decoder.results(job)


def config_numbers(config: ModelConfig, tokenizers: TokenizerPair, precision: str) -> tuple[int, ...]:
    """Return the configuration in the order of struct Config in nmt/decoding/native/decoder.h."""

    def number(name: str) -> int:
        return _SUPPORTED[name].index(getattr(config, name))

    return (
        config.d_model, config.num_heads, config.d_ff, config.encoder_layers, config.decoder_layers,
        tokenizers.src.vocab_size, tokenizers.tgt.vocab_size, config.max_src_len, config.max_tgt_len,
        number("positions"), number("norm_position"), number("norm"), number("activation"),
        _PRECISIONS.index(precision), number("qk_norm"),
    )  # fmt: skip


def _random_numbers(
    options: SearchOptions, sources: Sequence[Ids], longest: int, draws: Sequence[int] | None
) -> array[float]:
    """Return the random number for each draw, [sources][samples][longest], as in `nmt.decoding.sampling`."""
    numbers = array("d")
    for i, source in enumerate(sources):
        for sample in range(options.num_hypotheses):
            numbers.extend(sampling_numbers(options.seed, sample, source, longest, draws[i] if draws else 0))
    return numbers


class Array(NamedTuple):
    """A tensor of a safetensors file. Does not use numpy, which is slow to import."""

    shape: tuple[int, ...]
    dtype: str  # F32 is fp32
    data: Any  # a buffer


def read_arrays(path: Path) -> dict[str, Array]:
    """Map the named arrays of a file, without verifying its checksum. RunError if the file cannot be read."""
    try:
        with open(path, "rb") as file:
            content = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        start = 8 + int.from_bytes(content[:8], "little")
        header = json.loads(bytes(content[8:start]))
        arrays = {}
        for name, entry in header.items():
            if name != "__metadata__":
                first, end = entry["data_offsets"]
                arrays[name] = Array(tuple(entry["shape"]), entry["dtype"], content[start + first : start + end])
        return arrays
    except OSError as error:
        raise RunError(f"cannot read these weights ({error.strerror or error})", path=path) from None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise RunError("cannot read these weights (the header is not readable)", path=path) from None


def arrays_in_order(config: ModelConfig, tokenizers: TokenizerPair, arrays: dict[str, Any], path: Path) -> list[Any]:
    """Return the data of the `arrays`, read from `path`, in the order that nmt/decoding/native/model.c expects.

    RunError if their shapes do not match the model, or they are not in fp32.
    """
    found = {name: array.shape if array.dtype == "F32" else () for name, array in arrays.items()}
    check_number_of_layers(config, found, path)
    shapes = parameter_shapes(config, tokenizers.src.vocab_size, tokenizers.tgt.vocab_size)
    check_shapes(shapes, found, path)
    source = arrays["src_embedding.tokens.weight"].data
    target = arrays["tgt_embedding.tokens.weight"].data if "tgt_embedding.tokens.weight" in arrays else source
    if config.positions == "learned":
        positions = [arrays[f"{side}_embedding.learned.weight"].data for side in ("src", "tgt")]
    else:
        width = config.d_model // config.num_heads if config.positions == "rotary" else config.d_model
        positions = [array("f", [math.exp(-math.log(10000.0) * i / width) for i in range(0, width - 1, 2)])]
    apart = {*VOCABULARIES, "output_proj.bias", "src_embedding.learned.weight", "tgt_embedding.learned.weight"}
    layers = [arrays[name].data for name in shapes if name not in apart]
    output = arrays["output_proj.weight"].data if "output_proj.weight" in arrays else target
    bias = [arrays["output_proj.bias"].data] if config.output_bias else []
    return [source, target, *positions, *layers, output, *bias]


def _start_threads(count: int) -> ThreadPoolExecutor:
    from concurrent.futures import ThreadPoolExecutor  # 4 ms, and one sentence needs no second thread

    return ThreadPoolExecutor(count, "nmt-native")
