"""Detect outputs in the wrong script or language."""

from __future__ import annotations

from functools import cache

from nmt.base.languages import base_code, chinese_form, script_of
from nmt.config.filters import THRESHOLDS
from nmt.data.check.features import Side, is_more_than_names
from nmt.data.check.scripts import (
    SHARED_SCRIPTS,
    LanguageIdentifier,
    can_identify_languages,
    codes_of,
    form_of_chinese,
    is_foreign,
    script_codes,
)

_MIN_WORDS = 2  # in scripts with case, one of them in lower case; anything shorter may be a name


def is_in_wrong_language(text: str, language: str) -> bool:
    """Return whether `text`, an output without protected spans, is in a script or language other than `language`.

    The script is always checked: that of most letters, or for zh-Hans and zh-Hant the form of the characters. Names are
    exempt. The language is checked as in `nmt data check`, if the extra `langid` is installed and the text is longer
    than a name.
    """
    side = Side(text)
    codes, expected = script_codes(text), codes_of(script_of(language))
    if is_foreign(codes, expected):
        return not _is_name(side)
    form = chinese_form(language)
    if form is not None and form_of_chinese(text) not in (None, form):
        return True
    if (expected and expected not in SHARED_SCRIPTS) or not is_more_than_names(side) or not can_identify_languages():
        return False
    return _identifier(base_code(language)).margin(text, 1) > THRESHOLDS["wrong_language"]


def _is_name(side: Side) -> bool:
    if side.text.lower() == side.text.upper():
        return False
    words = side.text.split()
    return len(words) < _MIN_WORDS or not any(len(word) > 1 and word.islower() for word in words)


@cache
def _identifier(language: str) -> LanguageIdentifier:
    return LanguageIdentifier(language, language)
