"""A translator, or two in a row through a third language, with a translation memory before them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby, product
from typing import TYPE_CHECKING

from nmt.base.errors import NmtError, in_words
from nmt.base.languages import Direction, base_code
from nmt.base.rounds import answer_together
from nmt.data.text.characters import AS_READ, edges, list_marker
from nmt.translation.languages import LanguagePair
from nmt.translation.request import Request
from nmt.translation.segments import MemoryMatch, Segment
from nmt.translation.through_models import TextToTranslate, through_models
from nmt.translation.translation import Translation
from nmt.translation.translator import Blocks, TranslatedBlock, Translator

if TYPE_CHECKING:
    from nmt.translation.memory import TranslationMemory  # with numpy, which few commands need
    from nmt.translation.texts import SegmentedText


def paths(first: Iterable[Direction], second: Iterable[Direction]) -> dict[Direction, tuple[Direction, Direction]]:
    """Return the directions through a third language, each with the first two that lead there, and not back."""
    found: dict[Direction, tuple[Direction, Direction]] = {}
    for into, out in product(first, [*second]):
        if base_code(into.tgt) == base_code(out.src) and base_code(into.src) != base_code(out.tgt):
            found.setdefault(Direction(into.src, out.tgt), (into, out))
    return found


def languages_of(models: Sequence[LanguagePair]) -> LanguagePair:
    """Return the languages of one model, or of two in a row. NmtError if the second cannot follow the first."""
    if len(models) == 1:
        return models[0]
    into, out = (each.pairs for each in models)
    if not (found := paths(into, out)):
        written = dict.fromkeys(pair.tgt for pair in into)
        read = dict.fromkeys(pair.src for pair in out)
        reason = f"the first writes {in_words([*written])}, the second reads {in_words([*read])}"
        if {*map(base_code, written)} & {*map(base_code, read)}:
            reason += " and only translates back"
        raise NmtError(f"these models cannot be chained: {reason}")
    return LanguagePair(*next(iter(found)), directions=tuple(found))


class Chain:
    """Translators in a row, one or two, and a memory that is looked up before. It translates as `Translator` does."""

    def __init__(self, translators: Sequence[Translator], memory: TranslationMemory | None = None):
        """Join them. NmtError if the second translator cannot translate what the first one writes."""
        self.translators = translators
        self.memory = memory
        self.languages = languages_of([each.languages for each in translators])
        self.options = translators[-1].options
        self.tokenizers = translators[-1].tokenizers
        self.precision = ", ".join(each.precision for each in translators)

    def translate_blocks(self, blocks: Blocks, request: Request, first: int = 1) -> Iterator[TranslatedBlock]:
        """Yield each of `blocks` with its translations, as `Translator.translate_blocks` does."""
        for block in blocks:
            yield block, self.translate_block(block, request, first)
            first += len(block)

    def translate_block(self, texts: Sequence[str], request: Request, first: int = 1) -> list[Translation]:
        """Translate `texts`, the lines from number `first` on.

        Texts that the memory has are not translated; `Translation.memory` is the most similar pair. Of two translators,
        the first gets its own options, with what `request` changes in those of the second. The score of a translation
        is then the sum of both, and `Translation.through` is the translation by the first.
        """
        if len(self.translators) == 1 and self.memory is None:
            return self.translators[0].translate_block(texts, request, first)
        requests = self._requests(request)
        ways = [
            through_models(
                text,
                range(len(self.translators)),
                match=self.memory.find(text) if self.memory is not None else None,
                glossary=request.glossary,
                prefix=prefix,
            )
            for text, prefix in zip(texts, request.prefixes(len(texts)), strict=True)
        ]
        answer = partial(self._answer, requests, first)
        # The last text of each way, which is still to translate, or the translation if the memory has it.
        ends = answer_together(ways, answer)
        rest = iter(answer([end for end in ends if isinstance(end, TextToTranslate)]))
        return [next(rest) if isinstance(end, TextToTranslate) else end for end in ends]

    def left_out(self, request: Request) -> frozenset[str]:
        """Return the kinds of digits and marks that translations by one of the translators may lack."""
        asked = zip(self.translators, self._requests(request), strict=True)
        found = (each.segmenter.habits(each.languages.direction(of.to, of.from_)).left_out for each, of in asked)
        return frozenset().union(*found)

    def _requests(self, request: Request) -> list[Request]:
        """Return what to ask of each translator, but for glossaries and prefixes, which depend on the text."""
        if len(self.translators) == 1:
            return [request]
        directions = (each.languages.pairs for each in self.translators)
        into, out = paths(*directions)[self.languages.direction(request.to, request.from_)]
        given = {name: value for name, value in request.options if value != getattr(self.options, name)}
        options = self.translators[0].options.changed(**{**given, "num_hypotheses": 1})
        to_pivot = replace(request, options=options, to=into.tgt, from_=into.src)
        return [to_pivot, replace(request, to=out.tgt, from_=out.src)]

    def _answer(
        self, requests: Sequence[Request], first: int, texts: Sequence[TextToTranslate[int]]
    ) -> list[Translation]:
        """Return the translations, finished; those in a row by one model with the same glossary are made together."""
        translations: list[Translation] = []
        for (model, glossary), group in groupby(texts, key=lambda text: (text.model, text.glossary)):
            translator = self.translators[model]
            same = [*group]
            request = replace(requests[model], glossary=glossary, prefix=[text.prefix for text in same])
            segmented = translator.segment([text.text for text in same], request, first)
            for text, segments in zip(same, segmented, strict=True):
                if text.match is not None:
                    translator.segmenter.add_draft(segments, text.match.target)
            if self.memory is not None and len(self.translators) == 1:
                segmented = [look_up(text, self.memory) for text in segmented]
            translated = translator.translate_segmented(segmented, request)
            translations += [text.finish(translation) for text, translation in zip(same, translated, strict=True)]
        return translations


def look_up(text: SegmentedText, memory: TranslationMemory) -> SegmentedText:
    """Return `text` with the translations that `memory` has for whole lines, or else for single segments.

    A known line becomes one segment. The marker of a list before it, and symbols and brackets around it, stay.
    """
    found: list[Segment] = []
    for _, line in groupby(text.segments, lambda segment: text.text.count("\n", 0, segment.span.start)):
        segments = [*line]
        span = segments[-1].span._replace(start=segments[0].span.start)
        whole = replace(
            segments[-1],
            text=AS_READ(text.text[span.start : span.end]),
            span=span,
            prefix=segments[0].prefix,
        )
        candidates = [_known(segment, memory) for segment in (whole, *segments)]
        found += candidates[:1] if candidates[0].known is not None else candidates[1:]
    return text._replace(segments=found)


def _known(segment: Segment, memory: TranslationMemory) -> Segment:
    """Return `segment` with the translation that `memory` has for it, if that begins with its prefix."""
    text = segment.text
    for before, after in (("", ""), (list_marker(text), ""), edges(text)):
        same = memory.find_same(text.removeprefix(before).removesuffix(after))
        if same is not None and (target := before + same.target + after).startswith(segment.prefix):
            return replace(segment, known=MemoryMatch(text, target, 1.0))
    return segment
