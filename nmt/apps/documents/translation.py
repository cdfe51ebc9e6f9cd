"""Translate the blocks of a document, and put their inline tags in the right places.

A model trained with data.protect gets one mark, such as {h0}, per inline tag, and places the tags itself. For other
models, or if a mark is lost, the attention tells which words of the translation a tag encloses. If that fails too, the
stretches between the tags are translated separately.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from nmt.apps.documents.blocks import Block
from nmt.apps.documents.details import explain
from nmt.apps.documents.flags import Flags, flags_of, merge
from nmt.apps.documents.po_formats import changed_placeholders, is_excluded
from nmt.apps.documents.tag_projection import Aligned, join_details
from nmt.config import SearchOptions
from nmt.data.text.glossary import Glossary, Term, missed_terms
from nmt.data.text.spans import find_spans
from nmt.translation import Translator
from nmt.translation.protect import missing
from nmt.translation.stream import grow_blocks
from nmt.translation.texts import TextSegmenter
from nmt.translation.translation import cut_text


class Ask(NamedTuple):
    """Texts to translate next; `aligned` also requests their alignment."""

    texts: list[str]
    aligned: bool = False


class Answer(NamedTuple):
    """The translations of one text, best first; of the best, its flags, and its alignment if requested and known."""

    outputs: list[str]
    flags: Flags
    aligned: Aligned | None = None


class TranslatedBlock(NamedTuple):
    """The translations of a block as HTML, best first; of the best, its text, its flags, and the terms it misses."""

    written: list[str]
    text: str
    flags: Flags
    terms_missed: Sequence[Term] = ()


Rounds = Generator[Ask, list[Answer], list[TranslatedBlock]]
"""Yields texts to translate, receives the answers, and returns the translated blocks."""


def rounds(blocks: Sequence[Block], *, keeps_marks: bool, num_ranks: int = 1) -> Rounds:
    """Translate `blocks` as HTML in up to three rounds: with marks, by alignment, stretch by stretch.

    `keeps_marks` tells whether the model was trained with data.protect. If an alternative of a block loses a mark, the
    block's best translation replaces it.
    """
    found: list[list[str | None]] = [[None] * num_ranks for _ in blocks]
    best: list[tuple[str, Flags]] = [("", {})] * len(blocks)
    whole = [number for number, block in enumerate(blocks) if keeps_marks or not block.has_tags]
    answers = yield Ask([blocks[number].with_marks() for number in whole])
    for number, answer in zip(whole, answers, strict=True):
        found[number] = [blocks[number].from_marks(output) for output in _ranked(answer, num_ranks)]
        best[number] = blocks[number].without_marks(answer.outputs[0]), answer.flags
    unplaced = [number for number, outputs in enumerate(found) if outputs[0] is None]
    if unplaced:
        answers = yield Ask([blocks[number].plain() for number in unplaced], aligned=True)
        for number, answer in zip(unplaced, answers, strict=True):
            found[number][0] = None if answer.aligned is None else blocks[number].from_links(answer.aligned)
            best[number] = answer.outputs[0], answer.flags
    unplaced = [number for number in unplaced if found[number][0] is None]
    if unplaced:
        rest = iter((yield Ask([text for number in unplaced for text in blocks[number].stretches()])))
        for number in unplaced:
            answers = [next(rest) for _ in blocks[number].stretches()]
            ranked = [_ranked(answer, num_ranks) for answer in answers]
            found[number] = [blocks[number].from_stretches([each[r] for each in ranked]) for r in range(num_ranks)]
            best[number] = " ".join(each[0] for each in ranked), merge([answer.flags for answer in answers])
    pairs = zip(found, best, strict=True)
    return [TranslatedBlock([output or outputs[0] or "" for output in outputs], *of_best) for outputs, of_best in pairs]


def _ranked(answer: Answer, num_ranks: int) -> list[str]:
    """Return one output per rank; repeat the last one if there are too few."""
    return [answer.outputs[min(rank, len(answer.outputs) - 1)] for rank in range(num_ranks)]


class Wanted(NamedTuple):
    """The options for all blocks of a document; the languages are as in `Translator.translate`."""

    options: SearchOptions
    to: str | None = None
    from_: str | None = None
    glossary: Glossary | None = None


def translate_blocks(translator: Translator, blocks: Sequence[Block], wanted: Wanted) -> Iterator[TranslatedBlock]:
    """Yield the translations of `blocks`, of which up to 1,024 are in memory. Raises as `Translator.translate`."""
    wanted = wanted._replace(options=wanted.options.changed(num_hypotheses=1))
    rest = iter(blocks)
    for texts in grow_blocks(block.plain() for block in blocks):
        some = list(islice(rest, len(texts)))
        found = _translate_some(translator, some, wanted)
        yield from with_losses(some, found, translator.segmenter, wanted.options, wanted.glossary)


def _translate_some(translator: Translator, blocks: Sequence[Block], wanted: Wanted) -> list[TranslatedBlock]:
    options, to, from_, glossary = wanted
    work = rounds(blocks, keeps_marks=translator.segmenter.protects(options))
    answers: list[Answer] | None = None
    while True:
        try:
            ask = next(work) if answers is None else work.send(answers)
        except StopIteration as end:
            found: list[TranslatedBlock] = end.value
            return found
        if ask.aligned:
            answers = _translate_aligned(translator, ask.texts, wanted)
            continue
        translations = translator.translate(ask.texts, options, to=to, from_=from_, glossary=glossary)
        answers = [Answer([translation.text], flags_of(translation)) for translation in translations]


def _translate_aligned(translator: Translator, texts: Sequence[str], wanted: Wanted) -> list[Answer]:
    """Translate `texts` sentence by sentence, and return the translations with their alignments."""
    options, to, from_, glossary = wanted
    directed = [translator.languages.direct(text, to, from_) for text in texts]
    cuts = [cut_text(translator.segmenter, each, options) for each in directed]
    sources = [source for _, parts in cuts for source, *_ in parts]
    found = iter(translator.translate(sources, options, to=to, from_=from_, glossary=glossary))
    answers = []
    for text, each, (lead, parts) in zip(texts, directed, cuts, strict=True):
        before, written, pieces, flags = lead, "", [], list[Flags]()
        for source, space, _ in parts:
            translation = next(found)
            pieces.append((before, explain(translator, source, each.direction, translation), space))
            flags.append(flags_of(translation))
            written, before = f"{written}{before}{translation.text}{space}", ""
        answers.append(Answer([written], merge(flags), join_details(text, pieces)))
    return answers


def with_losses(
    blocks: Sequence[Block],
    found: Sequence[TranslatedBlock],
    segmenter: TextSegmenter,
    options: SearchOptions,
    glossary: Glossary | None,
) -> list[TranslatedBlock]:
    """Return the translated blocks with the protected spans and the glossary terms that the whole translations lack.

    Models that were trained without data.protect lose spans, too.
    """
    checked = []
    for block, each in zip(blocks, found, strict=True):
        flags = {name: value for name, value in each.flags.items() if name != "protected_lost"}
        if lost := _lost(block, each.text, segmenter.languages.user_symbols if options.protect else None):
            flags["protected_lost"] = lost
        matches = segmenter.terms_to_keep(glossary, block.plain(), options) if glossary is not None else []
        missed = missed_terms([match.term for match in matches], each.text) if matches else []
        checked.append(each._replace(flags=flags, terms_missed=missed))
    return checked


def _lost(block: Block, text: str, symbols: Collection[str] | None) -> list[str]:
    """Return the placeholders of a gettext entry, and the protected spans, that are not in `text` as in the block.

    `symbols` are those of the model, which are not spans; None: spans are not protected.
    """
    source = " ".join(block.stretches())
    spans = [source[span.start : span.end] for span in find_spans(source, symbols)] if symbols is not None else []
    lost = [span for span in missing(spans, text) if not is_excluded(span, block.formats)] if spans else []
    return list(dict.fromkeys(lost + changed_placeholders(source, text, block.formats)))
