"""What a search can be asked for, and what it cannot."""

from __future__ import annotations

import pytest

from nmt.base.errors import ConfigError
from nmt.config import Config, SearchOptions


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"beam_size": 0}, r"beam_size: .*greater than or equal to 1$"),
        ({"beam_size": 100_000}, r"beam_size: .*less than or equal to 1000$"),
        ({"length_penalty": 1000.0}, r"length_penalty: .*less than or equal to 5$"),
        ({"length_penalty": float("nan")}, r"length_penalty: .*a finite number$"),
        ({"max_len_factor": 1e308}, r"max_len_factor: .*less than or equal to 1000$"),
        ({"seed": 99999999999999999999}, r"seed: .*less than or equal to 2147483647$"),
        ({"num_hypotheses": 4}, "4 hypotheses need a beam of that size; it is 1"),
        ({"sample": True, "beam_size": 2}, "sampling and beam search cannot be combined"),
        ({"top_k": 3}, "temperature, top_k and top_p are for sampling"),
        ({"sample": True, "temperature": 0.0}, r"temperature: .*greater than or equal to 0.01$"),
        ({"sample": True, "top_p": 1.5}, r"top_p: .*less than or equal to 1$"),
        ({"max_len_factor": 0, "max_len_offset": 0}, "leaves no room for an output"),
    ],
)
def test_what_makes_no_sense_is_refused_in_plain_words(fields, message):
    with pytest.raises(ConfigError, match=message):
        SearchOptions(**fields)


def test_the_section_of_a_configuration_is_what_a_search_is_asked_for():
    assert Config.model_fields["decoding"].get_default(call_default_factory=True) == SearchOptions()
    assert SearchOptions(max_len_offset=7).max_len(10) == 27


def test_changed_options_are_checked_and_the_others_stay():
    options = SearchOptions(beam_size=5, num_hypotheses=3, min_len=2)
    assert options.changed(beam_size=4) == SearchOptions(beam_size=4, num_hypotheses=3, min_len=2)
    with pytest.raises(ConfigError, match="3 hypotheses need a beam"):
        options.changed(beam_size=2)


def test_greedy_options_leave_lengths_and_repeats_as_they_are():
    options = SearchOptions(beam_size=5, num_hypotheses=3, min_len=2, no_repeat_ngram=3, split="never")
    assert options.greedy() == SearchOptions(min_len=2, no_repeat_ngram=3, split="never")
    assert SearchOptions(sample=True, temperature=2.0, top_k=3).greedy() == SearchOptions()
