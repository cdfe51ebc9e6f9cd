"""The engine of an export: the same protocol, the same meaning of every option, and no torch."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from contextlib import nullcontext
from math import isnan
from pathlib import Path

import pytest

from nmt import Translator
from nmt.artifacts.rundir import RunDir
from nmt.base.errors import NmtError, RunError
from nmt.base.special_tokens import EOS_ID
from nmt.config import SearchOptions
from nmt.decoding.engines import ctranslate2_engine
from nmt.decoding.engines.ctranslate2_engine import CTranslate2Engine
from nmt.decoding.engines.torch_engine import TorchEngine

pytest.importorskip("ctranslate2", reason="needs the extra ctranslate2")

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def translator(digits_export) -> Translator:
    return Translator.load(digits_export, device="cpu")


@pytest.fixture(scope="module")
def engine(translator) -> CTranslate2Engine:
    return translator.engine


@pytest.fixture(scope="module")
def scoring(digits_export) -> CTranslate2Engine:
    """The same engine, which gives scores per token."""
    return Translator.load(digits_export, device="cpu", token_scores=True).engine


@pytest.fixture(scope="module")
def silent(digits_export) -> CTranslate2Engine:
    """The same engine, which gives no scores."""
    return Translator.load(digits_export, device="cpu", scores=False).engine


@pytest.fixture(scope="module")
def ours(digits_run, translator) -> TorchEngine:
    return TorchEngine.load([RunDir(digits_run)], translator.tokenizers, "cpu")


@pytest.fixture(scope="module")
def sources(digits_run, translator) -> list[list[int]]:
    return translator.tokenizers.src.encode_batch(RunDir(digits_run).read_pairs("test")[0])


def ids(found):
    return [[hypothesis.ids for hypothesis in hypotheses] for hypotheses in found]


def agree(a, b):
    """The same hypotheses in the same order, with the same scores, per token too."""
    assert ids(a) == ids(b)
    for first, second in zip(a, b, strict=True):
        for x, y in zip(first, second, strict=True):
            assert (y.finished, y.score) == (x.finished, pytest.approx(x.score, abs=1e-4))
            assert y.token_scores == pytest.approx(x.token_scores, abs=1e-4)


def test_greedy_search_finds_what_the_run_finds(engine, scoring, ours, sources):
    a, b = ours.search(sources, SearchOptions()), engine.search(sources, SearchOptions())
    assert ids(a) == ids(b)
    for (first,), (second,) in zip(a, b, strict=True):
        assert (second.finished, second.token_scores) == (first.finished, [])
        assert second.score == pytest.approx(first.score, abs=0.3)
        assert second.score >= first.score - 1e-4  # scaled up: the tokens that may not come have no share
    agree(a, scoring.search(sources, SearchOptions()))


def test_each_sentence_has_its_own_longest_output(engine, scoring, ours, sources):
    limits = {"max_len_factor": 0.5, "max_len_offset": 1}
    for options in (SearchOptions(**limits), SearchOptions(**limits, beam_size=4)):
        agree(ours.search(sources, options), scoring.search(sources, options))
    for source, (found,) in zip(sources, engine.search(sources, SearchOptions(**limits, sample=True)), strict=True):
        assert len(found.ids) + found.finished <= (len(source) + 1) // 2 + 1
    cut = SearchOptions(max_len_factor=0.5, max_len_offset=3)  # some end in time, some do not
    a, b = ours.search(sources, cut), engine.search(sources, cut)
    assert (ids(a), [x.finished for (x,) in a]) == (ids(b), [x.finished for (x,) in b])
    assert {x.finished for (x,) in b} == {True, False}
    agree(a, scoring.search(sources, cut))


def test_the_order_and_the_chunks_change_nothing(engine, sources, monkeypatch):
    whole = ids(engine.search(sources, SearchOptions(beam_size=3)))
    assert ids(engine.search(sources[::-1], SearchOptions(beam_size=3))) == whole[::-1]
    for size in (1, 3, 1000):
        monkeypatch.setattr(ctranslate2_engine, "CHUNK_SENTENCES", size)
        assert ids(engine.search(sources, SearchOptions(beam_size=3))) == whole
    assert engine.search([], SearchOptions()) == []


def test_every_worker_gets_something_to_do(engine, monkeypatch):
    monkeypatch.setattr(engine, "_num_workers", 3)
    assert [engine._chunk_size(n) for n in (1, 3, 4, 7, 192, 1000)] == [1, 1, 2, 3, 64, 64]


@pytest.mark.parametrize("length_penalty", [0.0, 0.6, 1.0, 2.0])
def test_the_n_best_come_in_the_order_of_our_length_penalty(engine, sources, length_penalty):
    options = SearchOptions(beam_size=5, num_hypotheses=5, length_penalty=length_penalty)
    found = engine.search(sources[:8], options)
    forced = [engine.score([source] * 5, [x.ids for x in best]) for source, best in zip(sources, found, strict=False)]
    for best, scores in zip(found, forced, strict=True):
        assert len({tuple(x.ids) for x in best}) == len(best) == 5
        ranked = [options.normalized(x.score, len(x.ids) + x.finished) for x in best]
        assert ranked == sorted(ranked, reverse=True)
        for x, token_scores in zip(best, scores, strict=True):
            # Nearly: the tokens that are never generated have a share in forced scores.
            assert x.score == pytest.approx(sum(token_scores if x.finished else token_scores[:-1]), abs=0.3)


@pytest.mark.parametrize("length_penalty", [0.0, 1.0])
def test_the_beam_finds_what_the_beam_of_the_run_finds(engine, scoring, ours, sources, length_penalty):
    options = SearchOptions(beam_size=4, num_hypotheses=2, length_penalty=length_penalty)
    a = ours.search(sources, options)
    for b in (engine.search(sources, options), scoring.search(sources, options)):
        assert sum(not same_but_for_near_ties(ours, *one) for one in zip(sources, a, b, strict=True)) == 0
        assert sum(x != y for x, y in zip(ids(a), ids(b), strict=True)) <= 2


def same_but_for_near_ties(ours, source, first, second) -> bool:
    """The same hypotheses rank by rank, or at a rank two that the run scores alike.

    Rounding depends on the processor, and CTranslate2 ranks by probabilities that are scaled up to one over the tokens
    that may come next: which of two near-ties stays in the beam is nobody's promise.
    """
    pairs = [(x.ids, y.ids) for x, y in zip(first, second, strict=True) if x.ids != y.ids]
    scores = [[sum(ours.score([source], [found])[0]) for found in pair] for pair in pairs]
    return all(abs(x - y) <= NEAR for x, y in scores)


NEAR = 0.02  # nats


def test_length_limits_and_repeated_n_grams_are_kept(engine, scoring, ours, sources):
    both = SearchOptions(min_len=9, no_repeat_ngram=2)
    agree(ours.search(sources, both), scoring.search(sources, both))
    for options in (SearchOptions(min_len=12), SearchOptions(min_len=12, beam_size=3)):
        assert all(len(found.ids) >= 12 for (found,) in engine.search(sources, options))
    for (found,) in engine.search(sources, SearchOptions(min_len=9, no_repeat_ngram=2)):
        pairs = list(zip(found.ids, found.ids[1:], strict=False))
        assert len(set(pairs)) == len(pairs)


@pytest.mark.parametrize("beam_size", [1, 4])
def test_outputs_begin_with_their_prefixes(engine, sources, translator, beam_size):
    prefixes = [translator.tokenizers.tgt.encode("9" * (i % 4)) for i in range(len(sources))]
    options = SearchOptions(beam_size=beam_size, num_hypotheses=beam_size)
    for source, prefix, best in zip(sources, prefixes, engine.search(sources, options, prefixes), strict=True):
        for found in best:
            assert found.ids[: len(prefix)] == prefix
            (token_scores,) = engine.score([source], [found.ids])
            assert found.score == pytest.approx(sum(token_scores if found.finished else token_scores[:-1]), abs=0.5)
        ranked = [options.normalized(x.score, len(x.ids) + x.finished) for x in best]
        assert ranked == sorted(ranked, reverse=True)


def test_a_prefix_may_go_beyond_the_longest_output_but_not_beyond_the_models(
    engine, scoring, ours, sources, translator
):
    (prefix,) = translator.tokenizers.tgt.encode_batch(["9" * 20])
    options = SearchOptions(max_len_factor=0.0, max_len_offset=2)
    a, b = (some.search(sources[:3], options, [prefix, [], prefix[:1]]) for some in (ours, engine))
    assert ids(a) == ids(b)
    assert [found.ids[: len(prefix)] == prefix for (found,) in b] == [True, False, False]
    agree(a, scoring.search(sources[:3], options, [prefix, [], prefix[:1]]))
    with pytest.raises(NmtError, match="a prefix of 32 tokens is too long"):
        engine.search(sources[:1], options, [prefix[:1] * 32])


def test_sampling_follows_its_seed(engine, sources):
    def draw(**values):
        return ids(engine.search(sources, SearchOptions(sample=True, temperature=2.0, **values)))

    assert draw(seed=3) == draw(seed=3)
    assert draw(seed=3) != draw(seed=4)
    assert draw(seed=3) != draw(seed=3, top_k=2)
    assert draw(seed=3, top_p=0.01) == ids(engine.search(sources, SearchOptions()))
    several = draw(num_hypotheses=3)
    assert {len(best) for best in several} == {3}


def test_forced_scores_are_those_of_the_run(engine, ours, sources, digits_run, translator):
    targets = translator.tokenizers.tgt.encode_batch(RunDir(digits_run).read_pairs("test")[1])
    targets[3], targets[4] = [], [9] * 50
    for a, b in zip(ours.score(sources, targets), engine.score(sources, targets), strict=True):
        assert b == pytest.approx(a, abs=1e-3)


@pytest.mark.parametrize(
    "options",
    [
        SearchOptions(),
        SearchOptions(beam_size=4),
        SearchOptions(beam_size=4, num_hypotheses=4),
        SearchOptions(max_len_factor=0.5, max_len_offset=3),
        SearchOptions(sample=True, seed=3, num_hypotheses=2),
    ],
    ids=["greedy", "beam", "n-best", "cut", "sample"],
)
def test_outputs_are_the_same_without_scores(engine, silent, sources, translator, options):
    prefixes = [translator.tokenizers.tgt.encode("9" * (i % 4)) for i in range(len(sources))]
    for given in (None, prefixes):
        a, b = engine.search(sources, options, given), silent.search(sources, options, given)
        assert ids(a) == ids(b)
        assert [[x.finished for x in best] for best in a] == [[x.finished for x in best] for best in b]
        # Several outputs are ranked by their scores; a single one has none.
        scores = [x.score for best in b for x in best]
        assert (
            scores == [x.score for best in a for x in best] if options.num_hypotheses > 1 else all(map(isnan, scores))
        )


def test_ctranslate2_computes_scores_only_if_they_are_read(translator, digits_export, sources, monkeypatch):
    asked = []

    class Spy:
        def translate_batch(self, *arguments, **options):
            asked.append(options["return_scores"])
            return translator.engine._model.get().translate_batch(*arguments, **options)

    several = SearchOptions(beam_size=3, num_hypotheses=2)
    for flags, options, expected in [
        ({}, SearchOptions(), True),
        ({"scores": False}, SearchOptions(), False),
        ({"scores": False}, several, True),
        ({"token_scores": True}, SearchOptions(), False),  # they are computed anew
        ({"token_scores": True}, several, True),
    ]:
        engine = Translator.load(digits_export, device="cpu", **flags).engine
        with monkeypatch.context() as patch:
            patch.setattr(engine, "_model_for", lambda _: nullcontext(Spy()))
            engine._search(sources[:2], [9, 9], options, None, exact_limits=True)
        assert asked.pop() is expected


def test_attention_is_the_mean_of_the_last_layer(engine, ours, sources, translator):
    (found,) = engine.search(sources[:1], SearchOptions())[0]
    for target in ([*found.ids, EOS_ID], found.ids, translator.tokenizers.tgt.encode("77")):
        a, b = ours.cross_attention(sources[0], target), engine.cross_attention(sources[0], target)
        assert len(b) == len(target)
        for first, second in zip(a, b, strict=True):
            assert second == pytest.approx(first, abs=1e-5)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (
            lambda engine: engine.search([[5]], SearchOptions(beam_size=2, exact=True)),
            "CTranslate2 does not support exact beam search",
        ),
        (
            lambda engine: engine.search([[5]], SearchOptions(sample=True, top_k=1, num_hypotheses=2)),
            "CTranslate2 does not support several samples with top_k 1",
        ),
        (
            lambda engine: engine.cross_attention([5], [6], layer=0),
            "CTranslate2 does not support the attention of a single layer or head",
        ),
        (
            lambda engine: engine.cross_attention([5], [6], head=1),
            "CTranslate2 does not support the attention of a single layer or head",
        ),
    ],
)
def test_what_it_cannot_do_it_says(engine, ask, message):
    with pytest.raises(NmtError) as caught:
        ask(engine)
    assert caught.value.message == message


def test_a_device_that_ctranslate2_has_not_is_refused(digits_export):
    with pytest.raises(NmtError, match="CTranslate2 does not support the device mps\n  choose cpu, cuda or auto"):
        Translator.load(digits_export, device="mps")


def test_without_the_package_the_error_says_how_to_get_it(digits_export, monkeypatch):
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(
        RunError,
        match=r'needs CTranslate2, which is not installed .*\n  in the checkout of .*: pip install "\.\[ctranslate2\]"',
    ):
        Translator.load(digits_export, device="cpu")


def run_cli(*arguments: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
    """`nmt ARGUMENTS` in a process of its own, which says at the end whether it has imported torch."""
    code = "import sys, atexit; atexit.register(lambda: sys.stderr.write(f'torch: {\"torch\" in sys.modules}'))\n"
    code += "from nmt.apps.cli import main; main()"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], input=text, capture_output=True, text=True, env=environment
    )


def test_the_command_translates_without_importing_torch(digits_export, translator, digits_run):
    texts = RunDir(digits_run).read_pairs("test")[0][:5]
    expected = "".join(done.text + "\n" for done in translator.translate(texts))
    done = run_cli("translate", "--model", str(digits_export), text="".join(text + "\n" for text in texts))
    assert (done.stdout, done.stderr, done.returncode) == (expected, "torch: False", 0)
    done = run_cli("translate", "--model", str(digits_export), "--format", "jsonl", *texts[:1])
    (best,) = translator.translate(texts[:1])
    assert len(json.loads(done.stdout)["token_scores"]) == len(best.tgt_ids) + 1
    assert (done.stderr, done.returncode) == ("torch: False", 0)
    done = run_cli("translate", "--model", str(digits_export), "--beam", "3", "--n-best", "2", *texts[:2])
    assert (len(done.stdout.splitlines()), done.stdout.splitlines()[0]) == (4, expected.splitlines()[0])
    assert (done.stderr, done.returncode) == ("torch: False", 0)


def test_given_translations_are_scored_without_importing_torch(digits_export, digits_run, tmp_path):
    (tmp_path / "a.tsv").write_text("12\t21\n345\t543\n")
    done = run_cli("score", "--model", str(digits_export), "--tsv", str(tmp_path / "a.tsv"))
    assert (done.stderr, done.returncode) == ("torch: False", 0)
    ours = Translator.load(RunDir(digits_run), precision="fp32", device="cpu").score(["12", "345"], ["21", "543"])
    assert [float(line) for line in done.stdout.split()] == pytest.approx([found.score for found in ours], abs=1e-3)


def test_an_export_is_refused_in_an_ensemble(digits_export, digits_run):
    done = run_cli("translate", "--model", str(digits_run), "--model", str(digits_export), "1")
    assert done.stderr == (
        f"error: {digits_export}: an export cannot be in an ensemble\n  give runs, or only the export\ntorch: False"
    )


def test_the_attention_of_an_export_is_drawn_without_torch(digits_export, tmp_path):
    picture = tmp_path / "a.svg"
    done = run_cli("translate", "--model", str(digits_export), "--attention", str(picture), "123")
    assert (done.returncode, picture.read_text().startswith("<?xml")) == (0, True)
    assert done.stderr.endswith("torch: False")


def test_a_damaged_export_ends_the_command_with_one_error(digits_export, tmp_path):
    shutil.copytree(digits_export, tmp_path / "out")
    (tmp_path / "out" / "model.bin").write_bytes(b"")
    done = run_cli("translate", "--model", str(tmp_path / "out"), "1")
    assert (done.stdout, done.returncode) == ("", 1)
    assert done.stderr == (
        f"error: {tmp_path / 'out' / 'model.bin'}: this file has changed since the export: it has 0 bytes, "
        f"but had {(digits_export / 'model.bin').stat().st_size:,}\n"
        "  create it again with `nmt export ctranslate2`\ntorch: False"
    )
