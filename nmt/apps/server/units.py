"""Cut texts into units that are translated separately, and join their translations.

A unit is a segment as the translator would make it: a line, or a sentence of a line that exceeds the model's limit.
Translating and joining units gives the same text as translating the whole text at once, so a server can alternate
between long and short requests, and can stream a long translation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from nmt.apps.documents.details import Details
from nmt.apps.documents.translation import Flags, flags_of
from nmt.base.languages import Direction
from nmt.data.text.glossary import Term
from nmt.translation import Translation, Translator
from nmt.translation.translation import cut_text

_SPARE_TOKENS = 8  # for tags and spaces that a model adds before a source
_BYTES_PER_TOKEN = 4


class Wanted(NamedTuple):
    """The options for each unit of a request; units with the same options are translated in one call."""

    direction: Direction
    num_alternatives: int = 0
    details: bool = False
    terms: tuple[Term, ...] = ()

    @property
    def is_plain(self) -> bool:
        """True if only the best translation is wanted."""
        return not (self.num_alternatives or self.details or self.terms)


class Unit(NamedTuple):
    """A text that is translated as one segment, and the white space after its translation."""

    text: str
    wanted: Wanted
    num_tokens: int
    space: str = ""


class CutText(NamedTuple):
    """A text cut into units; `lead` is the white space before the first one. A blank text consists only of `lead`."""

    lead: str
    units: list[Unit]

    def join(self, outputs: Sequence[str]) -> str:
        """Return the translation of the text, joined from `outputs`, the translations of its units."""
        pairs = zip(outputs, self.units, strict=True)
        return self.lead + "".join(output + unit.space for output, unit in pairs)


class UnitTranslation(NamedTuple):
    """The translation of a unit, with its alternatives, best first, and further details if requested."""

    text: str
    alternatives: list[str]
    num_src_tokens: int
    num_tgt_tokens: int
    finished: bool
    flags: Flags
    details: Details | None = None
    terms_missed: Sequence[Term] = ()


def cut(translator: Translator, text: str, wanted: Wanted) -> CutText:
    """Cut `text` into units for `translator`. NmtError if its model does not know the direction.

    A line that certainly is one unit, because each token takes at least one byte, is not tokenized; its number of
    tokens is estimated.
    """
    segmenter, options = translator.segmenter, translator.options
    size = len(text.encode("utf-8", "replace"))
    is_short = size < translator.max_src_len - _SPARE_TOKENS and text.strip()
    if is_short and not segmenter.is_split(text, options, wanted.direction.src):
        return CutText("", [Unit(text, wanted, 1 + size // _BYTES_PER_TOKEN)])
    directed = translator.languages.direct(text, wanted.direction.tgt, wanted.direction.src)
    wanted = wanted._replace(direction=directed.direction)
    lead, parts = cut_text(segmenter, directed, options)
    return CutText(lead, [Unit(source, wanted, max(1, num_tokens), space) for source, space, num_tokens in parts])


def finish(translation: Translation, details: Details | None = None) -> UnitTranslation:
    """Return the parts of a unit's translation that a request needs."""
    return UnitTranslation(
        translation.text,
        [other.text for other in translation.alternatives],
        len(translation.src_ids),
        len(translation.tgt_ids),
        translation.finished,
        flags_of(translation),
        details,
        translation.terms_missed,
    )
