"""The engine: search by options, forced scores, attention, ensembles."""

from __future__ import annotations

import math
import shutil

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import nmt.base.device as devices
from nmt import Translator
from nmt.artifacts.rundir import RunDir
from nmt.base.errors import NmtError
from nmt.base.special_tokens import EOS_ID
from nmt.config import SearchOptions, TokenizerConfig
from nmt.data.tokens.sentencepiece_training import train_tokenizers
from nmt.data.tokens.tokenizer import TokenizerPair
from tests.quick import quick_and_slow

TEXTS = ["1 2 3", "98765", "", "4"]


@pytest.fixture(scope="module")
def translator(digits_run):
    return Translator.load(digits_run, engine="torch", device="cpu")


@pytest.fixture
def engine(translator):
    return translator.engine


def test_precision_auto_is_fp32_on_a_cpu_without_a_trial(digits_run, monkeypatch):
    monkeypatch.setattr(devices, "product_rate", lambda device, dtype: pytest.fail("a trial"))
    assert Translator.load(digits_run, engine="torch", device="cpu").engine.precision == "fp32"


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_an_engine_says_what_it_computes_in(digits_run, precision):
    assert Translator.load(digits_run, engine="torch", device="cpu", precision=precision).engine.precision == precision


def test_int8_is_refused_with_the_engine_that_has_it(digits_run):
    with pytest.raises(NmtError, match=r"torch does not support the precision int8\n  .*the native engine"):
        Translator.load(digits_run, engine="torch", device="cpu", precision="int8")


class Operations(TorchDispatchMode):
    """Counts the softmaxes whose logarithm is computed."""

    num_log_softmaxes = 0

    def __torch_dispatch__(self, function, types, inputs=(), options=None):
        self.num_log_softmaxes += "log_softmax" in str(function)
        return function(*inputs, **(options or {}))


@pytest.mark.parametrize("options", [SearchOptions(), SearchOptions(no_repeat_ngram=2, min_len=4)])
def test_greedy_search_without_scores_computes_none_and_finds_the_same(translator, digits_run, options):
    with_scores = translator.engine
    without = Translator.load(digits_run, engine="torch", device="cpu", scores=False).engine
    sources = sources_of(translator, MANY[:12])
    prefixes = [source[-1:] if i % 3 else [] for i, source in enumerate(sources)]
    found, counts = [], []
    for engine in (with_scores, without):
        with Operations() as operations:
            found.append(engine.search(sources, options, prefixes))
        counts.append(operations.num_log_softmaxes)
    assert [h.ids for (h,) in found[0]] == [h.ids for (h,) in found[1]]
    assert all(math.isnan(h.score) and h.token_scores == [] for (h,) in found[1])
    assert counts[0] > 0
    assert counts[1] == 0
    for searched in (SearchOptions(beam_size=2), SearchOptions(sample=True)):
        assert with_scores.search(sources, searched) == without.search(sources, searched)


def test_greedy_search_without_scores_refuses_a_model_whose_output_is_not_finite(digits_run):
    engine = Translator.load(digits_run, engine="torch", device="cpu", scores=False).engine
    with torch.no_grad():
        engine.models[0].output_proj.weight[5] = float("nan")
    with pytest.raises(NmtError, match="the model's output is not finite"):
        engine.search([[4, 5]], SearchOptions())


def test_forced_scores_of_weights_that_are_not_finite_are_refused(digits_run):
    engine = Translator.load(digits_run, engine="torch", device="cpu").engine
    with torch.no_grad():
        engine.models[0].output_proj.weight[0] = float("inf")
    with pytest.raises(NmtError, match="the model's output is not finite"):
        engine.score([[4, 5]], [[4]])


class SmallDevice:
    """Lets the layers of a model raise where more rows are computed at once than there is memory for."""

    def __init__(self, model, most, error):
        self.model, self.most, self.error, self.failures = model, most, error, 0

    def __enter__(self):
        self.hook = self.model.decoder_layers[0].register_forward_pre_hook(self.check)
        return self

    def __exit__(self, *exception):
        self.hook.remove()

    def check(self, layer, inputs):
        if inputs[0].size(0) > self.most:
            self.failures += 1
            raise self.error


