"""Searches with a lexical shortlist: the native engine beside torch, and the same bits everywhere."""

from __future__ import annotations

import gc
import math
import random
import threading
from array import array
from typing import Any

import pytest

from nmt.base.errors import NmtError
from nmt.base.special_tokens import EOS_ID
from nmt.config import SearchOptions
from nmt.data.lexicon.shortlist import Shortlist
from nmt.decoding.engines import native_engine
from nmt.decoding.engines.native_engine import NativeEngine, kernels
from nmt.decoding.engines.torch_engine import TorchEngine
from tests.decoding.engines.native import MODELS, SRC_VOCAB, TGT_VOCAB, Random, random_ids, random_model
from tests.decoding.engines.test_native_engine import MAX_LEN_FACTOR, SEARCHED, SEARCHES_AND_PREFIXES, all_close
from tests.quick import examples

native_only = pytest.mark.skipif(not native_engine.is_available(), reason="built without a C compiler")

SOURCES = random_ids(37)
WIDE_VOCAB = 700
"""Target tokens of a model whose shortlists fill several registers."""


def random_shortlist(vocab_size: int = TGT_VOCAB, most: int = 3, seed: int = 11) -> Shortlist:
    draw = random.Random(seed)
    lists = [draw.sample(range(4, vocab_size), draw.randint(0, most)) for _ in range(SRC_VOCAB)]
    return Shortlist.from_lists(lists, draw.sample(range(4, vocab_size), 2))


def with_shortlist(engine: Any, shortlist: Shortlist | None = None) -> Any:
    chosen = shortlist or random_shortlist()
    engine.load_shortlist = lambda: chosen
    return engine


def everything() -> Shortlist:
    return Shortlist.from_lists([[] for _ in range(SRC_VOCAB)], range(4, TGT_VOCAB))


@pytest.fixture(scope="module")
def model() -> Random:
    return random_model()


@pytest.fixture(scope="module")
def wide() -> Random:
    return random_model(tgt_vocab=WIDE_VOCAB, tied_embeddings="target")


@native_only
@pytest.mark.parametrize(("options", "prefixed"), SEARCHES_AND_PREFIXES, ids=str)
def test_every_search_finds_what_torch_finds(model, options, prefixed):
    prefixes = random_ids(len(SEARCHED), 0, 6, seed=4) if prefixed else None
    search = SearchOptions(**{"max_len_factor": MAX_LEN_FACTOR, **options}, shortlist=True)
    engines = with_shortlist(model.native()), with_shortlist(model.torch())
    found, expected = (engine.search(SEARCHED, search, prefixes) for engine in engines)
    for ours, theirs in zip(found, expected, strict=True):
        assert [(h.ids, h.finished) for h in ours] == [(h.ids, h.finished) for h in theirs]
        assert [h.score for h in ours] == pytest.approx([h.score for h in theirs], abs=1e-3)
        assert all_close([h.token_scores for h in ours], [h.token_scores for h in theirs], 1e-4)


@native_only
@pytest.mark.parametrize("precision", ["int8", "fp32"])
@pytest.mark.parametrize("name", ["as it comes", "nothing tied", "target tied", "output bias", "large heads"])
def test_all_kernels_compute_the_same_bits(name, precision):
    model = random_model(**MODELS[name])
    greedy = SearchOptions(shortlist=True, max_len_factor=MAX_LEN_FACTOR)
    searches = [greedy, greedy.changed(beam_size=3, num_hypotheses=3)]
    engines = [with_shortlist(model.native(precision, kernel=kernel)) for kernel in kernels()]
    results = [[engine.search(SEARCHED, search) for search in searches] for engine in engines]
    assert all(result == results[0] for result in results)


@native_only
@pytest.mark.parametrize("precision", ["int8", "fp32"])
@pytest.mark.parametrize("options", [{}, {"beam_size": 3}, {"sample": True}], ids=["greedy", "beam", "sample"])
def test_order_batch_and_threads_change_no_bit(wide, precision, options):
    shortlist, search = random_shortlist(WIDE_VOCAB, 40), SearchOptions(**options, shortlist=True)
    sources = random_ids(examples(60, 150), 1, 20, seed=5)
    expected = with_shortlist(wide.native(precision, num_threads=1), shortlist).search(sources, search)
    order = list(range(len(sources)))
    random.Random(6).shuffle(order)
    shuffled = with_shortlist(wide.native(precision, num_threads=3), shortlist).search(
        [sources[i] for i in order], search
    )
    assert shuffled == [expected[i] for i in order]
    engine = with_shortlist(wide.native(precision, num_threads=1), shortlist)
    assert [hypotheses for source in sources[:20] for hypotheses in engine.search([source], search)] == expected[:20]


@native_only
def test_a_wide_vocabulary_gives_what_torch_gives(wide):
    shortlist, search = random_shortlist(WIDE_VOCAB, 40), SearchOptions(beam_size=2, shortlist=True)
    sources = random_ids(examples(20, 50), 1, 20, seed=8)
    engines = with_shortlist(wide.native(), shortlist), with_shortlist(wide.torch(), shortlist)
    found, expected = (engine.search(sources, search) for engine in engines)
    assert [h.ids for (h,) in found] == [h.ids for (h,) in expected]


