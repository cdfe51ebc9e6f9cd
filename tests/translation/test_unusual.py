"""Sources unlike the training text are recognized by rules, and usual ones are not."""

from __future__ import annotations

import pytest

from nmt.data.text.text_statistics import TextStatistics
from nmt.translation.unusual import find_unusual

USUAL = TextStatistics(pairs=1000, src_sentences=[1000], tgt_sentences=[1000], chars_per_token=2.0)


@pytest.mark.parametrize(
    ("text", "num_tokens", "reasons"),
    [
        ("Ein Mann fährt Fahrrad.", 6, []),
        ("Я живу в большом городе.", 8, ["language"]),
        ("EIN MANN FÄHRT FAHRRAD", 8, ["capitals"]),
        ("NATO", 3, []),
        ("Hund " * 6, 6, ["repetition"]),
        ("sehr sehr gut", 4, []),
        ("qx zv kj wp", 11, ["noise"]),
        ("Nguyễn", 5, []),
        ("", 0, []),
    ],
)
def test_each_reason_has_its_rule(text, num_tokens, reasons):
    assert find_unusual(text, num_tokens, "de", USUAL) == reasons


def test_capitals_and_noise_need_the_statistics_of_the_training_text():
    assert find_unusual("EIN MANN FÄHRT FAHRRAD", 22, "de", None) == []
    assert find_unusual("EIN MANN FÄHRT FAHRRAD", 8, "de", USUAL.model_copy(update={"in_capitals": 10})) == []
