"""How a configuration is summed up in a line."""

from __future__ import annotations

import pytest

from nmt.apps.recipes.suggestion import summary
from nmt.config import Config

DATA = {"src_lang": "de", "tgt_lang": "en", "train": {"tsv": "a.tsv"}}


@pytest.mark.parametrize(
    ("tokenizer", "vocabulary"),
    [
        ({"vocab_size": 1500}, "one vocabulary of 1,500 tokens"),
        ({"path": "runs/de-en/tokenizer"}, "the vocabulary of runs/de-en/tokenizer"),  # which has a size of its own
    ],
)
def test_the_vocabulary_in_a_summary_is_the_one_that_will_be_used(tokenizer, vocabulary):
    assert f", {vocabulary}, " in summary(Config(data=DATA, tokenizer=tokenizer))


def test_the_vocabulary_of_a_run_that_is_continued_is_that_of_the_run():
    assert ", the vocabulary of runs/de-en, " in summary(Config(data=DATA, training={"init_from": "runs/de-en"}))
