"""Recorded steps give what plain ones give.

A recording of traced operations stands for a CUDA graph here: as in one, numbers of Python stay what they were when it
was made, tensors are those it was made with, and nothing but the operations happens again.
"""

from __future__ import annotations

import gc
import weakref

import pytest
import torch

from nmt import Translator
from nmt.base.special_tokens import BOS_ID, PAD_ID
from nmt.config import SearchOptions
from nmt.decoding.beam import beam_search
from nmt.decoding.constraints import Constraints
from nmt.decoding.cuda_graphs import MIN_STEPS_LEFT, STEPS_BEFORE, StepRecordings, rounded_up
from nmt.decoding.decoder import Decoder
from nmt.decoding.engines.torch_engine import BATCHES_PER_RECORDING
from nmt.decoding.greedy import greedy_search
from nmt.decoding.static_cache import StaticKVCache
from tests.model.test_transformer import ids, make
from tests.quick import examples, quick_and_slow
from tests.traced_updates import Tape

LONG = 48  # more positions than are stored at first


class Tracer:
    """Records as `record_graph` does, from traced operations; `made` counts."""

    def __init__(self):
        self.made = 0

    def __call__(self, step, last):
        self.made += 1
        # What is traced is computed. A graph that is recorded computes nothing: undone.
        caches = step_caches(step)
        tensors = [tensor for cache in caches for tensor in vars(cache).values() if torch.is_tensor(tensor)]
        before = [tensor.clone() for tensor in tensors]
        with Tape() as tape:
            result = step(last)
        for tensor, value in zip(tensors, before, strict=True):
            tensor.copy_(value)
        return lambda: tape.replay(result)


def step_caches(step) -> list[StaticKVCache]:
    """The caches that a step works on, which it holds in a closure."""
    (compute,) = (cell.cell_contents for cell in step.__closure__ if callable(cell.cell_contents))
    return compute.args[-1]


def both(models, src, max_len, beam_size=1):
    """A plain decoder, one with recorded steps, and its recorder."""
    record = Tracer()
    plain = Decoder(models, src, max_len, beam_size, 1)
    recorded = Decoder(models, src, max_len, beam_size, 1, StepRecordings(models, record))
    return plain, recorded, record


def long_model(**kind):
    """With one layer a side, unless `kind` says otherwise: each operation is traced, in a millisecond."""
    return make(**{"encoder_layers": 1, "decoder_layers": 1, **kind}, max_src_len=LONG, max_tgt_len=LONG)


def sources():
    src = ids(5, 9)
    src[1, 4:] = PAD_ID
    return src


@pytest.mark.parametrize(
    ("attention", "positions"),
    [
        pytest.param("scaled_dot_product", "sinusoidal", marks=pytest.mark.slow),
        ("scaled_dot_product", "rotary"),
        pytest.param("additive", "learned", marks=pytest.mark.slow),
        pytest.param("gaussian", "learned", marks=pytest.mark.slow),
    ],
)
@torch.inference_mode()
def test_cuda_graphs_steps_equal_plain_ones_as_storage_grows(attention, positions):
    model = long_model(attention=attention, positions=positions, encoder_layers=2, decoder_layers=2)
    plain, recorded, record = both([model], sources(), LONG)
    last = torch.full((5,), BOS_ID)
    for _ in range(LONG):
        expected, found = plain.step(last), recorded.step(last)
        assert torch.allclose(expected, found, atol=1e-4)
        last = expected.argmax(1)
    assert record.made == 2  # with capacity for 32 positions, and for 64


@torch.inference_mode()
def test_a_sentence_that_takes_a_free_place_gets_the_steps_it_gets_alone():
    model, record, src = long_model(), Tracer(), ids(7, 9)
    decoder = Decoder([model], src[:4], 24, 1, 1, StepRecordings([model], record))
    decoder.graph_step.waiting = src[4:]
    alone = [decode(Decoder([model], src[i : i + 1], 24, min_rows=1), 24)[:, 0] for i in range(7)]
    last = torch.full((4,), BOS_ID)
    for step in range(18):
        found = decoder.step(last)
        for place, (number, length) in enumerate(zip(decoder.numbers, decoder.lengths, strict=True)):
            assert torch.allclose(found[place], alone[number][length - 1], atol=1e-4)
        last = found.argmax(1)
        if step in (2, 9):
            decoder.running[[1, 2] if step == 2 else [0]] = False
            rows, fresh = decoder.replace_finished()
            assert torch.equal(rows, torch.arange(4))
            last[fresh] = BOS_ID
    assert decoder.numbers.tolist() == [6, 4, 5, 3]
    assert record.made == 1


