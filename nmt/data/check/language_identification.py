"""Identify the language of a text with py3langid (Lui and Baldwin 2011), which the extra `langid` installs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from math import log
from typing import Any

from nmt.base.errors import NmtError, how_to_install
from nmt.base.languages import base_code

_HINT = f"{how_to_install('langid')}, or turn off language identification"
_MIN_PROBABILITY = 1e-30


def can_identify_languages() -> bool:
    """Return whether the package that identifies languages is installed."""
    return find_spec("py3langid") is not None


def identifier_version() -> str:
    """Return the version of that package; empty if it is not installed."""
    return version("py3langid") if can_identify_languages() else ""


@cache
def _model() -> Any:
    """Return the package's model. It takes half a second and much memory to load; one serves all languages."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


class LanguageIdentifier:
    """Compares the expected language of each side with all languages that the package knows."""

    def __init__(self, src_lang: str, tgt_lang: str):
        """Load the model. NmtError if the package is missing. Sides in a language that it does not know pass."""
        if not can_identify_languages():
            raise NmtError("identifying languages needs the package py3langid", hint=_HINT)
        self._model = _model()
        known = set(self._model.labels)
        self._languages = [code if code in known else None for code in (base_code(src_lang), base_code(tgt_lang))]

    def is_usual(self, texts: Sequence[str], side: int) -> bool:
        """Return whether most of `texts` are in the language of a side (0: source, 1: target)."""
        language = self._languages[side]
        num_expected = sum(self._model.classify(text)[0] == language for text in texts)
        return 2 * num_expected > len(texts)

    def margin(self, text: str, side: int) -> float:
        """Return the margin, in nats, of the most probable language of a text over the language of its side.

        The package's probabilities take the length of the text into account. The margin is 0 if the package does not
        know the language of the side.
        """
        language = self._languages[side]
        if language is None:
            return 0.0
        best, probability = self._model.classify(text)
        if best == language:
            return 0.0
        of_expected = dict(self._model.rank(text)).get(language, 0.0)
        return log(max(probability, _MIN_PROBABILITY)) - log(max(of_expected, _MIN_PROBABILITY))