@pytest.mark.parametrize("options", [{}, {"beam_size": 3}, {"sample": True}], ids=["greedy", "beam", "sample"])
def test_torch_gives_a_sentence_alone_what_it_gives_among_others(model, options):
    search, engine = (
        SearchOptions(max_len_factor=MAX_LEN_FACTOR, **options, shortlist=True),
        with_shortlist(model.torch()),
    )
    sources = random_ids(examples(4, 6), 1, 15)  # of one padded width
    together = engine.search(sources, search)
    assert [hypotheses for source in sources for hypotheses in engine.search([source], search)] == together


def engines_of(model: Random) -> list[NativeEngine | TorchEngine]:
    return [model.torch(), *([model.native()] if native_engine.is_available() else [])]


def test_outputs_hold_only_tokens_of_the_shortlist_and_the_prefix(model):
    shortlist, prefixes = random_shortlist(), random_ids(len(SOURCES), 0, 3, seed=4)
    for engine in engines_of(model):
        found = with_shortlist(engine, shortlist).search(SOURCES, SearchOptions(shortlist=True), prefixes)
        for source, prefix, (hypothesis,) in zip(SOURCES, prefixes, found, strict=True):
            assert hypothesis.ids[: len(prefix)] == prefix
            assert set(hypothesis.ids) <= set(shortlist.outputs(source, prefix))


def test_a_shortlist_of_all_tokens_changes_no_translation(model):
    for engine in engines_of(model):
        found = with_shortlist(engine, everything()).search(SOURCES, SearchOptions(shortlist=True))
        assert [h.ids for (h,) in found] == [h.ids for (h,) in engine.search(SOURCES, SearchOptions())]


def test_probabilities_over_the_shortlist_sum_to_one(model):
    nothing = Shortlist.from_lists([[] for _ in range(SRC_VOCAB)], [7])  # and eos
    for engine in engines_of(model):
        search = SearchOptions(beam_size=2, num_hypotheses=2, max_len_factor=0.0, max_len_offset=1, shortlist=True)
        (found,) = with_shortlist(engine, nothing).search([[5, 6]], search)
        assert {tuple(h.ids) for h in found} == {(), (7,)}
        assert sum(math.exp(h.score) for h in found) == pytest.approx(1.0, abs=1e-5)


def test_scoring_given_translations_uses_the_whole_vocabulary(model):
    for engine in engines_of(model):
        expected = engine.score(SOURCES, SOURCES)
        assert with_shortlist(engine).score(SOURCES, SOURCES) == expected


def test_an_engine_without_a_shortlist_says_so(model):
    for engine in engines_of(model):
        with pytest.raises(NmtError, match=r"^this model has no shortlist"):
            engine.search(SOURCES, SearchOptions(shortlist=True))


@native_only
def test_eight_threads_may_use_one_engine(model):
    engine, search = with_shortlist(model.native("int8", num_threads=2)), SearchOptions(shortlist=True)
    expected = engine.search(SOURCES, search)
    found: list[object] = []
    threads = [threading.Thread(target=lambda: found.append(engine.search(SOURCES, search))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 8


@native_only
def test_a_shortlist_outlives_the_job_that_uses_it(model):
    engine = model.native(num_threads=1)
    engine.load_shortlist = random_shortlist  # a new one each time
    found = engine.search(SOURCES, SearchOptions(shortlist=True))
    del engine.__dict__["_shortlist"]
    gc.collect()
    assert engine.search(SOURCES, SearchOptions(shortlist=True)) == found


@native_only
@pytest.mark.parametrize(
    "parts",
    [
        ([0, 1], [5], []),
        ([0] * SRC_VOCAB + [2], [5], []),
        ([1] * (SRC_VOCAB + 1), [5], []),
        ([0, 1, 0, *[1] * (SRC_VOCAB - 2)], [5], []),
        ([0] * SRC_VOCAB + [1], [TGT_VOCAB], []),
        ([0] * SRC_VOCAB + [1], [-1], []),
        ([0] * (SRC_VOCAB + 1), [], [TGT_VOCAB]),
    ],
    ids=["too few", "beyond the end", "not from 0", "backward", "no token", "negative", "no token for all"],
)
def test_c_refuses_lists_that_do_not_fit_the_vocabularies(model, parts):
    buffers = [array("i", part) for part in parts]
    with pytest.raises(ValueError, match=r"^the candidates are not those of the model's vocabularies$"):
        native_engine._decoder.shortlist(model.native()._model, *buffers)


@native_only
def test_c_refuses_the_shortlist_of_another_model(model):
    engine, other = (with_shortlist(model.native()) for _ in range(2))
    engine.__dict__["_shortlist"] = other._shortlist
    with pytest.raises(ValueError, match=r"^the shortlist is one of another model$"):
        engine.search(SOURCES, SearchOptions(shortlist=True))


def test_eos_is_always_among_the_outputs():
    assert EOS_ID in random_shortlist().outputs([])
