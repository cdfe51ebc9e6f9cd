"""Translate the blocks of a document, and put their inline tags in the right places.

A model trained with data.protect gets one mark, such as {h0}, per inline tag, and places the tags itself. For other
models, or if a mark is lost, the attention tells which words of the translation a tag encloses. If that fails too, the
text between the tags is translated separately.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
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
from nmt.data.text.spans import replace_spans
from nmt.translation import Translator
from nmt.translation.chain import Chain
from nmt.translation.protect import lost_marks, lost_spans, without_parts
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
_REPEATED = "words are repeated"
# Words twice in a row, one word three times: people write `that that`, and in Turkish `zaman zaman`. A number is none:
# in French, a billion is `1 000 000 000`; nor are marks and long vowels, such as `。。。。。。` and `ーーーーーー`.
_REPETITION = re.compile(
    r"\b(?=[^\W\d])(\w+(?: \w+){1,4})\s\1\b|\b(?!\d)(\w+)(?:\s\2\b){2}"
    r"|(?!ー)(?=[^\W_])([\u2e80-\u2fff\u3005\u3041-\u9fff]{2,6})\3{2}"
)
# In a source, also in other forms: `Go, go!`, `Hahaha!`
_SAID_AGAIN = re.compile(r"(?i)\b([^\W\d]+(?: \w+){0,4})\W{1,3}\1\b|([^\W\d]{1,6})\2{2}")


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
    oddities: Mapping[str, Sequence[str]] = {}  # further signs, with parts of the text

    @property
    def signs(self) -> dict[str, list[str]]:
        """Signs that a person should know of, in words, each with the parts concerned, if they are known."""
        signs = {FLAGS[name]: value if isinstance(value, list) else [] for name, value in self.flags.items()}
        others = {_MISSED: self.terms_missed, **self.oddities}
        return signs | {sign: list(map(str, parts)) for sign, parts in others.items() if parts}

    @property
    def faults(self) -> list[str]:
        """The signs that are faults, each with its parts."""
        return [with_parts(*sign) for sign in self.signs.items() if sign[0] != FLAGS["from_memory"]]


def with_parts(sign: str, parts: Sequence[str]) -> str:
    """Return a sign with the parts of the text that it concerns."""
    return f"{sign}: {', '.join(parts)}" if parts else sign


Work = Generator[list[Ask], list[Answer], TranslatedBlock]  # yields texts, receives answers, returns the block


def works_of(
    blocks: Sequence[Block], models: Sequence[Translator], options: SearchOptions, num_ranks: int = 1
) -> list[Work]:
    """Return the translation of each block as HTML in up to three rounds: with marks, by alignment, text by text.

    The first of the `models`, one or a chain of two, decides whether marks are tried; a chain cannot align. All texts
    of a round are to be aligned, or none. If an alternative of a block loses a mark, its best translation replaces it.
    """
    keeps_marks = models[0].segmenter.protects(options)
    return [_translated(block, keeps_marks or not block.has_tags, len(models) == 1, num_ranks) for block in blocks]


def _translated(block: Block, is_whole: bool, can_align: bool, num_ranks: int) -> Work:
    def kept(answer: Answer, written: Sequence[str | None], marked: str) -> TranslatedBlock:
        text = block.without_marks(answer.outputs[0])
        ranked = [each or written[0] or "" for each in written]
        return TranslatedBlock(ranked, text, answer.flags, (), marked, answer.expected_chrf, answer.similarity)

    for answer in (yield [Ask(block.with_marks())] if is_whole else []):
        outputs = _ranked(answer, num_ranks)
        written = [block.from_marks(output) for output in outputs]
        if written[0] is not None:
            return kept(answer, written, outputs[0])
    for answer in (yield [Ask(block.plain(), aligned=True)] if can_align else []):
        marked = answer.aligned and block.from_links(answer.aligned)
        if marked and (placed := block.from_marks(marked)) is not None:
            return kept(answer, [placed] * num_ranks, marked)
    answers = yield [Ask(text) for text in block.texts()]
    by_rank = [*zip(*(_ranked(answer, num_ranks) for answer in answers), strict=True)]
    marked = block.with_marks(by_rank[0])
    return kept(_merged(answers, " ".join(by_rank[0])), list(map(block.from_texts, by_rank)), marked)


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
        translated = answer_together(works_of(some, chain.translators, request.options), answer)
        yield from with_losses(some, translated, chain.translators[0].segmenter, request, chain.left_out(request))


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
        before = whole.lead
        details = []
        of_parts: list[Answer] = []
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
    left_out: Collection[str],
) -> list[TranslatedBlock]:
    """Return the translated blocks with the protected spans, marks and glossary terms that the whole translations lack.

    The faults become the note of each block. Models that were trained without data.protect lose spans, too. The
    placeholders of a gettext entry are those of its format flags. Marks of prose of the kinds `left_out` may be lost.
    """
    checked = []
    for block, each in zip(blocks, translated, strict=True):
        flags = {name: value for name, value in each.flags.items() if name != "protected_lost"}
        source = " ".join(block.texts())
        found = segmenter.find_spans(source, request)
        spans = [source[span.start : span.end] for span in found]
        lost = [span for span in lost_spans(spans, each.text) if not is_excluded(span, block.formats)]
        lost += changed_placeholders(source, each.text, block.formats)
        if request.options.protect:
            unknown = segmenter.unknown_words(replace_spans(source, found, [" "] * len(found)), left_out)
            lost += lost_marks(source, each.text, [*spans, *lost], left_out, unknown)
        if lost := without_parts(lost, source):
            flags["protected_lost"] = lost
        missed: list[Term] = []
        if request.glossary is not None:
            matches = segmenter.find_terms(source, found, request.glossary)
            missed = missed_terms([match.term for match in matches], each.text)
        oddities = {
            _FOREIGN: foreign_numbers(source, each.text, request.to or ""),
            _REPEATED: repetitions(source, each.text),
        }
        checked.append(each._replace(flags=flags, terms_missed=missed, oddities=oddities))
        block.note = "; ".join(checked[-1].faults)
    return checked


def repetitions(source: str, output: str) -> list[str]:
    """Return the words that `output` repeats, and `source` does not."""
    return [] if _SAID_AGAIN.search(source) else [found[0] for found in _REPETITION.finditer(output)]


def foreign_numbers(source: str, output: str, language: str) -> list[str]:
    """Return the numbers of `source` that `output` has unchanged, although its `language` writes them otherwise."""
    mark = next((mark for mark, codes in _OTHER_MARKS.items() if base_code(language) in codes.split()), "")
    found = re.findall(_DECIMALS.replace("§", mark), output) if mark else []
    return [number for number in dict.fromkeys(found) if number in source]