@torch.inference_mode()
def test_free_places_are_dropped_only_when_no_sentence_waits_and_half_of_them_are_free():
    model, record, src = long_model(), Tracer(), ids(9, 9)
    decoder = Decoder([model], src[:8], 24, 1, 1, StepRecordings([model], record))
    decoder.graph_step.waiting = src[8:]
    alone = [decode(Decoder([model], src[i : i + 1], 24, min_rows=1), 24)[:, 0] for i in range(9)]
    last = torch.full((8,), BOS_ID)
    ended = {2: [0, 1, 2, 3, 4], 5: [5]}  # places, after a step
    kept = {2: 8, 5: 3}
    for step in range(20):
        found = decoder.step(last)
        for place in decoder.running.nonzero()[0]:
            assert torch.allclose(found[place], alone[decoder.numbers[place]][decoder.lengths[place] - 1], atol=1e-4)
        last = found.argmax(1)
        if step in ended:
            decoder.running[ended[step]] = False
            changed = decoder.replace_finished()
            if changed is not None:
                rows, fresh = changed
                last = last[rows].index_fill(0, fresh, BOS_ID)
            assert decoder.num_places == kept[step]
    assert sorted(decoder.numbers[decoder.running].tolist()) == [6, 7, 8]


@torch.inference_mode()
def test_short_outputs_are_not_recorded():
    num_steps = STEPS_BEFORE + MIN_STEPS_LEFT - 1
    _, recorded, record = both([long_model()], sources(), num_steps)
    for _ in range(num_steps):
        recorded.step(torch.full((5,), BOS_ID))
    assert record.made == 0


def decode(decoder, num_steps):
    last, log_probs = torch.full((decoder.num_places,), BOS_ID), []
    for _ in range(num_steps):
        log_probs.append(decoder.step(last).clone())
        last = log_probs[-1].argmax(1)
    return torch.stack(log_probs)


@torch.inference_mode()
def test_later_batches_of_a_shape_are_replayed_from_the_recordings_of_the_first():
    model, record = long_model(), Tracer()
    recordings = StepRecordings([model], record)
    for _ in range(3):
        src = sources()
        expected = decode(Decoder([model], src, LONG, min_rows=1), LONG)
        assert torch.allclose(
            decode(Decoder([model], src, LONG, min_rows=1, recordings=recordings), LONG), expected, atol=1e-4
        )
    assert record.made == 2  # with capacity for 32 positions, and for 64


@torch.inference_mode()
def test_batches_that_are_decoded_at_once_do_not_share_a_recording():
    model = long_model()
    recordings = StepRecordings([model], Tracer())
    batches = [sources(), sources()]
    expected = [decode(Decoder([model], src, LONG, min_rows=1), 20) for src in batches]
    decoders = [Decoder([model], src, LONG, min_rows=1, recordings=recordings) for src in batches]
    lasts = [torch.full((5,), BOS_ID) for _ in batches]
    for step in range(20):
        for i, decoder in enumerate(decoders):
            log_probs = decoder.step(lasts[i])
            assert torch.allclose(log_probs, expected[i][step], atol=1e-4)
            lasts[i] = log_probs.argmax(1)


@torch.inference_mode()
def test_recordings_that_take_too_much_memory_are_dropped():
    model, record = long_model(), Tracer()
    recordings = StepRecordings([model], record, max_bytes=0)
    for _ in range(2):
        decode(Decoder([model], sources(), 20, min_rows=1, recordings=recordings), 20)
    assert record.made == 2


def test_sizes_are_rounded_up_to_few_with_little_padding():
    sizes = [rounded_up(size) for size in range(1, 1025)]
    assert len(set(sizes)) == 36
    assert all(size <= rounded <= 1.25 * size for size, rounded in enumerate(sizes, 1))


@torch.inference_mode()
def test_if_recording_fails_one_warning_says_so_and_steps_are_computed_as_they_are(caplog):
    def refuse(step, last):
        raise RuntimeError("operation not permitted when stream is capturing")

    model, src = long_model(), sources()
    recordings = StepRecordings([model], refuse)
    expected = decode(Decoder([model], src, 20, min_rows=1), 20)
    for _ in range(2):
        found = decode(Decoder([model], src, 20, min_rows=1, recordings=recordings), 20)
        assert torch.allclose(found, expected, atol=1e-4)
    message = "decoding without CUDA graphs, which would be faster: recording failed: operation not permitted"
    assert [record.message[: len(message)] for record in caplog.records] == [message]


