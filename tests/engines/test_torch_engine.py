"""The engine's cross-attention is a distribution over the source, for each piece of the target."""

from __future__ import annotations

import pytest

from nmt import Translator
from nmt.data.tokenizer import EOS_ID


def test_cross_attention_rows_sum_to_one(digits_run):
    translator = Translator.load(digits_run, device="cpu")
    source, target = translator.tokenizers.src.encode("1 2 3"), translator.tokenizers.tgt.encode("3 2 1")
    weights = translator.engine.cross_attention(source, [*target, EOS_ID])
    assert (len(weights), len(weights[0])) == (len(target) + 1, len(source) + 1)
    assert [sum(row) for row in weights] == pytest.approx([1.0] * len(weights))
