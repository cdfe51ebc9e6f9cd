"""Feed the native decoder random models and calls, valid and invalid: it must answer or raise an exception.

    python scripts/fuzz_native.py --seconds 60           # prints its seed
    python scripts/fuzz_native.py --seed 7 --first 1234  # from case 1,234 of seed 7 on
    python scripts/fuzz_native.py --leaks                # 2,000 searches must not leak memory

Each case draws a configuration, weights (NaN, infinite, huge and denormal ones too), a kernel and a precision, then
searches, scores and attends through the engine, and calls the C module with wrong ids, lengths, counts and buffers.
ValueError, RunError and MemoryError are expected; anything else ends the run with exit code 1. Memory errors and
undefined behavior show up under the sanitizers (scripts/sanitize.py).
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import gc
import math
import random
import resource
import sys
import threading
import time
from array import array
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from nmt.base.errors import RunError
from nmt.config import SearchOptions
from nmt.config.model import ModelConfig
from nmt.data.lexicon.shortlist import Shortlist
from nmt.data.tokens.tokenizer import TokenizerPair
from nmt.decoding.engines import native_engine
from nmt.decoding.engines.native_engine import Array, NativeEngine, NativePrecision, arrays_in_order, kernels
from nmt.decoding.native import _decoder
from nmt.model.shapes import parameter_shapes

decoder: Any = _decoder
REFUSALS = (ValueError, RunError, MemoryError)
WRONG_TYPES = (TypeError, AttributeError, OverflowError)
"""Refusals of arguments that are missing, of another type, or too large for C."""
MAX_LEAK = 20_000
"""Bytes that 2,000 searches may leave behind, such as grown dictionaries in Python. A single search uses more."""

VALUES: dict[str, Callable[[np.random.Generator, tuple[int, ...]], Any]] = {
    "normal": lambda draw, shape: draw.normal(0, 0.3, shape),
    "large": lambda draw, shape: draw.normal(0, 30, shape),
    "huge": lambda draw, shape: draw.choice([-3.4e38, -1e20, 1e20, 3.4e38], shape),
    "denormal": lambda draw, shape: draw.choice([-1e-42, 1e-45, 1e-38, 0], shape),
    "zero": lambda draw, shape: np.zeros(shape),
    "NaN": lambda draw, shape: np.full(shape, np.nan),
    "infinite": lambda draw, shape: draw.choice([-np.inf, np.inf], shape),
}


class Model:
    """A random model that the native decoder supports."""

    def __init__(self, draw: random.Random):
        self.config = random_config(draw)
        self.tokenizers = random_tokenizers(draw, self.config.tied_embeddings == "all")
        self.precision: NativePrecision = draw.choice(("int8", "fp32"))
        self.kernel = draw.choice(kernels())
        sizes = self.tokenizers.src.vocab_size, self.tokenizers.tgt.vocab_size
        numbers = np.random.default_rng(draw.getrandbits(64))
        usual = draw.choice(("normal", "normal", "normal", *VALUES))
        rare = draw.choice(list(VALUES))
        arrays = {}
        for name, shape in parameter_shapes(self.config, *sizes).items():
            kind = rare if draw.random() < 0.03 else usual
            arrays[name] = Array(shape, "F32", np.asarray(VALUES[kind](numbers, shape), dtype=np.float32))
        self.arrays = arrays_in_order(self.config, self.tokenizers, arrays, Path())

    def engine(self, num_threads: int) -> NativeEngine:
        """Return the engine of this model."""
        return NativeEngine(
            self.config, self.arrays, self.tokenizers, self.precision, kernel=self.kernel, num_threads=num_threads
        )


def random_config(draw: random.Random) -> ModelConfig:
    """Return a small configuration, its sizes around the multiples of 16 that the decoder pads to."""
    num_heads = draw.choice((1, 1, 2, 3, 5))
    return ModelConfig(
        num_heads=num_heads,
        d_model=num_heads * draw.choice((2, 4, 8, 14, 16, 18, 32, 34, 66)),
        d_ff=draw.choice((1, 7, 15, 16, 17, 33, 70)),
        encoder_layers=draw.randint(1, 2),
        decoder_layers=draw.randint(1, 3),
        positions=draw.choice(("sinusoidal", "learned", "rotary")),
        norm_position=draw.choice(("pre", "post")),
        norm=draw.choice(("layer", "rms")),
        activation=draw.choice(("relu", "gelu", "silu", "swiglu", "relu2")),
        qk_norm=draw.choice((False, False, True, "self")),
        tied_embeddings=draw.choice(("none", "target", "all")),
        output_bias=draw.random() < 0.5,
        max_src_len=draw.choice((2, 3, 15, 16, 17, 50, 300)),
        max_tgt_len=draw.choice((2, 3, 15, 16, 17, 60)),
    )


def random_tokenizers(draw: random.Random, tied: bool) -> TokenizerPair:
    """Return the parts of two tokenizers that the engine reads."""
    src, tgt = (draw.choice((5, 6, 15, 16, 17, 43, 64, 65, 200)) for _ in range(2))
    banned = [0, 1, 2, *(id for id in range(4, tgt) if draw.random() < 0.1)]
    return cast(
        "TokenizerPair",
        SimpleNamespace(
            src=SimpleNamespace(vocab_size=tgt if tied else src),
            tgt=SimpleNamespace(vocab_size=tgt, never_generated=banned),
        ),
    )


def random_lists(draw: random.Random, count: int, max_len: int, vocabulary: int) -> list[list[int]]:
    """Return `count` lists of ids, mostly short."""
    lengths = [draw.choice((0, 1, draw.randint(0, max_len), max_len)) for _ in range(count)]
    return [[draw.randrange(vocabulary) for _ in range(length)] for length in lengths]


def random_options(draw: random.Random) -> SearchOptions:
    """Return search options, some at their limits. ValueError if they are incompatible."""
    common = {
        "max_len_factor": draw.choice((0.0, 0.5, 2.0, 1000.0)),
        "max_len_offset": draw.choice((1, 10, 1_000_000)),
        "min_len": draw.choice((0, 0, 0, 3, 60, 1_000_000)),
        "no_repeat_ngram": draw.choice((0, 0, 0, 1, 2, 3, 60, 1_000_000)),
    }
    if draw.random() < 0.35:
        return SearchOptions(
            **common,
            sample=True,
            num_hypotheses=draw.choice((1, 2, 5, 40)),
            temperature=draw.choice((0.01, 0.7, 1.0, 100.0)),
            top_k=draw.choice((0, 1, 5, 1_000_000)),
            top_p=draw.choice((1e-300, 0.3, 0.9, 1.0)),
            seed=draw.choice((0, 1, 2**31 - 1)),
        )
    beam_size = draw.choice((1, 1, 2, 3, 5, 17, 1000 if draw.random() < 0.05 else 40))
    return SearchOptions(
        **common,
        beam_size=beam_size,
        num_hypotheses=draw.randint(1, beam_size),
        length_penalty=draw.choice((0.0, 0.6, 1.0, 5.0)),
    )


def use_engine(draw: random.Random, model: Model) -> None:
    """Search, score and attend as nmt does."""
    engine = model.engine(draw.randint(1, 3))
    config, tgt_vocab = model.config, model.tokenizers.tgt.vocab_size
    count = draw.choice((0, 1, 2, 7, 40))
    sources = random_lists(draw, count, config.max_src_len + 3, model.tokenizers.src.vocab_size)
    targets = random_lists(draw, count, config.max_tgt_len, tgt_vocab)
    prefixes = None if draw.random() < 0.5 else random_lists(draw, count, min(6, config.max_tgt_len - 1), tgt_vocab)
    layer, head = draw.randint(-config.decoder_layers, config.decoder_layers - 1), draw.randrange(config.num_heads)
    engine.num_tags = draw.choice((0, 0, 1, 2))
    engine.load_shortlist = lambda: random_shortlist(draw, model)
    calls: list[Callable[[], object]] = [
        lambda: engine.search(sources, random_options(draw).changed(shortlist=True), prefixes),
        lambda: engine.search(sources, random_options(draw), prefixes),
        lambda: engine.search(sources, random_options(draw), prefixes, terms=random_terms(draw, model, count)),
        lambda: engine.score(sources, targets),
        lambda: engine.cross_attention([4, 4], [3, 4], layer, draw.choice((None, head))),
    ]
    for call in calls:
        with contextlib.suppress(*REFUSALS):
            call()
    engine.close()


def load_wrongly(draw: random.Random, model: Model) -> None:
    """Load a model with a fault: wrong numbers, sizes, counts, types or alignment."""
    numbers = list(native_engine.config_numbers(model.config, model.tokenizers, model.precision))
    arrays: list[Any] = list(model.arrays)
    at = draw.randrange(len(arrays))
    flat = np.frombuffer(memoryview(arrays[at]).cast("B"), dtype=np.uint8)
    faults: list[Callable[[], object]] = [
        lambda: arrays.pop(at),
        lambda: arrays.insert(at, arrays[at]),
        lambda: arrays.__setitem__(at, flat[: draw.randrange(len(flat))]),
        lambda: arrays.__setitem__(at, np.concatenate([flat, flat])),
        lambda: arrays.__setitem__(at, np.concatenate([flat[:1], flat])[1:]),
        lambda: arrays.__setitem__(0, np.frombuffer(model.arrays[1], dtype=np.float32)[:1]),
        lambda: arrays.reverse(),
        lambda: numbers.pop(),
        lambda: numbers.__setitem__(draw.randrange(len(numbers)), draw.choice((-1, 0, 1, 2**20, 2**31 - 1, 2**70))),
        lambda: numbers.__setitem__(draw.randrange(len(numbers)), draw.randint(0, 40)),
    ]
    for fault in draw.choices(faults, k=draw.randint(1, 2)):
        with contextlib.suppress(IndexError):  # the last array is gone
            fault()
    with contextlib.suppress(*REFUSALS):
        decoder.load(draw.choice((model.kernel, model.kernel, "none")), numbers, arrays, False)


def alias_arrays(draw: random.Random, model: Model) -> None:
    """Load a model whose two embeddings are one buffer, but of different lengths, and translate with it."""
    config = model.config.model_copy(update={"tied_embeddings": "target"})
    src, tgt = model.tokenizers.src.vocab_size, model.tokenizers.tgt.vocab_size
    longer = np.ones((max(src, tgt), config.d_model), dtype=np.float32)
    arrays = [longer[:src], longer[:tgt], *model.arrays[2:-1], longer[:tgt]]
    with contextlib.suppress(*REFUSALS):
        packed = decoder.load(
            model.kernel, native_engine.config_numbers(config, model.tokenizers, "fp32"), arrays, False
        )
        run_call(packed, valid_call(draw, model), 1)


def valid_call(draw: random.Random, model: Model) -> dict[str, Any]:
    """Return the arguments of `translate`, without the model."""
    config, tgt_vocab = model.config, model.tokenizers.tgt.vocab_size
    count = draw.choice((1, 2, 7))
    sources = [ids or [3] for ids in random_lists(draw, count, config.max_src_len, model.tokenizers.src.vocab_size)]
    prefixes = random_lists(draw, count, draw.choice((0, min(5, config.max_tgt_len))), tgt_vocab)
    limits = [max(1, len(prefix), draw.randint(1, config.max_tgt_len)) for prefix in prefixes]
    sample, longest = draw.random() < 0.4, max(limits)
    options = SimpleNamespace(
        beam_size=1 if sample else draw.choice((1, 2, 9)),
        num_hypotheses=draw.choice((1, 3)),
        sample=sample,
        min_len=draw.randint(0, 5),
        no_repeat_ngram=draw.randint(0, 3),
        top_k=draw.randint(0, 3),
        temperature=1.0,
        top_p=0.9,
    )
    num_numbers = count * options.num_hypotheses * longest if sample else 0
    is_greedy = options.beam_size == 1 and not sample
    has_terms = options.beam_size > 1 and draw.random() < 0.6
    return {
        "sources": sources,
        "prefixes": prefixes,
        "limits": limits,
        "options": options,
        "max_rows": draw.choice((1, 5, 32)),
        "numbers": array("d", [draw.random() for _ in range(num_numbers)]),
        "divisors": array("d", [draw.choice((1.0, 3.0)) for _ in range(longest + 1)]),
        "never_generated": [0, 1, 2],
        "drafts": random_lists(draw, count, 20, tgt_vocab) if is_greedy and draw.random() < 0.5 else None,
        "terms": random_terms(draw, model, count) if has_terms else None,
        "is_helped": draw.random() < 0.5,
        "with_scores": draw.random() < 0.5,
        "num_tags": draw.choice((0, 0, 1, 2, 9)),
    }


def run_call(packed: object, arguments: dict[str, Any], times: int) -> None:
    """Run a call of `translate`, several times in the same job, with the second thread that it may ask for."""
    job = decoder.translate(packed, **arguments)
    helper = threading.Thread(target=decoder.help, args=[job])
    if arguments.get("is_helped"):
        helper.start()
    for _ in range(times):
        decoder.run(job)
    decoder.results(job)
    if arguments.get("is_helped"):
        helper.join()


def random_terms(draw: random.Random, model: Model, count: int) -> tuple[list[list[int]], bytes]:
    """Return terms for `count` sources, with some forms each, and random boundaries."""
    tgt_vocab = model.tokenizers.tgt.vocab_size
    lists = []
    for _ in range(count):
        written, number = list[int](), -1
        for form in random_lists(draw, draw.choice((0, 1, 2, 5, 40)), draw.choice((1, 2, 9)), tgt_vocab):
            number += number < 0 or draw.random() < 0.6
            written += [number, len(form) or 1, *(max(4, token) for token in form or [4])]
        lists.append(written)
    return lists, bytes(draw.choice((0, 1, 1)) for _ in range(tgt_vocab))


def random_shortlist(draw: random.Random, model: Model) -> Shortlist:
    """Return the candidates of each source token, few or many."""
    tgt_vocab = model.tokenizers.tgt.vocab_size
    most = draw.choice((0, 2, 20))
    lists = random_lists(draw, model.tokenizers.src.vocab_size, most, tgt_vocab)
    return Shortlist.from_lists(lists, *random_lists(draw, 1, most, tgt_vocab))


def add_shortlist(draw: random.Random, model: Model, packed: object, arguments: dict[str, Any]) -> None:
    """Add a shortlist to a call of `translate`, unless the module rejects it as invalid."""
    parts = [array("i", part) for part in random_shortlist(draw, model)]
    if arguments["terms"] is not None and draw.random() < 0.9:  # terms need a search without a shortlist
        return
    if draw.random() < 0.5:
        part = draw.choice(parts)
        fault = draw.choice((-(2**31), -1, 0, 1, 5, 1000, 2**31 - 1))
        if part and draw.random() < 0.7:
            part[draw.randrange(len(part))] = fault
        else:
            part.append(fault)
    with contextlib.suppress(*REFUSALS):
        arguments["shortlist"] = decoder.shortlist(packed, *parts)


def spoiled_terms(draw: random.Random, number: int, lists: list[list[int]], boundaries: bytes) -> object:
    """Return terms with a fault in the lists, or in their shape."""
    terms = draw.choice(lists)
    if terms and draw.random() < 0.7:
        terms[draw.randrange(len(terms))] = draw.choice((-1, 0, 1, 2, 3, 40, 4096, 2**31 - 1, number))
    if draw.random() < 0.2:
        return draw.choice(((lists, boundaries[1:]), (lists[1:], boundaries), lists, (lists, boundaries * 2)))
    return lists, boundaries


def spoil_call(draw: random.Random, arguments: dict[str, Any]) -> None:
    """Put a fault into the arguments of `translate`; some faults leave them valid."""
    number = draw.choice((-(2**70), -2, -1, 0, 1, 2, 100, 2**20, 2**31 - 1, 2**40, 2**70))
    small = draw.choice((-(2**31), -2, -1, 0, 1, 2, 100, 100_000, 2**31 - 1))
    real = draw.choice((-1.0, 0.0, 5e-324, 1e308, math.inf, -math.inf, math.nan))
    odd_value = draw.choice((number, small, real, None, "1"))
    count = len(arguments["sources"])
    name = draw.choice((*arguments, "options", "options", "attention_layer", "attention_head", "lengths", "no name"))
    if name in ("sources", "prefixes"):
        arguments[name] = list(arguments[name])
        draw.choice(arguments[name]).append(number)
    elif name == "limits":
        arguments["limits"][draw.randrange(count)] = number
    elif name == "options":
        option = draw.choice(list(vars(arguments["options"])))
        usual = real if option in ("temperature", "top_p") else small
        setattr(arguments["options"], option, draw.choice((usual, usual, odd_value)))
        if draw.random() < 0.05:
            delattr(arguments["options"], option)
    elif name in ("numbers", "divisors"):
        size = len(arguments[name])
        odd = [array("d", [real] * size), array("d", [real] * (size + 1)), bytes(size * 8), bytes(size), array("d")]
        arguments[name] = draw.choice(odd)
    elif name == "never_generated":
        arguments[name] = draw.choice(([number], [], list(range(1000)), [3], [-1]))
    elif name == "drafts":
        arguments[name] = draw.choice(([], [[number]] * count, [[3]] * count))
    elif name == "terms" and arguments["terms"] is not None:
        arguments["terms"] = spoiled_terms(draw, number, *arguments["terms"])
    elif name in ("max_rows", "num_tags", "attention_layer", "attention_head"):
        arguments[name] = draw.choice((small, small, odd_value))
    elif name == "no name":
        draw.choice((lambda: arguments.pop(draw.choice(list(arguments))), lambda: arguments.update(beam_size=small)))()
    else:
        at = draw.choice(("sources", "prefixes", "limits"))
        arguments[at] = draw.choice((arguments[at][:-1], arguments[at] * 2, [], [[]] * len(arguments[at])))


def call_wrongly(draw: random.Random, model: Model) -> None:
    """Call the C module with a fault in the arguments, twice in the same job."""
    with contextlib.suppress(*REFUSALS):
        packed = model.engine(1)._model
        for _ in range(10):
            arguments = valid_call(draw, model)
            add_shortlist(draw, model, packed, arguments)
            spoil_call(draw, arguments)
            with contextlib.suppress(*REFUSALS, *WRONG_TYPES):
                run_call(packed, arguments, 2)


def try_case(seed: int, case: int) -> None:
    """Run the case determined by the two numbers."""
    draw = random.Random(f"{seed} {case}")
    model = Model(draw)
    with contextlib.suppress(*REFUSALS):
        use_engine(draw, model)
    load_wrongly(draw, model)
    alias_arrays(draw, model)
    call_wrongly(draw, model)


def allocated_bytes() -> int:
    """Return the number of allocated bytes (with AddressSanitizer), else of resident bytes."""
    if count := getattr(ctypes.CDLL(None), "__sanitizer_get_current_allocated_bytes", None):
        count.restype = ctypes.c_size_t
        return int(count())
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def translate_once(draw: random.Random, model: Model, packed: object) -> None:
    """Translate a few sources, or catch the exception."""
    arguments = valid_call(draw, model)
    add_shortlist(draw, model, packed, arguments)
    if draw.random() < 0.5:
        spoil_call(draw, arguments)
    with contextlib.suppress(*REFUSALS, *WRONG_TYPES):
        run_call(packed, arguments, 1)


def check_leaks(seed: int, rounds: int) -> int:
    """Return the exit code: 1 if `rounds` searches and exceptions leave more memory than Python itself keeps."""
    models = [Model(random.Random(f"{seed} {number}")) for number in range(8)]
    packed = [model.engine(1)._model for model in models]

    def run(count: int) -> int:
        for number in range(count):
            draw = random.Random(f"{seed} {number % 200}")
            at = number % len(models)
            if number % 50 == 0:
                packed[at] = models[at].engine(1)._model
                load_wrongly(draw, models[at])
            translate_once(draw, models[at], packed[at])
        gc.collect()
        return allocated_bytes()

    before = run(400)
    left = run(rounds) - before
    sys.stdout.write(f"leaks: {rounds:,} searches and refusals left {left:,} bytes\n")
    return int(left > MAX_LEAK)


def main() -> int:
    """Run cases until the time is up; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="duration (60)")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**32, help="default: from the clock")
    parser.add_argument("--first", type=int, default=0, help="number of the first case (0)")
    parser.add_argument("--verbose", action="store_true", help="print the number of each case before it runs")
    parser.add_argument(
        "--leaks", type=int, nargs="?", const=2000, default=0, help="count what N searches leave (2000)"
    )
    arguments = parser.parse_args()
    sys.stdout.write(f"seed {arguments.seed}, kernels {', '.join(kernels())}\n")
    sys.stdout.flush()
    if arguments.leaks:
        return check_leaks(arguments.seed, arguments.leaks)
    end, case = time.monotonic() + arguments.seconds, arguments.first
    while time.monotonic() < end:
        if arguments.verbose:
            sys.stdout.write(f"case {case}\n")
            sys.stdout.flush()
        try_case(arguments.seed, case)
        case += 1
    sys.stdout.write(f"{case - arguments.first:,} cases, no crash\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
