"""The native engine beside torch: every option of the model and of the search, and the same bits everywhere."""

from __future__ import annotations

import copy
import itertools
import math
import os
import random
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from nmt.artifacts.checkpoint import save_weights
from nmt.base.errors import NmtError, RunError
from nmt.base.special_tokens import EOS_ID
from nmt.config import SearchOptions
from nmt.decoding.engines import native_engine
from nmt.decoding.engines.native_engine import NativeEngine, arrays_in_order, kernels, read_arrays
from nmt.model.shapes import parameter_shapes
from nmt.model.transformer import Transformer
from tests.decoding.engines.native import (
    MODELS,
    SRC_VOCAB,
    TGT_VOCAB,
    TOKENIZERS,
    Random,
    random_ids,
    random_model,
    rounded,
)
from tests.quick import examples, quick_and_slow

pytestmark = pytest.mark.skipif(not native_engine.is_available(), reason="built without a C compiler")

SOURCES = random_ids(37)
TARGETS = random_ids(37, 0, 40, seed=2)
# What torch searches, too, which takes some milliseconds for each token of the longest output.
SEARCHED = random_ids(examples(9, 16), 1, examples(14, 40), seed=7)
MAX_LEN_FACTOR = examples(1, 2)
SEARCHES = [
    {},
    {"max_len_factor": 0.5, "max_len_offset": 1},
    {"beam_size": 4},
    {"beam_size": 5, "num_hypotheses": 5},
    {"beam_size": 12, "num_hypotheses": 12, "length_penalty": 0.0},
    {"beam_size": 5, "num_hypotheses": 3, "length_penalty": 0.6},
    {"min_len": 12},
    {"no_repeat_ngram": 2},
    {"no_repeat_ngram": 1, "min_len": 60, "max_len_offset": 100},
    {"beam_size": 3, "no_repeat_ngram": 1, "min_len": 7},
    {"sample": True, "num_hypotheses": 3},
    {"sample": True, "top_k": 5},
    {"sample": True, "top_p": 0.7, "temperature": 1.5, "num_hypotheses": 2},
    {"sample": True, "top_k": 10, "top_p": 0.5, "seed": 9},
]
# In `make test`, each search has one of two, and each model.
SEARCHES_AND_PREFIXES = quick_and_slow([*itertools.product(SEARCHES, (False, True))], lambda n, _: n % 4 in (0, 3))
MODELS_AND_PRECISIONS = quick_and_slow([*itertools.product(MODELS, ("int8", "fp32"))], lambda n, _: n % 4 in (0, 3))


@pytest.fixture(scope="module")
def model() -> Random:
    return random_model()


def all_close(first: list[list[float]], second: list[list[float]], tolerance: float) -> bool:
    pairs = [(a, b) for left, right in zip(first, second, strict=True) for a, b in zip(left, right, strict=True)]
    return all(abs(a - b) <= tolerance for a, b in pairs)


@pytest.mark.parametrize("name", MODELS)
def test_scores_and_translations_are_those_of_torch_for_every_option_of_the_model(name):
    model = random_model(**MODELS[name])
    native, reference = model.native(), model.torch()
    sources, targets = SOURCES[: (count := examples(13, 37))], TARGETS[:count]
    assert all_close(native.score(sources, targets), reference.score(sources, targets), 1e-4)
    search = SearchOptions(max_len_factor=MAX_LEN_FACTOR)
    found, expected = native.search(SEARCHED, search), reference.search(SEARCHED, search)
    assert [h.ids for (h,) in found] == [h.ids for (h,) in expected]