NO_MEMORY = {
    "GPU": torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
    "Apple's GPU": RuntimeError("MPS backend out of memory (MPS allocated: 18.00 GB)."),
    "CPU": RuntimeError("[enforce fail at alloc_cpu.cpp:124] err == 0. DefaultCPUAllocator: can't allocate memory"),
    "library": RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
}
MANY = [str(7 ** (number % 9 + 1) + number) for number in range(41)]


# Quick are each error and each search: the errors are told apart before and apart from any search.
SEARCHES = {
    "greedy": SearchOptions(),
    "beam": SearchOptions(beam_size=3),
    "sampled": SearchOptions(sample=True, num_hypotheses=2),
}
HALVED = {f"{search}-{error}": (NO_MEMORY[error], SEARCHES[search]) for search in SEARCHES for error in NO_MEMORY}


@pytest.mark.parametrize(
    ("error", "options"), quick_and_slow(HALVED, lambda _, name: "greedy" in name or name.endswith("-GPU"))
)
def test_a_batch_without_memory_for_all_is_searched_by_halves_with_the_same_outputs(translator, error, options):
    engine, sources = translator.engine, sources_of(translator, MANY)
    prefixes, draws = [source[-1:] if i % 3 else [] for i, source in enumerate(sources)], list(range(41))
    whole = engine.search(sources, options, prefixes, draws)
    with SmallDevice(engine.models[0], 20, error) as small:
        assert engine.search(sources, options, prefixes, draws) == whole
    assert small.failures > 1


def test_forced_scores_without_memory_for_all_are_computed_by_halves(translator, engine):
    sources = sources_of(translator, MANY)
    whole = engine.score(sources, sources)
    with SmallDevice(engine.models[0], 6, NO_MEMORY["GPU"]):
        for found, expected in zip(engine.score(sources, sources), whole, strict=True):
            assert found == pytest.approx(expected, abs=1e-5)


def test_a_single_sentence_without_memory_for_it_is_one_error(translator, engine):
    with SmallDevice(engine.models[0], 0, NO_MEMORY["GPU"]) as small:
        for work in (lambda: engine.search([[4], [5]], SearchOptions()), lambda: engine.score([[4], [5]], [[4], [4]])):
            with pytest.raises(NmtError, match=r"not enough memory even for a single sentence\n  .*beam_size"):
                work()
    assert small.failures == 4


def test_other_errors_of_torch_are_raised_as_they_are(engine):
    device = SmallDevice(engine.models[0], 0, RuntimeError("device-side assert"))
    with device as small, pytest.raises(RuntimeError, match="device-side assert"):
        engine.search([[4], [5]], SearchOptions())
    assert small.failures == 1


def sources_of(translator, texts=("123", "98765", "4")):
    return [translator.tokenizers.src.encode(text) for text in texts]


def test_cross_attention_rows_sum_to_one_in_every_layer_and_head(translator, engine):
    source, target = translator.tokenizers.src.encode("1 2 3"), translator.tokenizers.tgt.encode("3 2 1")
    seen = []
    for layer, head in ((-1, None), (0, 2), (1, 0)):
        weights = engine.cross_attention(source, [*target, EOS_ID], layer, head)
        assert (len(weights), len(weights[0])) == (len(target) + 1, len(source) + 1)
        assert [sum(row) for row in weights] == pytest.approx([1.0] * len(weights))
        seen.append(weights)
    assert seen[0] != seen[1] != seen[2]


def test_the_attention_of_every_layer_and_head_of_a_run_is_one_call(translator):
    (segment,) = translator.translate(["1 2 3"])[0].segments
    weights = translator.attention_weights(segment)
    expected = torch.tensor(translator.cross_attention(segment, 1, 2))
    assert torch.allclose(weights.cross[1, 0, 2], expected, atol=1e-6)
    num_src, num_tgt = len(segment.src_ids) + 1, len(segment.tgt_ids) + segment.finished
    assert weights.encoder.shape[3:] == (num_src, num_src)
    assert weights.decoder.shape[3:] == (num_tgt, num_tgt)


@pytest.mark.parametrize(("layer", "head", "message"), [(2, None, "no decoder layer 2"), (0, 3, "no attention head 3")])
def test_a_layer_or_head_that_is_not_there_is_refused(engine, layer, head, message):
    with pytest.raises(NmtError, match=message):
        engine.cross_attention([4], [5], layer, head)


