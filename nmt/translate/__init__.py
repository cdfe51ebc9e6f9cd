"""Translate texts: everything around the search. Imports no torch."""

from nmt.config import SearchOptions
from nmt.data.glossary import Glossary
from nmt.translate.engine import Engine
from nmt.translate.languages import LanguagePair
from nmt.translate.segments import ForcedScore, Segment, SegmentTranslation, translate_segments
from nmt.translate.translation import Translation
from nmt.translate.translator import Translator

__all__ = [
    "Engine",
    "ForcedScore",
    "Glossary",
    "LanguagePair",
    "SearchOptions",
    "Segment",
    "SegmentTranslation",
    "Translation",
    "Translator",
    "translate_segments",
]
