"""Detect bad outputs (loops, copies of the source, another language) and sources unlike the training text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from functools import cache
from operator import eq

from nmt.base.languages import base_code, chinese_form
from nmt.data.check import scripts
from nmt.data.check.features import Side, is_more_than_names
from nmt.data.text.text_statistics import UNKNOWN, TextStatistics
from nmt.data.text.words import counted_words

# All were chosen by hand, and measured together: fewer than 1% of 3,000 ordinary sentences get each
# of the flags (docs/log/quality.md, 2026-11-28).
MAX_UNIT = 4  # tokens of what a loop repeats
MIN_REPEATS = 4  # of a loop
_MIN_COPIED = 3  # words of an output: fewer may be a name
_COPIED_SHARE = 0.5  # of the words of an output
_MIN_CAPITALS = 8  # letters: fewer may be an abbreviation
_MIN_WORDS = 2  # in scripts with case, one of them in lower case; anything shorter may be a name
_UNUSUAL_REPEATS = 6  # of words in a row
_MIN_TOKENS = 8  # fewer may spell one rare name
_NOISE = 0.8  # of the characters per token of nearly all training sources


def longest_run(ids: Sequence[Hashable]) -> tuple[int, int]:
    """Return (n, repeats) of the n-gram of up to 4 ids with the most consecutive repeats; (0, 0) for no ids.

    Ids may be any hashable values, such as words.
    """
    best = (0, 0)
    for unit in range(1, MAX_UNIT + 1):
        same = bytes(map(eq, ids[unit:], ids))  # whether each id equals the one `unit` positions before
        if b"\1" * unit not in same:
            continue  # of most outputs
        repeats = max(map(len, same.split(b"\0"))) // unit + 1
        if repeats > best[1]:
            best = (unit, repeats)
    return best if best[1] else (min(1, len(ids)), min(1, len(ids)))


def find_loop(output: Sequence[Hashable], source: Sequence[Hashable]) -> int | None:
    """Return the size of the n-grams whose repetition to forbid if the output is stuck in a loop, else None.

    A loop is an n-gram of up to 4 tokens that occurs four or more times in a row. If the source also repeats something
    that often ("ha ha ha ha"), the output may repeat twice as often.
    """
    if len(output) - len(set(output)) < MIN_REPEATS - 1:  # fast path: in most outputs no token repeats that often
        return None
    unit, repeats = longest_run(output)
    if repeats < MIN_REPEATS:
        return None
    in_source = longest_run(source)[1]
    allowed = MIN_REPEATS - 1 if in_source < MIN_REPEATS else 2 * in_source
    if repeats <= allowed:
        return None
    # Two units, so that a word may come back, but not the same two; of a source that repeats, as many as are allowed.
    return unit * (2 if allowed < MIN_REPEATS else allowed)


def is_in_capitals(text: str) -> bool:
    """Return whether a text of several words is in capital letters, with at least eight of them."""
    return text.isupper() and " " in text.strip() and sum(map(str.isupper, text)) >= _MIN_CAPITALS


def is_mostly_copied(num_copied: int, num_words: int) -> bool:
    """Return True if an output is a copy: more than half of its words, at least three, come from the source.

    As in Ott et al. 2018 (Analyzing Uncertainty in Neural Machine Translation, section 5.2). Outputs of fewer than
    three words may be names, so they never count.
    """
    return num_words >= _MIN_COPIED and num_copied > _COPIED_SHARE * num_words


def count_copied(source: str, output: str) -> tuple[int, int]:
    """Return how many words of the output, numbers apart, come from the source, and how many there are in all."""
    words, of_source = (Counter(counted_words(text)) for text in (output, source))
    return (words & of_source).total(), words.total()


def is_in_wrong_language(text: str, language: str, *, identify: bool = True) -> bool:
    """Return whether `text`, an output without protected spans, is in a script or language other than `language`.

    The script is always checked: that of most letters, or for zh-Hans and zh-Hant the form of the characters. Names are
    exempt. The language is checked as in `nmt data check`, if the extra `langid` is installed and the text is longer
    than a name, unless it is not to be identified: the first time takes half a second.
    """
    side = Side(text)
    codes = scripts.script_codes(text)
    expected = scripts.codes_of_language(language)
    if scripts.is_foreign(codes, expected):
        return not _is_name(side)
    form = chinese_form(language)
    if form is not None and scripts.form_of_chinese(text) not in (None, form):
        return True
    has_own_script = expected and expected not in scripts.SHARED_SCRIPTS
    if not identify or has_own_script or not is_more_than_names(side) or not scripts.can_identify_languages():
        return False
    from nmt.config.filters import THRESHOLDS  # only here: few texts come this far

    return _identifier(base_code(language)).margin(text, 1) > THRESHOLDS["wrong_language"]


def _is_name(side: Side) -> bool:
    if side.text.lower() == side.text.upper():
        return False
    words = side.text.split()
    return len(words) < _MIN_WORDS or not any(len(word) > 1 and word.islower() for word in words)


@cache
def _identifier(language: str) -> scripts.LanguageIdentifier:
    return scripts.LanguageIdentifier(language, language)


def find_unusual(
    text: str, num_tokens: int, language: str, statistics: TextStatistics | None, *, identify: bool = True
) -> list[str]:
    """Return the reasons why `text`, of `num_tokens` tokens, is unlike the training text; empty if there are none.

    "language": it is in another script or language than `language`, as `is_in_wrong_language` says. "capitals": it is
    in capital letters, which under 1% of the training sources were. "repetition": a word or a few words occur six times
    and more in a row. "noise": it has far more tokens for its characters than nearly all training sources.
    "vocabulary": most of its words were not in the training sources, or, in a longer text, hardly any that is frequent
    there. The text is given without protected spans. Only the statistics of the training text show capitals, noise and
    vocabulary.
    """
    known = statistics or UNKNOWN
    is_loud = is_in_capitals(text)  # and takes many tokens, also of a model that has learned capitals
    reasons = {
        "language": is_in_wrong_language(text, language, identify=identify),
        "capitals": is_loud and not known.knows_capitals,
        "repetition": longest_run(counted_words(text))[1] >= _UNUSUAL_REPEATS,
        "noise": not (is_loud and known.knows_capitals)
        and num_tokens >= _MIN_TOKENS
        and len(text.strip()) < _NOISE * known.chars_per_token * num_tokens,
        "vocabulary": not known.knows_words(text),
    }
    return [reason for reason, is_true in reasons.items() if is_true]
