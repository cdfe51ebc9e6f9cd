"""Translate the blocks of a document, and put their inline tags in the right places.

A model trained with data.protect gets one mark, such as {h0}, per inline tag, and places the tags itself. For other
models, or if a mark is lost, the attention tells which words of the translation a tag encloses. If that fails too, the
text between the tags is translated separately.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from nmt.apps.documents.blocks import Block
from nmt.apps.documents.po import changed_placeholders, is_excluded
from nmt.apps.documents.tag_projection import join_details
from nmt.base.languages import base_code
from nmt.base.rounds import answer_together
from nmt.config import SearchOptions
from nmt.data.read.line_blocks import grow_blocks
from nmt.data.text.glossary import Term, missed_terms
from nmt.data.text.numbers import CURRENCIES, UNIT
from nmt.translation import Translator
from nmt.translation.chain import Chain
from nmt.translation.protect import lost_spans
from nmt.translation.request import Request
from nmt.translation.texts import TextSegmenter
from nmt.translation.translation import FLAGS, Flags, Translation, merge
from nmt.translation.word_links import Details, explain

# Each decimal mark, with the languages that do not write it, as in CLDR; of other languages, nothing is known.
_OTHER_MARKS = {
    ",": "am bn cy en fil ga gu he hi ja kn ko ml mr ms mt my ne pa si sw ta te th ur yo zh zu",
    ".": "af az be bg bs ca cs da de el es et eu fi fr gl hr hu hy id is it ka kk ky lt lv mk mn nb nl nn no pl pt ro"
    " ru sk sl sq sr sv tr uk uz vi",
}
# Decimals with the mark § and digits in groups, or of an amount; others may be dates or versions.
_DECIMALS = (
    rf"(?<![\w.,])(?:\d{{1,3}}(?:[.,\s]\d{{3}})+[§]\d+|\d+[§](?!\d{{3}}\b)\d+(?=\s?[%‰{CURRENCIES}]|{UNIT})"
    rf"|(?:(?<=[{CURRENCIES}])|(?<=[{CURRENCIES}]\s))\d+[§](?!\d{{3}}\b)\d+)(?![.,]?\d)"
)
_MISSED, _FOREIGN = "glossary terms are missing", "numbers are not written as in this language"


class Ask(NamedTuple):
    """A text to translate next; `aligned` also requests its alignment, by one model alone."""

    text: str
    aligned: bool = False


class Answer(NamedTuple):
    """The translations of one text, best first; of the best, its flags, and its alignment if requested and known."""

    outputs: list[str]
    flags: Flags
    aligned: Details | None = None
    expected_chrf: float | None = None
    similarity: float = 0.0  # of the most similar text in the memory


class TranslatedBlock(NamedTuple):
    """The translations of a block as HTML, best first; of the best, its text, its flags, and the terms it misses."""

    written: list[str]
    text: str
    flags: Flags
    terms_missed: Sequence[Term] = ()
    marked: str = ""  # the text with the marks of its tags
    expected_chrf: float | None = None
    similarity: float = 0.0
    foreign_numbers: Sequence[str] = ()  # in the format of the source's language

    @property
    def signs(self) -> dict[str, list[str]]:
        """Signs that a person should know of, in words, each with the parts concerned, if they are known."""
        signs = {FLAGS[name]: value if isinstance(value, list) else [] for name, value in self.flags.items()}
        for sign, parts in ((_MISSED, self.terms_missed), (_FOREIGN, self.foreign_numbers)):
            if parts:
                signs[sign] = list(map(str, parts))
        return signs

    @property
    def faults(self) -> list[str]:
        """The signs that are faults, each with its parts."""
        return [with_parts(*sign) for sign in self.signs.items() if sign[0] != FLAGS["from_memory"]]


def with_parts(sign: str, parts: Sequence[str]) -> str:
    """Return a sign with the parts of the text that it concerns."""
    return f"{sign}: {', '.join(parts)}" if parts else sign


Rounds = Generator[list[Ask], list[Answer], list[TranslatedBlock]]  # yields texts, receives answers, returns blocks


def rounds(blocks: Sequence[Block], models: Sequence[Translator], options: SearchOptions, num_ranks: int = 1) -> Rounds:
    """Translate `blocks` as HTML in up to three rounds: with marks, by alignment, text by text.

    The first of the `models`, one or a chain of two, decides whether marks are tried; a chain cannot align. If an
    alternative of a block loses a mark, the block's best translation replaces it.
    """
    found = dict[int, TranslatedBlock]()

    def keep(number: int, written: Sequence[str | None], marked: str | None, answer: Answer) -> None:
        """Keep the translations of a block, unless the best one lost a mark."""
        if written[0] is not None:
            text = blocks[number].without_marks(answer.outputs[0])
            ranked = [each or written[0] for each in written]
            quality, similarity = answer.expected_chrf, answer.similarity
            found[number] = TranslatedBlock(ranked, text, answer.flags, (), marked or "", quality, similarity)

    def left() -> list[int]:
        return [number for number in range(len(blocks)) if number not in found]

    keeps_marks = models[0].segmenter.protects(options)
    whole = [number for number, block in enumerate(blocks) if keeps_marks or not block.has_tags]
    answers = yield [Ask(blocks[number].with_marks()) for number in whole]
    for number, answer in zip(whole, answers, strict=True):
        outputs = _ranked(answer, num_ranks)
        keep(number, [blocks[number].from_marks(output) for output in outputs], outputs[0], answer)
    if len(models) == 1 and (unplaced := left()):
        answers = yield [Ask(blocks[number].plain(), aligned=True) for number in unplaced]
        for number, answer in zip(unplaced, answers, strict=True):
            if answer.aligned is not None:
                marked = blocks[number].marked().from_links(answer.aligned)
                keep(number, [blocks[number].from_links(answer.aligned)] * num_ranks, marked, answer)
    if unplaced := left():
        rest = iter((yield [Ask(text) for number in unplaced for text in blocks[number].texts()]))
        for number in unplaced:
            answers = [next(rest) for _ in blocks[number].texts()]
            by_rank = [*zip(*(_ranked(answer, num_ranks) for answer in answers), strict=True)]
            marked = blocks[number].marked().from_texts(by_rank[0])
            keep(number, list(map(blocks[number].from_texts, by_rank)), marked, _merged(answers, " ".join(by_rank[0])))
    return [found[number] for number in range(len(blocks))]


def _merged(answers: Sequence[Answer], text: str, aligned: Details | None = None) -> Answer:
    """Return an answer for a text whose parts were translated separately; its quality is that of the worst part."""
    expected = [answer.expected_chrf for answer in answers if answer.expected_chrf is not None]
    flags = merge([answer.flags for answer in answers])
    return Answer(
        [text], flags, aligned, min(expected, default=None), min((a.similarity for a in answers), default=0.0)
    )


def _ranked(answer: Answer, num_ranks: int) -> list[str]:
    """Return one output per rank; repeat the last one if there are too few."""
    return (answer.outputs + answer.outputs[-1:] * num_ranks)[:num_ranks]


def translate_blocks(chain: Chain, blocks: Sequence[Block], request: Request) -> Iterator[TranslatedBlock]:
    """Yield the translations of `blocks`, of which up to 1,024 are in memory. Raises as `Translator.translate`.

    Of `request`, the options, the languages and the glossary count.
    """
    to = chain.languages.direction(request.to, request.from_).tgt
    request = replace(request, options=request.options.changed(num_hypotheses=1), to=to)

    def answer(asks: Sequence[Ask]) -> list[Answer]:
        texts = [ask.text for ask in asks]
        if asks[0].aligned:
            return _translate_aligned(chain.translators[0], texts, request)
        return [_answer(each) for each in chain.translate_block(texts, request)]

    rest = iter(blocks)
    for texts in grow_blocks(block.plain() for block in blocks):
        some = list(islice(rest, len(texts)))
        (translated,) = answer_together([rounds(some, chain.translators, request.options)], answer)
        yield from with_losses(some, translated, chain.translators[0].segmenter, request)


def _answer(translation: Translation) -> Answer:
    similarity = translation.memory.similarity if translation.memory else 0.0
    return Answer([translation.text], translation.flags, None, translation.expected_chrf, similarity)


def _translate_aligned(translator: Translator, texts: Sequence[str], request: Request) -> list[Answer]:
    """Translate `texts` segment by segment, and return the translations with their alignments."""
    segmented = translator.segment(texts, request)
    separated = [text.separate() for text in segmented]
    segments = [segment for text in separated for segment, _ in text]
    translations = iter(translator.translate_segmented(segments, request))
    answers = []
    for text, whole, parts in zip(texts, segmented, separated, strict=True):
        before, details, of_parts = whole.lead, [], list[Answer]()
        for segment, space in parts:
            translation = next(translations)
            details.append((before, explain(translator, segment.text, segment.direction, translation), space))
            of_parts.append(_answer(translation))
            before = ""
        aligned = join_details(text, details)
        answers.append(_merged(of_parts, "".join(aligned.target) if aligned else "", aligned))
    return answers


def with_losses(
    blocks: Sequence[Block],
    translated: Sequence[TranslatedBlock],
    segmenter: TextSegmenter,
    request: Request,
) -> list[TranslatedBlock]:
    """Return the translated blocks with the protected spans and the glossary terms that the whole translations lack.

    The faults become the note of each block. Models that were trained without data.protect lose spans, too. The
    placeholders of a gettext entry are those of its format flags.
    """
    checked = []
    for block, each in zip(blocks, translated, strict=True):
        flags = {name: value for name, value in each.flags.items() if name != "protected_lost"}
        source = " ".join(block.texts())
        spans = [source[span.start : span.end] for span in segmenter.find_spans(source, request)]
        lost = [span for span in lost_spans(spans, each.text) if not is_excluded(span, block.formats)] if spans else []
        if lost := list(dict.fromkeys(lost + changed_placeholders(source, each.text, block.formats))):
            flags["protected_lost"] = lost
        missed: list[Term] = []
        if request.glossary is not None:
            plain = block.plain()
            matches = segmenter.find_terms(plain, segmenter.find_spans(plain, request), request.glossary)
            missed = missed_terms([match.term for match in matches], each.text)
        foreign = foreign_numbers(source, each.text, request.to or "")
        checked.append(each._replace(flags=flags, terms_missed=missed, foreign_numbers=foreign))
        block.note = "; ".join(checked[-1].faults)
    return checked


def foreign_numbers(source: str, output: str, language: str) -> list[str]:
    """Return the numbers of `source` that `output` has unchanged, although its `language` writes them otherwise."""
    mark = next((mark for mark, codes in _OTHER_MARKS.items() if base_code(language) in codes.split()), "")
    found = re.findall(_DECIMALS.replace("§", mark), output) if mark else []
    return [number for number in dict.fromkeys(found) if number in source]
