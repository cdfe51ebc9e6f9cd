"""Translate texts: everything around the search. Imports no torch."""

from nmt.config import SearchOptions
from nmt.data.text.glossary import Glossary
from nmt.decoding.engines.interface import Engine
from nmt.translation.languages import LanguagePair
from nmt.translation.segments import ForcedScore, SearchInput, SegmentTranslation, translate_segments
from nmt.translation.translation import Translation
from nmt.translation.translator import Translator, translate

__all__ = [
    "Engine", "ForcedScore", "Glossary", "LanguagePair", "SearchInput", "SearchOptions", "SegmentTranslation",
    "Translation", "Translator", "translate", "translate_segments",
]  # fmt: skip
