"""The links of tokens by cross-attention; tests/translation/test_word_links.py has those by the lexicon."""

from __future__ import annotations

from nmt.translation.alignment import most_attended


def test_each_target_token_goes_with_the_source_token_it_attends_to_most_or_with_none():
    weights = [[0.1, 0.7, 0.2], [0.6, 0.3, 0.1], [0.2, 0.2, 0.6], [0.0, 0.0, 1.0]]
    assert most_attended(weights, 3) == [(1, 0), (0, 1)]  # the third looks at eos, the fourth is eos
