"""The language of a text, among the source languages of a server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from nmt.data.check.language_identification import can_identify_languages
from nmt.data.check.scripts import codes_of, script_codes
from nmt.languages import base_code, script_of

_MAX_CHARACTERS = 2000  # more do not make it surer


class Detected(NamedTuple):
    """A language, and how sure it is, from 0 to 100."""

    language: str
    confidence: float


class Detector:
    """Ranks languages by py3langid where it is installed (extra `langid`), else by the letters of the text alone."""

    def __init__(self, languages: Sequence[str]):
        """Rank `languages`, by their codes; the first one wins where nothing tells them apart."""
        self.languages = list(languages)
        self._letters = {code: codes_of(script_of(code)) for code in self.languages}
        self._model = _identifier(self.languages)

    def detect(self, text: str) -> list[Detected]:
        """Return the languages that `text` may be in, most probable first; never empty."""
        text = text[:_MAX_CHARACTERS]
        shares = self._shares(text)
        probable = self._model.rank(text) if self._model is not None and text.strip() else []
        of_base = {str(base): float(probability) for base, probability in probable}
        weights = {code: share * of_base.get(base_code(code), 1.0) for code, share in shares.items()}
        total = sum(weights.values()) or 1.0
        found = [Detected(code, round(100 * weight / total, 1)) for code, weight in weights.items()]
        return sorted(found, key=lambda each: -each.confidence)

    def _shares(self, text: str) -> dict[str, float]:
        """Return the share of the letters that are in the script of each language; all equal if there are none."""
        found = script_codes(text)
        num_letters = len(found) - found.count(" ")
        shares = {
            code: sum(map(found.count, letters)) / num_letters if num_letters and letters else 1.0
            for code, letters in self._letters.items()
        }
        return shares if any(shares.values()) else dict.fromkeys(shares, 1.0)


def _identifier(languages: Sequence[str]) -> Any:
    """Return py3langid's model for `languages`; None if it is not installed, or there is nothing to tell apart."""
    if not can_identify_languages():
        return None
    from py3langid.langid import MODEL_FILE
    from py3langid.langid import LanguageIdentifier as Model

    model: Any = Model.from_model_file(MODEL_FILE, norm_probs=True)
    known = {base_code(code) for code in languages} & set(model.labels)
    if len(known) < 2:
        return None
    model.set_languages(sorted(known))
    return model
