"""Everything around the search, without torch."""

from nmt.translate.translator import Engine, Translation, Translator

__all__ = ["Engine", "Translation", "Translator"]
