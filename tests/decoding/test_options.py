"""What a search can be asked for, and what it cannot."""

from __future__ import annotations

import pytest

from nmt.config import DecodingConfig
from nmt.decoding.options import SearchOptions


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"beam_size": 0}, "beam_size must be at least 1, not 0"),
        ({"beam_size": 100_000}, "beam_size must be at most 1000, not 100000"),
        ({"length_penalty": 1000.0}, "length_penalty must be at most 5.0, not 1000.0"),
        ({"length_penalty": float("nan")}, "length_penalty must be at most 5.0, not nan"),
        ({"max_len_factor": 1e308}, "max_len_factor must be at most 1000.0, not 1e.308"),
        ({"seed": 99999999999999999999}, "seed must be at most 2147483647, not 99999999999999999999"),
        ({"num_hypotheses": 4}, "4 hypotheses need a beam of that size; it is 1"),
        ({"sample": True, "beam_size": 2}, "sampling and beam search exclude each other"),
        ({"top_k": 3}, "temperature, top_k and top_p are for sampling"),
        ({"sample": True, "temperature": 0.0}, "temperature must be more than 0, not 0.0"),
        ({"sample": True, "top_p": 1.5}, "top_p must be more than 0 and at most 1, not 1.5"),
        ({"max_len_factor": 0, "max_len_offset": 0}, "leaves no room for an output"),
    ],
)
def test_what_makes_no_sense_is_refused_in_plain_words(fields, message):
    with pytest.raises(ValueError, match=message):
        SearchOptions(**fields)


def test_a_run_says_how_it_is_searched_and_defaults_are_the_same_in_both_places():
    assert SearchOptions.from_config(DecodingConfig()) == SearchOptions()
    asked = DecodingConfig(beam_size=5, length_penalty=0.6, exact=True, no_repeat_ngram=3, min_len=2, max_len_offset=7)
    options = SearchOptions.from_config(asked)
    assert (options.beam_size, options.length_penalty, options.exact) == (5, 0.6, True)
    assert (options.no_repeat_ngram, options.min_len, options.max_len(10)) == (3, 2, 27)
