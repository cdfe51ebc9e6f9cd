"""Detect the language of a text: one of a server's, with the confidence that it is none of the others in the world."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from html import unescape
from importlib.resources import files
from math import exp, log
from unicodedata import normalize

from nmt.apps.server.bodies import Detection
from nmt.base.languages import standard_code
from nmt.data.check.scripts import can_identify_languages, codes_of_language, identification_model, script_codes
from nmt.data.text.words import counted_words

_MAX_CHARACTERS = 2000  # more do not raise the confidence
_PRIOR = 20.0  # how much more probable a language of the server is than another one, before the text is looked at
_OF_KNOWN_WORD, _OF_OTHER_WORD = log(8), log(0.75)  # about 40% of the words of a text are function words
_SHARPNESS = 8  # of the scripts: a third of the letters of a text in another one make a language improbable
_WITHOUT_KANA = 0.9  # makes Japanese less probable than Chinese
# Of 100, summed over the languages of the server: below it, a text is in none of them. With py3langid, 87% of parts of
# four German words are so for English and Chinese, and at most 0.7% of English ones; function words tell less apart.
_LEAST_IDENTIFIED, _LEAST_BY_WORDS = 5.0, 1.0
_UNLISTED = 3.0  # languages whose function words are not listed, at most, in the scripts of a text
_MARKUP = re.compile(r"<(script|style)\b.*?</\1\s*>|<!--.*?-->|<[^<>]*>", re.DOTALL | re.IGNORECASE)


def without_markup(page: str) -> str:
    """Return the words of HTML or XML, as well as their language needs it."""
    return unescape(_MARKUP.sub(" ", page))


class Detector:
    """Ranks languages by their scripts and with py3langid (extra `langid`), or else by their function words."""

    def __init__(self, languages: Sequence[str]):
        """Rank `languages`, given by code; on a tie, the first one wins."""
        self._languages = {code: (standard_code(code), codes_of_language(code)) for code in languages}
        if can_identify_languages():
            identification_model()  # now, because it takes half a second

    def detect(self, text: str) -> list[Detection]:
        """Return the languages that `text` may be in, most probable first; never empty.

        What is missing to a sum of 100 is the confidence that the text is in none of them. All are 0 if it has no
        letters, or none of their scripts.
        """
        text = normalize("NFC", text[:_MAX_CHARACTERS])
        codes = script_codes(text).replace(" ", "")
        by_words = probable = _by_words(text, codes) if codes else {}
        if codes and can_identify_languages():  # 97, whose probabilities sum to 1
            probable = {str(code): float(probability) for code, probability in identification_model().rank(text)}
        of_server = {standard for standard, _ in self._languages.values()}
        rest = max(0.0, 1 - sum(probable.get(standard, 0.0) for standard in of_server))
        # There is no evidence for them, and against them only the words of others.
        of_unlisted = rest * (1 - sum(by_words.values())) / 2
        shares = {code: _share(codes, scripts) for code, (_, scripts) in self._languages.items()}
        weights = {
            code: _PRIOR * shares[code] ** _SHARPNESS * probable.get(standard, of_unlisted)
            for code, (standard, _) in self._languages.items()
        }
        others = rest - of_unlisted * bool(of_server - probable.keys()) + 1 - max(shares.values())
        total = sum(weights.values()) + others or 1.0
        detections: list[Detection] = [
            {"confidence": round(100 * weight / total, 1), "language": code} for code, weight in weights.items()
        ]
        return sorted(detections, key=lambda detection: -detection["confidence"])


def may_be_known(detections: Sequence[Detection]) -> bool:
    """Return whether a text may be in one of the languages of a server, by what `Detector.detect` says."""
    least = _LEAST_IDENTIFIED if can_identify_languages() else _LEAST_BY_WORDS
    return sum(detection["confidence"] for detection in detections) >= least


def has_letters(text: str) -> bool:
    """Return whether the language of `text` matters: whether there are letters in it."""
    return not script_codes(text[:_MAX_CHARACTERS]).isspace()


def _share(codes: str, scripts: str) -> float:
    """Return the share of letters, given by the codes of their scripts, in `scripts`; 1 if these are unknown."""
    if not (codes and scripts):
        return float(bool(codes))
    lacks_kana = "K" in scripts and "K" not in codes
    return sum(map(codes.count, scripts)) / len(codes) * (_WITHOUT_KANA if lacks_kana else 1)


def _by_words(text: str, codes: str) -> Mapping[str, float]:
    """Return the probabilities of the languages whose function words are listed; others have what is missing to 1."""
    words = counted_words(text)
    weights = {}
    for code, known in _function_words().items():
        num_known = sum(word in known for word in words)
        score = num_known * _OF_KNOWN_WORD + (len(words) - num_known) * _OF_OTHER_WORD
        weights[code] = _share(codes, codes_of_language(code)) * exp(min(score, 500.0))
    total = sum(weights.values()) + _UNLISTED
    return {code: weight / total for code, weight in weights.items()}


@cache
def _function_words() -> dict[str, frozenset[str]]:
    table = files("nmt.apps.server").joinpath("function_words.txt").read_text(encoding="utf-8")
    rows = (line.split("\t") for line in table.splitlines() if line[0] != "#")
    return {code: frozenset(counted_words(words)) for code, words in rows}
