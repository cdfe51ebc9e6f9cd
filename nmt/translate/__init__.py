"""Everything around the search, without torch."""

from nmt.translate.document import DocumentTranslator, TranslatedText
from nmt.translate.translator import Engine, Translation, Translator

__all__ = ["DocumentTranslator", "Engine", "TranslatedText", "Translation", "Translator"]