@pytest.mark.parametrize("num_models", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_greedy_search_with_recorded_steps_finds_what_it_finds_without(num_models):
    models, limits = [long_model() for _ in range(num_models)], [40, 7, 40, 23, 40]
    found = []
    *decoders, record = both(models, sources(), 40)
    for decoder in decoders:
        constraints = Constraints(SearchOptions(), [], (), decoder.num_places, decoder.device)
        found.append(greedy_search(decoder, limits, constraints))
    plain, recorded = found
    assert record.made
    assert [each.ids for (each,) in plain] == [each.ids for (each,) in recorded]
    assert [each.score for (each,) in plain] == pytest.approx([each.score for (each,) in recorded], abs=1e-3)


def test_beam_search_with_recorded_steps_finds_what_it_finds_without():
    options, limits = SearchOptions(beam_size=3, num_hypotheses=3), [30, 7, 30, 23, 30]
    found = []
    *decoders, record = both([long_model()], sources(), 30, beam_size=3)
    for decoder in decoders:
        constraints = Constraints(options, [], (), 3 * decoder.num_places, decoder.device)
        found.append(beam_search(decoder, limits, constraints, options))
    assert record.made
    plain, recorded = ([[each.ids for each in one] for one in each] for each in found)
    assert plain == recorded


KINDS = {
    "greedy": SearchOptions(),
    "without repeats": SearchOptions(no_repeat_ngram=2, min_len=4),
    "beam": SearchOptions(beam_size=3, num_hypotheses=2),
    "beam without repeats": SearchOptions(beam_size=2, no_repeat_ngram=2, min_len=3),
    "sampled": SearchOptions(sample=True, num_hypotheses=2, seed=3),
}


@pytest.fixture(scope="module")
def engines(digits_run):
    """An engine as on a CPU, and one as on a GPU, whose steps are replayed and whose rows are filled again."""
    plain, refilling = (Translator.load(digits_run, engine="torch", device="cpu") for _ in range(2))
    refilling.engine.recordings = StepRecordings(refilling.engine.models, Tracer())
    refilling.engine.batches_per_search = BATCHES_PER_RECORDING
    return plain, refilling


@pytest.mark.parametrize("options", quick_and_slow(KINDS, lambda _, name: name in ("greedy", "beam without repeats")))
def test_rows_filled_again_give_the_outputs_of_sentences_alone_in_any_order(engines, options):
    options = options.changed(batch_tokens=70)  # four sentences of 16 tokens at once
    plain, refilling = engines
    sources = [plain.tokenizers.src.encode(str(7 ** (number % 9 + 1) + number)) for number in range(examples(13, 23))]
    prefixes = [source[-1:] if i % 3 == 0 else [] for i, source in enumerate(sources)]
    draws = list(range(len(sources)))
    alone = [
        plain.engine.search([source], options, [prefix], [draw])[0]
        for source, prefix, draw in zip(sources, prefixes, draws, strict=True)
    ]
    together = refilling.engine.search(sources, options, prefixes, draws)
    backwards = refilling.engine.search(sources[::-1], options, prefixes[::-1], draws[::-1])[::-1]
    for found in (together, backwards):
        assert [[each.ids for each in one] for one in found] == [[each.ids for each in one] for one in alone]
        scores = [each.score for one in found for each in one]
        assert scores == pytest.approx([each.score for one in alone for each in one], abs=1e-3)


def test_texts_translated_with_rows_filled_again_are_those_of_batches(engines):
    plain, refilling = engines
    texts = [str(3 ** (number % 15)) for number in range(60)]
    options = SearchOptions(batch_tokens=100)
    assert [t.text for t in refilling.translate(texts, options)] == [t.text for t in plain.translate(texts, options)]


@torch.inference_mode()
def test_a_decoder_is_gone_with_its_last_reference():
    """Its caches and recordings are large: they must not wait for the collector of cycles."""
    gc.disable()
    try:
        decoders = both([long_model()], sources(), 8)[:2]
        for decoder in decoders:
            decoder.step(torch.full((5,), BOS_ID))
        references = [weakref.ref(decoder) for decoder in decoders]
        del decoder, decoders
        assert [reference() for reference in references] == [None, None]
    finally:
        gc.enable()