@pytest.mark.parametrize("name", MODELS)
def test_int8_rounds_inputs_and_weights_row_by_row(name):
    model = random_model(**MODELS[name])
    reference = Random(model.config, rounded(model.model)).torch()
    found, expected = model.native("int8").score(SOURCES, TARGETS), reference.score(SOURCES, TARGETS)
    # Keys and values are in bfloat16 here. A number between two integers may be rounded to either; layers carry it on.
    differences = sorted(abs(a - b) for x, y in zip(found, expected, strict=True) for a, b in zip(x, y, strict=True))
    assert differences[len(differences) // 2] < 0.12
    assert differences[len(differences) * 99 // 100] < 1.0


@pytest.mark.parametrize(("options", "prefixed"), SEARCHES_AND_PREFIXES, ids=str)
def test_every_search_finds_what_torch_finds(model, options, prefixed):
    prefixes = random_ids(len(SEARCHED), 0, 6, seed=4) if prefixed else None
    search = SearchOptions(**{"max_len_factor": MAX_LEN_FACTOR, **options})
    found, expected = (engine.search(SEARCHED, search, prefixes) for engine in (model.native(), model.torch()))
    for ours, theirs in zip(found, expected, strict=True):
        assert [(h.ids, h.finished) for h in ours] == [(h.ids, h.finished) for h in theirs]
        assert [h.score for h in ours] == pytest.approx([h.score for h in theirs], abs=1e-3)
        assert all_close([h.token_scores for h in ours], [h.token_scores for h in theirs], 1e-4)


@pytest.mark.parametrize(("name", "precision"), MODELS_AND_PRECISIONS)
def test_all_kernels_compute_the_same_bits(name, precision):
    model = random_model(**MODELS[name])
    sources, targets = SEARCHED[:5], TARGETS[:5]
    results = []
    for kernel in kernels():
        engine = model.native(precision, kernel=kernel)
        beam = engine.search(sources, SearchOptions(beam_size=3, num_hypotheses=3, max_len_factor=MAX_LEN_FACTOR))
        greedy = engine.search(sources, SearchOptions(max_len_factor=MAX_LEN_FACTOR))
        results.append((engine.score(sources, targets), beam, greedy, engine.cross_attention(sources[0], targets[0])))
    assert all(result == results[0] for result in results)


@pytest.mark.parametrize(
    "d_ff", [pytest.param(192, marks=pytest.mark.slow), 208]
)  # whole blocks of columns, and a rest
def test_all_kernels_compute_the_same_bits_of_any_number_of_rows(d_ff):
    model = random_model(d_model=64, num_heads=4, d_ff=d_ff, encoder_layers=1, decoder_layers=1)
    first, *others = [model.native("int8", kernel=kernel, num_threads=1) for kernel in kernels()]
    for length in range(1, 50):  # rows of the encoder; those of the decoder become fewer and fewer
        sources = random_ids(1, length, length) if length < 42 else random_ids(length, 1, 40, seed=length)
        expected = first.search(sources, SearchOptions())
        assert all(engine.search(sources, SearchOptions()) == expected for engine in others), length


def test_products_of_torch_in_bf16_are_not_disturbed_by_a_search_in_the_same_thread():
    model = random_model(d_model=64, num_heads=4, encoder_layers=1, decoder_layers=1)
    engine = model.native("int8", num_threads=1)
    rows, weights = (torch.randn(40, 64, generator=torch.manual_seed(n)).bfloat16() for n in (1, 2))
    expected = nn.functional.linear(rows, weights)
    engine.search(SOURCES, SearchOptions())
    assert torch.equal(nn.functional.linear(rows, weights), expected)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_largest_integers_overflow_in_no_kernel(sign):
    model = random_model(encoder_layers=1, decoder_layers=1, activation="relu")
    with torch.no_grad():
        for layer in (model.model.encoder_layers[0], model.model.decoder_layers[0]):
            layer.feed_forward.input_proj.weight.fill_(0.1)
            layer.feed_forward.output_proj.weight.fill_(sign * 0.1)
            nn.init.constant_(layer.feed_forward_residual.norm.weight, 0.01)  # what it puts out is nearly its bias:
            nn.init.constant_(layer.feed_forward_residual.norm.bias, sign)  # all inputs become 63, or all -63
    expected = Random(model.config, rounded(model.model)).torch().score(SOURCES[:9], TARGETS[:9])
    for kernel in kernels():
        assert all_close(model.native("int8", kernel=kernel).score(SOURCES[:9], TARGETS[:9]), expected, 0.3)


@pytest.mark.parametrize("precision", ["int8", "fp32"])
@pytest.mark.parametrize("options", [{}, {"beam_size": 3}, {"sample": True}], ids=["greedy", "beam", "sample"])
def test_order_batch_and_threads_change_no_bit(model, precision, options):
    sources, search = random_ids(examples(90, 300), 1, 30, seed=5), SearchOptions(**options)
    expected = model.native(precision, num_threads=1).search(sources, search)
    order = list(range(len(sources)))
    random.Random(6).shuffle(order)
    shuffled = model.native(precision, num_threads=3).search([sources[i] for i in order], search)
    assert shuffled == [expected[i] for i in order]
    engine = model.native(precision, num_threads=2)
    assert [hypotheses for source in sources[:20] for hypotheses in engine.search([source], search)] == expected[:20]


@pytest.mark.parametrize("precision", ["int8", "fp32"])
def test_what_an_engine_remembers_of_tokens_changes_no_bit(precision):
    """Of 1,024 tokens: the first ones that come; there are more."""
    model = random_model(positions="rotary", tgt_vocab=1300, tied_embeddings="none")
    draw = random.Random(7)
    targets = [[draw.randrange(4, 1300) for _ in range(58)] for _ in range(60)]
    sources = random_ids(len(targets), 1, 40)
    engine = model.native(precision, num_threads=1)
    first, second = engine.score(sources, targets), engine.score(sources, targets)
    assert first == second
    anew = [model.native(precision, num_threads=1).score([sources[i]], [targets[i]])[0] for i in (0, 30, 59)]
    assert anew == [first[i] for i in (0, 30, 59)]


@pytest.fixture
def large(monkeypatch) -> Random:
    """A model with products that a second thread shares, and engines that let it whenever they translate one source."""
    monkeypatch.setattr(native_engine, "CACHED_WEIGHTS", 0)
    monkeypatch.setattr(native_engine, "MOST_ALONE", 0)
    return random_model(d_model=256, num_heads=4, d_ff=544, encoder_layers=1, decoder_layers=1)


@pytest.mark.parametrize("precision", ["int8", "fp32"])
@pytest.mark.parametrize(
    "options",
    [{}, {"no_repeat_ngram": 2}, {"beam_size": 3}, {"beam_size": 2, "num_hypotheses": 2}, {"sample": True}],
    ids=str,
)
def test_a_second_thread_that_helps_with_one_source_changes_no_bit(large, precision, options):
    alone, helped = (large.native(precision, num_threads=number) for number in (1, 2))
    search = SearchOptions(**options)
    for source in SOURCES[: examples(5, 12)]:
        expected = alone.search([source], search)
        assert helped.search([source], search) == expected
        assert helped.search([source], search, drafts=[expected[0][0].ids]) == expected


def test_eight_threads_may_translate_one_source_each(large):
    engine = large.native("int8", num_threads=2)
    expected = [large.native("int8", num_threads=1).search([source], SearchOptions()) for source in SOURCES[:8]]
    found: dict[int, object] = {}

    def translate(i: int) -> None:
        found[i] = [engine.search([SOURCES[i]], SearchOptions()) for _ in range(3)]

    threads = [threading.Thread(target=translate, args=[i]) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[i] for i in range(8)] == [[each] * 3 for each in expected]


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="threads have no cores of their own on this system")
def test_a_thread_that_has_helped_may_use_all_cores_again(large):
    engine, before = large.native("int8", num_threads=2), os.sched_getaffinity(0)
    for source in SOURCES:
        engine.search([source], SearchOptions())
    assert engine._threads.get().submit(os.sched_getaffinity, 0).result() == before


@pytest.mark.parametrize("helps", [False, True])
def test_an_engine_asks_for_help_more_rarely_the_longer_it_gets_none(large, monkeypatch, helps):
    decoder, asked = native_engine._decoder, list[bool]()

    def translate(*model: object, **named: Any) -> object:
        asked.append(named["is_helped"])
        return decoder.translate(*model, **named)

    def run(job: object) -> bool:
        decoder.run(job)
        return helps and asked[-1]

    others = {name: getattr(decoder, name) for name in ("kernels", "load", "results", "help")}
    monkeypatch.setattr(native_engine, "_decoder", SimpleNamespace(translate=translate, run=run, **others))
    monkeypatch.setattr(native_engine, "MOST_ALONE", 255)
    engine = large.native("int8", num_threads=2)
    for _ in range(40):
        engine.search([[5]], SearchOptions(max_len_factor=0.0, max_len_offset=1))
    assert [i for i, is_asked in enumerate(asked) if is_asked] == ([*range(40)] if helps else [0, 2, 6, 14, 30])


def test_eight_threads_may_use_one_engine(model):
    engine = model.native("int8", num_threads=2)
    expected = engine.search(SOURCES, SearchOptions())
    found: list[object] = []
    threads = [threading.Thread(target=lambda: found.append(engine.search(SOURCES, SearchOptions()))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 8


def edited(ids: list[int], rng: random.Random) -> list[int]:
    """`ids` with a token inserted, replaced or removed."""
    at = rng.randrange(len(ids) + 1)
    return [*ids[:at], *rng.choice(([], [rng.randrange(4, TGT_VOCAB)])), *ids[at + rng.randint(0, 1) :]]


@pytest.mark.parametrize("precision", ["int8", "fp32"])
@pytest.mark.parametrize("prefixed", [False, True], ids=["", "with prefixes"])
@pytest.mark.parametrize(
    "options",
    [{}, {"min_len": 12}, {"no_repeat_ngram": 2}, {"beam_size": 2}, {"sample": True}],
    ids=str,
)
def test_a_draft_changes_no_bit_of_the_output(model, options, prefixed, precision):
    engine, options = model.native(precision), SearchOptions(**options)
    sources = SOURCES[: examples(13, 37)]
    prefixes = random_ids(len(sources), 0, 3, seed=4) if prefixed else None
    expected = engine.search(sources, options, prefixes)
    ids, rng = [hypotheses[0].ids for hypotheses in expected], random.Random(6)
    too_long = [[5] * 200] * len(sources)
    for drafts in (ids, [edited(each, rng) for each in ids], ids[1:] + ids[:1], [[], *ids[1:]], too_long):
        assert engine.search(sources, options, prefixes, drafts=drafts) == expected


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # that the process has threads
@pytest.mark.parametrize("sources", [SOURCES, SOURCES[:1]], ids=["many sources", "one source"])
def test_a_forked_process_may_use_its_parents_engine(large, sources):
    engine = large.native("int8", num_threads=2)
    expected = engine.search(sources, SearchOptions())
    if (child := os.fork()) == 0:
        os._exit(0 if engine.search(sources, SearchOptions()) == expected else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.skipif(sys.platform != "linux", reason="limits the memory of a process as Linux does")
@pytest.mark.slow
@pytest.mark.parametrize("num_threads", [1, 2])
def test_a_search_that_memory_does_not_suffice_for_is_one_error(num_threads):
    code = f"""
import resource
from nmt.config import SearchOptions
from nmt.base.errors import RunError
from tests.decoding.engines.native import random_model
engine = random_model(max_tgt_len=20_000, decoder_layers=1).native("int8", num_threads={num_threads})
engine.search([[5], [6]], SearchOptions())
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20), used + (64 << 20)))
try:
    engine.search([[5], [6]], SearchOptions(beam_size=1000, max_len_offset=20_000))
except RunError as error:
    print(error.message)
"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[3], check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "not enough memory to translate\n", "")


@pytest.mark.parametrize(("layer", "head"), [(-1, None), (0, 1), (2, 0), (1, None)])
def test_cross_attention_is_that_of_torch(model, layer, head):
    target = [*TARGETS[3], EOS_ID]
    found = model.native().cross_attention(SOURCES[3], target, layer, head)
    assert all_close(found, model.torch().cross_attention(SOURCES[3], target, layer, head), 1e-5)


@pytest.mark.parametrize(("layer", "head", "message"), [(3, None, "no decoder layer 3"), (0, 2, "no attention head 2")])
def test_a_layer_or_head_that_is_not_there_is_refused(model, layer, head, message):
    with pytest.raises(NmtError, match=message):
        model.native().cross_attention([4], [5], layer, head)


def test_sources_and_outputs_longer_than_a_block_of_keys_are_those_of_torch():
    model = random_model(max_src_len=300, max_tgt_len=400, encoder_layers=1, decoder_layers=2)
    sources = random_ids(3, 250, 299)
    options = SearchOptions(min_len=390, max_len_offset=400)
    found, expected = (engine.search(sources, options) for engine in (model.native(), model.torch()))
    assert [h.ids for (h,) in found] == [h.ids for (h,) in expected]


@pytest.mark.parametrize("precision", ["int8", "fp32"])
def test_weights_that_are_not_finite_are_refused(model, precision):
    broken = copy.deepcopy(model)
    with torch.no_grad():
        broken.model.decoder_layers[1].feed_forward.input_proj.weight[0] = float("nan")
    engine = broken.native(precision)
    for options in ({}, {"beam_size": 3}, {"sample": True}):
        with pytest.raises(RunError, match="the model's output is not finite"):
            engine.search(SOURCES[:3], SearchOptions(**options))
    with pytest.raises(RunError, match="the model's output is not finite"):
        engine.score(SOURCES[:3], TARGETS[:3])


@pytest.mark.parametrize(
    ("sources", "prefixes", "limits", "message"),
    [
        ([[5, SRC_VOCAB]], [[]], [9], "a token id is out of range"),
        ([[5, -1]], [[]], [9], "a token id is out of range"),
        ([[5]], [[TGT_VOCAB]], [9], "a token id is out of range"),
        ([[]], [[]], [9], "a source or prefix is empty or longer"),
        ([[5] * 51], [[]], [9], "a source or prefix is empty or longer"),
        ([[5]], [[6] * 62], [9], "a source or prefix is empty or longer"),
        ([[5]], [[6] * 5], [4], "a limit is out of range"),
        ([[5]], [[]], [0], "a limit is out of range"),
        ([[5]], [[]], [62], "a limit is out of range"),
        ([[5]], [[], []], [9], "there are not as many lists as sources"),
        ([[5]], [[]], [9, 9], "a sequence has another length"),
        ([[2**40]], [[]], [9], "a number is out of range"),
        ([[2**70]], [[]], [9], "a number is out of range"),
    ],
)
def test_the_decoder_checks_what_it_is_given(model, sources, prefixes, limits, message):
    engine = model.native()
    with pytest.raises(ValueError, match=message):
        translate(engine._model, sources=sources, prefixes=prefixes, limits=limits)


def translate(packed: object, **named: Any) -> object:
    """Return a job of the C module: a greedy search, unless `named` changes it."""
    arguments = {
        "options": SearchOptions(),
        "max_rows": 32,
        "numbers": native_engine.array("d"),
        "divisors": native_engine.array("d", [1.0] * (max(named["limits"]) + 1)),
        "never_generated": [0, 1, 2],
    }
    return native_engine._decoder.translate(packed, **(arguments | named))


ONE_SOURCE = {"sources": [[5]], "prefixes": [[]], "limits": [9]}


@pytest.mark.parametrize(
    ("named", "error", "message"),
    [
        ({"options": SearchOptions().model_copy(update={"top_k": 2**40})}, ValueError, "a number is out of range"),
        ({"options": SearchOptions().model_copy(update={"min_len": -1})}, ValueError, "do not go together"),
        ({"options": SearchOptions().model_copy(update={"top_p": "all"})}, TypeError, "real number"),
        ({"options": SearchOptions().model_copy(update={"beam_size": None})}, TypeError, "NoneType"),
        ({"options": SimpleNamespace(beam_size=1)}, AttributeError, "num_hypotheses"),
        ({"attention_layer": 3}, ValueError, "do not go together"),
        ({"attention_layer": 0, "options": SearchOptions(beam_size=2)}, ValueError, "do not go together"),
        ({"num_tags": -1}, ValueError, "do not go together"),
        ({"max_rows": 0}, ValueError, "too many sources or rows"),
        ({"beam_size": 4}, TypeError, "beam_size"),
        ({"drafts": [[5]], "options": SearchOptions(beam_size=2)}, ValueError, "only greedy search verifies drafts"),
        ({"terms": ([[]], b"")}, ValueError, "only beam search of up to 64 hypotheses"),
        ({"shortlist": object()}, ValueError, "invalid PyCapsule"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_decoder_reads_its_arguments_and_options_by_name(model, named, error, message):
    with pytest.raises(error, match=message):
        translate(model.native()._model, **(ONE_SOURCE | named))


def test_the_decoder_needs_every_argument_that_has_no_default(model):
    with pytest.raises(TypeError, match="limits"):
        native_engine._decoder.translate(model.native()._model, sources=[[5]], prefixes=[[]])


@pytest.mark.parametrize("name", MODELS)
def test_the_shapes_of_parameters_are_those_of_the_model(name):
    model = random_model(**MODELS[name])
    expected = {name: tuple(parameter.shape) for name, parameter in model.model.named_parameters()}
    assert parameter_shapes(model.config, SRC_VOCAB, TGT_VOCAB) == expected


def test_weights_of_another_model_are_refused(model):
    arrays = model.arrays()
    wider = arrays | {"decoder_norm.weight": arrays["decoder_norm.weight"]._replace(shape=(25,))}
    missing = {name: array for name, array in arrays.items() if name != "decoder_norm.weight"}
    halved = arrays | {"decoder_norm.weight": arrays["decoder_norm.weight"]._replace(dtype="F16")}
    for odd in (wider, missing, halved):
        with pytest.raises(RunError, match=r"these weights belong to another model: decoder_norm.weight and 0 more"):
            arrays_in_order(model.config, TOKENIZERS, odd, Path())


def parameters_in_order(model: Random) -> list[Any]:
    return arrays_in_order(model.config, TOKENIZERS, model.arrays(), Path())


def forced_scores(model: Random, arrays: list[Any], src_vocab: int) -> list[float]:
    decoder = native_engine._decoder
    tokenizers = SimpleNamespace(src=SimpleNamespace(vocab_size=src_vocab), tgt=TOKENIZERS.tgt)
    packed = decoder.load(kernels()[0], native_engine.config_numbers(model.config, tokenizers, "fp32"), arrays, False)
    forced = [list(range(TGT_VOCAB - 8, TGT_VOCAB))]
    job = translate(packed, sources=[[5]], prefixes=forced, limits=[9], never_generated=[0])
    decoder.run(job)
    return decoder.results(job)[0][0][0][3]


def test_embeddings_in_one_buffer_may_have_different_lengths():
    model = random_model(tied_embeddings="target")
    _, target, *others = parameters_in_order(model)
    apart = forced_scores(model, [target[:6].copy(), target, *others], 6)
    assert forced_scores(model, [target[:6], target, *others], 6) == apart


@pytest.mark.parametrize("options", [{"d_model": 32}, {"tied_embeddings": "all", "d_model": 48}, {}], ids=str)
def test_a_mapped_file_gives_the_model_of_one_that_is_read(options, monkeypatch, tmp_path):
    model, path = random_model(**options), tmp_path / "weights.safetensors"
    save_weights(path, dict(model.model.named_parameters()))
    found = []
    for smallest in (0, sys.maxsize):
        monkeypatch.setattr(native_engine, "MIN_MAPPED_BYTES", smallest)
        arrays = arrays_in_order(model.config, TOKENIZERS, read_arrays(path), path)
        engine = NativeEngine(model.config, arrays, TOKENIZERS)
        del arrays
        found.append(engine.search(SOURCES, SearchOptions()))
    assert found[0] == found[1]


@pytest.mark.parametrize(
    "header",
    [b"", b"[]", b"{", b'{"a": 5}', b'{"a": {"dtype": "F32", "shape": 5, "data_offsets": [0, 4]}}',
     b'{"a": {"dtype": "F32", "shape": [1], "data_offsets": [0.5, 4]}}', b"[" * 100_000],
)  # fmt: skip
def test_a_header_that_cannot_be_read_is_one_message(header, tmp_path):
    path = tmp_path / "weights.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header)
    with pytest.raises(RunError, match="cannot read these weights"):
        read_arrays(path)


def test_an_array_that_is_not_aligned_is_refused(model):
    arrays = parameters_in_order(model)
    table = np.frombuffer(arrays[0].tobytes(), np.uint8)
    odd = np.concatenate([table[:1], table])
    with pytest.raises(ValueError, match="an array does not begin at a multiple of 4 bytes"):
        forced_scores(model, [odd[1:], *arrays[1:]], SRC_VOCAB)


def test_frequencies_that_are_no_numbers_are_refused_by_the_search(model):
    arrays = parameters_in_order(model)
    arrays[2] = native_engine.array("f", [float("inf")] * len(arrays[2]))
    assert all(math.isnan(score) for score in forced_scores(model, arrays, SRC_VOCAB))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({}, ""),
        ({"attention": "gaussian"}, "model.attention: gaussian"),
        ({"activation": "mish"}, "model.activation: mish"),
        ({"d_ff": 65_537}, "models as wide as this"),
    ],
)
def test_it_says_what_it_does_not_support_of_a_model_also_if_that_is_new(model, change, reason):
    assert native_engine.unsupported(model.config.model_copy(update=change)) == reason


def test_an_option_that_it_does_not_know_is_supported_at_its_default_only(model, monkeypatch):
    monkeypatch.delitem(native_engine._SUPPORTED, "output_bias")
    assert native_engine.unsupported(model.config) == ""
    assert native_engine.unsupported(model.config.model_copy(update={"output_bias": True})) == "model.output_bias: True"


def test_a_transformer_of_the_papers_base_size_is_that_of_torch():
    torch.manual_seed(1)
    config = random_model().config.model_copy(
        update={"d_model": 512, "num_heads": 8, "d_ff": 2048, "encoder_layers": 1, "decoder_layers": 1}
    )
    model = Random(config, Transformer(config, SRC_VOCAB, TGT_VOCAB).eval())
    assert all_close(
        model.native().score(SOURCES[:5], TARGETS[:5]), model.torch().score(SOURCES[:5], TARGETS[:5]), 1e-4
    )


@pytest.mark.parametrize("options", [{}, {"min_len": 9}, {"beam_size": 2}, {"sample": True}], ids=str)
def test_an_engine_that_computes_no_scores_finds_the_same(model, options):
    with_scores, without = model.native("int8"), model.native("int8")
    without.scores = False
    found, expected = (engine.search(SOURCES, SearchOptions(**options)) for engine in (without, with_scores))
    assert [[h.ids for h in hypotheses] for hypotheses in found] == [[h.ids for h in each] for each in expected]
    if "beam_size" in options or "sample" in options:
        assert found == expected
    else:
        assert all(math.isnan(h.score) and h.token_scores == [] for (h,) in found)
