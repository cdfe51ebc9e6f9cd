"""A stream of texts gets the same translations wherever it is taken up, and is read no faster than it is translated."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nmt import Translator
from nmt.data.read.line_blocks import FIRST_BLOCK_LINES, grow_blocks
from nmt.translation.request import Request

TEXTS = [str(1000 + 37 * number) for number in range(40)] + ["12345"] * 20


@pytest.fixture(scope="module")
def translator(digits_run) -> Translator:
    return Translator.load(digits_run, precision="fp32")


@pytest.fixture(scope="module")
def sampling(translator) -> Request:
    return Request(translator.options.changed(sample=True, temperature=2.0, top_k=4), draw_by_line=True)


def outputs(translator, texts, request, first=1) -> list[tuple[str, str]]:
    blocks = translator.translate_blocks(grow_blocks(texts), request, first)
    return [(text, t.text) for block, translations in blocks for text, t in zip(block, translations, strict=True)]


@pytest.mark.parametrize("start", [0, 1, 17, 45])
def test_samples_depend_on_the_line_and_not_on_where_a_stream_is_taken_up(start, translator, sampling):
    whole = outputs(translator, TEXTS, sampling)
    assert [text for text, _ in whole] == TEXTS
    assert outputs(translator, TEXTS[start:], sampling, start + 1) == whole[start:]
    assert len({output for _, output in whole[40:]}) > 3


def test_without_draws_by_line_equal_texts_get_equal_samples(translator, sampling):
    request = replace(sampling, draw_by_line=False)
    assert len({output for _, output in outputs(translator, ["12345"] * 20, request)}) == 1


def test_both_engines_draw_the_same_samples_for_a_line(digits_run, sampling):
    native, torch = (
        Translator.load(digits_run, engine=engine, device="cpu", precision="fp32") for engine in ("native", "torch")
    )
    assert outputs(native, TEXTS, sampling) == outputs(torch, TEXTS, sampling)


def test_a_stream_is_read_one_block_at_a_time(translator):
    read = []
    lines = (read.append(text) or text for text in TEXTS)
    block, translations = next(translator.translate_blocks(grow_blocks(lines), Request(translator.options)))
    assert (len(block), len(translations)) == (FIRST_BLOCK_LINES, FIRST_BLOCK_LINES)
    assert len(read) == FIRST_BLOCK_LINES


def test_every_translation_begins_with_the_prefix(translator):
    request = Request(translator.options, prefix="9")
    assert all(output.startswith("9") for _, output in outputs(translator, TEXTS[:5], request))
