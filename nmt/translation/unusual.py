"""Recognize sources that a model was not trained for, and translates all the same."""

from __future__ import annotations

from nmt.data.text.text_statistics import TextStatistics
from nmt.translation.guards import is_in_capitals, longest_run, words_of
from nmt.translation.wrong_language import is_in_wrong_language

_MIN_REPEATS = 6  # of words in a row
_MIN_TOKENS = 8  # fewer may spell one rare name
_NOISE = 0.8  # of the characters per token of nearly all training sources


def find_unusual(text: str, num_tokens: int, language: str, statistics: TextStatistics | None) -> list[str]:
    """Return the reasons why `text`, of `num_tokens` tokens, is unlike the training text; empty if there are none.

    "language": it is in another script or, with the extra langid, in another language than `language`. "capitals": it
    is in capital letters, which under 1% of the training sources were. "repetition": a word or a few words occur six
    times and more in a row. "noise": it has far more tokens for its characters than nearly all training sources. The
    text is given without protected spans. Only the statistics of the training text show capitals and noise.
    """
    reasons = {
        "language": is_in_wrong_language(text, language),
        "capitals": statistics is not None and not statistics.knows_capitals and is_in_capitals(text),
        "repetition": longest_run(words_of(text))[1] >= _MIN_REPEATS,
        "noise": statistics is not None
        and num_tokens >= _MIN_TOKENS
        and len(text.strip()) < _NOISE * statistics.chars_per_token * num_tokens,
    }
    return [reason for reason, is_true in reasons.items() if is_true]