@pytest.mark.parametrize(
    "options",
    [
        SearchOptions(),
        SearchOptions(beam_size=4, num_hypotheses=4),
        SearchOptions(sample=True, num_hypotheses=3, temperature=3.0),
        SearchOptions(beam_size=2, no_repeat_ngram=2, min_len=5),
    ],
)
def test_the_score_of_what_was_found_is_its_forced_score(translator, engine, options):
    for source, found in zip(sources_of(translator), engine.search(sources_of(translator), options), strict=True):
        assert len(found) == options.num_hypotheses
        ranks = [options.normalized(h.score, len(h.token_scores)) for h in found]
        assert ranks == sorted(ranks, reverse=True)
        for hypothesis in [h for h in found if h.finished]:
            (forced,) = engine.score([source], [hypothesis.ids])
            assert hypothesis.token_scores == pytest.approx(forced, abs=1e-4)
            assert hypothesis.score == pytest.approx(sum(forced), abs=1e-4)


def test_a_target_over_the_limit_is_scored_up_to_it(engine):
    short, long = engine.score([[4, 5], [4, 5]], [[4] * 31, [4] * 32])
    assert (len(short), len(long)) == (32, 32)


def test_prefixes_differ_by_sentence_and_may_be_longer_than_the_usual_limit(translator, engine):
    prefixes = [translator.tokenizers.tgt.encode("77"), [], [5] * 20]
    options = SearchOptions(beam_size=3, max_len_factor=1.0, max_len_offset=3)
    for greedy in (SearchOptions(max_len_factor=1.0, max_len_offset=3), options):
        found = engine.search(sources_of(translator), greedy, prefixes)
        assert [h.ids[: len(prefix)] for (h, *_), prefix in zip(found, prefixes, strict=True)] == prefixes
    with pytest.raises(NmtError, match="a prefix of 32 tokens is too long"):
        engine.search([[4]], options, [[5] * 32])


def test_an_ensemble_of_one_run_twice_is_that_run(translator, digits_run):
    twice = Translator.load([RunDir(digits_run)] * 2, engine="torch", device="cpu")
    for options in (SearchOptions(), SearchOptions(beam_size=3)):
        both = [each.translate(TEXTS, options) for each in (translator, twice)]
        assert [t.text for t in both[0]] == [t.text for t in both[1]]
        assert [t.score for t in both[0]] == pytest.approx([t.score for t in both[1]], abs=1e-4)


def test_runs_with_different_tokenizers_are_refused(digits_run, tmp_path):
    other = RunDir(tmp_path / "other")
    shutil.copytree(digits_run, other.path)
    config = TokenizerConfig(type="char", vocab_size=300)
    train_tokenizers(config, lambda: ["abc 123"] * 50, lambda: ["xyz 456"] * 50, seed=1).save(
        other.tokenizer, overwrite=True
    )
    assert TokenizerPair.load(other.tokenizer).joint
    with pytest.raises(NmtError, match=r"other: this run and .* have different tokenizers"):
        Translator.load([RunDir(digits_run), other], engine="torch", device="cpu")


def test_n_best_of_a_blank_text_is_one_blank(translator):
    found = translator.translate(TEXTS, SearchOptions(beam_size=3, num_hypotheses=3))
    assert [1 + len(each.alternatives) for each in found] == [3, 3, 1, 3]
    assert found[2].text == ""


def test_given_translations_are_scored_in_order(translator):
    sources, right = ["123", "98765", "4"], ["321", "56789", "4"]
    scored = translator.score(sources, right)
    assert [s.tgt_ids for s in scored] == [translator.tokenizers.tgt.encode(text) for text in right]
    assert all(s.score == pytest.approx(sum(s.token_scores)) and not s.truncated for s in scored)
    wrong = translator.score(sources, ["111", "1", ""])
    assert all(good.score > bad.score for good, bad in zip(scored, wrong, strict=True))
    assert translator.score(["1" * 50], ["2"])[0].truncated


def test_a_search_keeps_nothing_for_a_backward_pass(engine, monkeypatch):
    (model,), kept = engine.models, []
    encode = model.encode

    def noted(src, **named):
        memory = encode(src, **named)
        kept.append(memory.states.requires_grad)
        return memory

    monkeypatch.setattr(model, "encode", noted)
    engine.search([[5, 6, 7]], SearchOptions())
    assert kept == [False]
