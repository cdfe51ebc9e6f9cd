"""Texts in, translations out: as many, in order, whatever the batches."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys

import pytest

from nmt import Translator
from nmt.artifacts.rundir import RunDir
from nmt.base.errors import NmtError
from nmt.config import SearchOptions
from nmt.decoding.engines import native_engine
from nmt.decoding.engines.torch_engine import TorchEngine
from nmt.translation import translate


@pytest.fixture(scope="module", params=["native", "torch"])
def translator(digits_run, request):
    if request.param == "native" and not native_engine.is_available():
        pytest.skip("the native decoder was not built")
    return Translator.load(digits_run, engine=request.param, device="cpu")


def with_threads(translator: Translator, number: int) -> Translator:
    """The same model in an engine with so many threads."""
    engine = TorchEngine(translator.engine.models, translator.tokenizers, number)
    return Translator(translator.tokenizers, engine, translator.languages, translator.options, translator.statistics)


@pytest.fixture(scope="module")
def texts(digits_run):
    return RunDir(digits_run).read_pairs("test")[0]


def test_the_order_of_the_input_is_kept(translator, texts):
    assert translator.translate(texts[::-1]) == translator.translate(texts)[::-1]


def texts_of(translator: Translator, texts: list[str]) -> list[str]:
    return [translation.text for translation in translator.translate(texts)]


def test_batches_of_any_size_give_the_same(translator, texts):
    whole = translator.translate(texts)
    assert [translator.translate([text])[0] for text in texts] == whole
    assert translator.translate(texts, SearchOptions(batch_tokens=16)) == whole


def test_blank_lines_stay_blank(translator):
    assert texts_of(translator, ["", "1 2", "  \t", "\u3000"])[0::2] == ["", ""]
    assert texts_of(translator, ["", " "]) == ["", ""]
    assert translator.translate([]) == []


def test_a_text_over_the_limit_is_flagged_and_the_rest_are_not(translator):
    long, short = translator.translate([" ".join("1234567890" * 5), "1 2 3"], SearchOptions(split="never"))
    assert (long.truncated, short.truncated) == (True, False)
    assert len(long.src_ids) == 31  # and eos


@pytest.mark.parametrize("text", ["</s>", "<pad> <s>", "⁇", "\ud800", "🙂 漢字 ~", "a" * 500, "\u2028", "\x00"])
def test_odd_text_gives_one_line_without_special_tokens(translator, text):
    (out,) = texts_of(translator, [text])
    if text.startswith("<"):  # tags, which are kept as they are
        assert out == text
        return
    assert not any(mark in out for mark in ("\n", "\r", "⁇", "</s>", "<pad>", "\ufffd"))


def test_the_translator_needs_torch_only_when_it_loads_a_model():
    code = "import sys, nmt.translation; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_text_alone_is_translated_to_the_last_bit_as_among_others(digits_run, texts, precision):
    translator = Translator.load(digits_run, engine="torch", device="cpu", precision=precision)
    together = translator.translate(texts)
    for text, expected in list(zip(texts, together, strict=True))[:12]:
        assert translator.translate([text])[0] == expected


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_translator_that_has_been_used_works_in_a_forked_process(digits_run, texts):
    translator = with_threads(Translator.load(digits_run, engine="torch", device="cpu"), 2)
    expected = translator.translate(texts)
    child = multiprocessing.get_context("fork").Process(
        target=lambda: sys.exit(translator.translate(texts) != expected)
    )
    child.start()
    child.join(60)
    assert child.exitcode == 0


def test_bf16_translates_nearly_all_as_fp32_does(digits_run, texts):
    exact, rounded = (
        texts_of(Translator.load(digits_run, engine="torch", device="cpu", precision=precision), texts)
        for precision in ("fp32", "bf16")
    )
    assert sum(a == b for a, b in zip(exact, rounded, strict=True)) >= 0.9 * len(texts)


def test_searches_in_threads_find_what_one_after_another_finds(digits_run, texts):
    translator = Translator.load(digits_run, engine="torch", device="cpu")
    found = [with_threads(translator, number).translate(texts) for number in (1, 3)]
    assert found[0] == found[1]


def test_one_text_or_several_are_translated_in_one_call(digits_run):
    (alone,) = translate(["12345"], digits_run, device="cpu")
    assert translate("12345", digits_run, device="cpu") == alone
    best = translate("12345", digits_run, device="cpu", beam_size=3, num_hypotheses=2)
    assert len(best.alternatives) == 1
    assert translate([], digits_run, device="cpu") == []
    with pytest.raises(NmtError, match="unknown option 'beem'\n  did you mean 'beam_size'"):
        translate("1", digits_run, device="cpu", beem=3)
