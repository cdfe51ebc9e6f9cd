"""Detect the language of a text among the source languages of a server."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any

from nmt.apps.server.bodies import Detection
from nmt.base.languages import script_of, standard_code
from nmt.data.check.scripts import can_identify_languages, codes_of, identification_model, script_codes

_MAX_CHARACTERS = 2000  # more do not raise the confidence
_MIN_CHARACTERS = 40  # shorter texts of a batch get the language of the whole batch


class Detector:
    """Ranks languages with py3langid if it is installed (extra `langid`), else only by the scripts of the letters."""

    def __init__(self, languages: Sequence[str]):
        """Rank `languages`, given by code; on a tie, the first one wins."""
        self.languages = list(languages)
        self._letters = {code: codes_of(script_of(code)) for code in self.languages}
        self._model = _identifier(self.languages)

    def detect(self, text: str) -> list[Detection]:
        """Return the languages that `text` may be in, most probable first; never empty."""
        text = text[:_MAX_CHARACTERS]
        shares = self._shares(text)
        probable = self._model.rank(text) if self._model is not None and text.strip() else []
        of_base = {str(base): float(probability) for base, probability in probable}
        weights = {code: share * of_base.get(standard_code(code), 1.0) for code, share in shares.items()}
        total = sum(weights.values()) or 1.0
        detections: list[Detection] = [
            {"confidence": round(100 * weight / total, 1), "language": code} for code, weight in weights.items()
        ]
        return sorted(detections, key=lambda detection: -detection["confidence"])

    def detect_all(self, texts: Sequence[str]) -> list[Detection]:
        """Return the most probable language of each text; for short texts, that of all texts together."""
        overall = self.detect(" ".join(texts))[0]
        return [self.detect(text)[0] if len(text) > _MIN_CHARACTERS else overall for text in texts]

    def _shares(self, text: str) -> dict[str, float]:
        """Return the share of letters in the script of each language; equal shares if no letter matches any.

        A language whose script is unknown, or one of several, gets the largest share of the others.
        """
        scripts = script_codes(text).replace(" ", "")
        if not scripts:
            return dict.fromkeys(self._letters, 1.0)
        known = {code: letters for code, letters in self._letters.items() if letters}
        shares = {code: sum(map(scripts.count, letters)) / len(scripts) for code, letters in known.items()}
        of_unknown = max(shares.values(), default=0.0) or 1.0
        shares = {code: shares.get(code, of_unknown) for code in self._letters}
        return shares if any(shares.values()) else dict.fromkeys(shares, 1.0)


def _identifier(languages: Sequence[str]) -> Any:
    """Return py3langid's model for `languages`; None if it is not installed or knows fewer than two of them."""
    if not can_identify_languages():
        return None
    model = copy(identification_model())  # its tables are shared
    known = {standard_code(code) for code in languages} & set(model.labels)
    if len(known) < 2:
        return None
    model.set_languages(sorted(known))
    return model
