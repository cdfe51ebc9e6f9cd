"""Translate the blocks of a document, and put their inline tags in the right places.

A model trained with data.protect gets one mark, such as {h0}, per inline tag, and places the tags itself. For other
models, or if a mark is lost, the attention tells which words of the translation a tag encloses. If that fails too, the
stretches between the tags are translated separately.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Sequence
from functools import partial
from html import unescape
from typing import NamedTuple

from nmt.config import SearchOptions
from nmt.data.glossary import Glossary, Match, Term, missed_terms
from nmt.documents.blocks import Block
from nmt.documents.details import explain
from nmt.documents.tag_projection import Aligned, join_details
from nmt.translate import Translator
from nmt.translate.translation import cut_text

_TAG = re.compile(r"<[^>]*>")


class Ask(NamedTuple):
    """Texts to translate next; `aligned` also requests their alignment."""

    texts: list[str]
    aligned: bool = False


class Answer(NamedTuple):
    """The translations of one text, best first, and the alignment of the best one, if requested and known."""

    outputs: list[str]
    aligned: Aligned | None = None


Rounds = Generator[Ask, list[Answer], list[list[str]]]
"""Yields texts to translate, receives the answers, and returns the outputs of each block by rank."""


def rounds(blocks: Sequence[Block], *, keeps_marks: bool, num_ranks: int = 1) -> Rounds:
    """Translate `blocks` as HTML in up to three rounds: with marks, by alignment, stretch by stretch.

    `keeps_marks` tells whether the model was trained with data.protect. If an alternative of a block loses a mark, the
    block's best translation replaces it.
    """
    found: list[list[str | None]] = [[None] * num_ranks for _ in blocks]
    whole = [number for number, block in enumerate(blocks) if keeps_marks or not block.has_tags]
    answers = yield Ask([blocks[number].with_marks() for number in whole])
    for number, answer in zip(whole, answers, strict=True):
        found[number] = [blocks[number].from_marks(output) for output in _ranked(answer, num_ranks)]
    missing = [number for number, outputs in enumerate(found) if outputs[0] is None]
    if missing:
        answers = yield Ask([blocks[number].plain() for number in missing], aligned=True)
        for number, answer in zip(missing, answers, strict=True):
            found[number][0] = None if answer.aligned is None else blocks[number].from_links(answer.aligned)
    missing = [number for number in missing if found[number][0] is None]
    if missing:
        rest = iter((yield Ask([text for number in missing for text in blocks[number].stretches()])))
        for number in missing:
            ranked = [_ranked(next(rest), num_ranks) for _ in blocks[number].stretches()]
            found[number] = [blocks[number].from_stretches([each[r] for each in ranked]) for r in range(num_ranks)]
    return [[output or outputs[0] or "" for output in outputs] for outputs in found]


def _ranked(answer: Answer, num_ranks: int) -> list[str]:
    """Return one output per rank; repeat the last one if there are too few."""
    return [answer.outputs[min(rank, len(answer.outputs) - 1)] for rank in range(num_ranks)]


class Wanted(NamedTuple):
    """The options for all blocks of a document; the languages are as in `Translator.translate`."""

    options: SearchOptions
    to: str | None = None
    from_: str | None = None
    glossary: Glossary | None = None


class TranslatedBlocks(NamedTuple):
    """The translations of blocks as HTML, and the glossary terms missing in them."""

    written: list[str]
    terms_missed: list[Term]


def translate_blocks(translator: Translator, blocks: Sequence[Block], wanted: Wanted) -> TranslatedBlocks:
    """Translate `blocks`. Raises as `Translator.translate`."""
    options, to, from_, glossary = wanted
    options = options.changed(num_hypotheses=1)
    segmenter = translator.segmenter
    work = rounds(blocks, keeps_marks=segmenter.protects(options))
    answers: list[Answer] | None = None
    while True:
        try:
            ask = next(work) if answers is None else work.send(answers)
        except StopIteration as end:
            missed = []
            if glossary is not None:
                find = partial(segmenter.terms_to_keep, glossary, options=options)
                missed = missed_in_blocks(blocks, end.value, find)
            return TranslatedBlocks([outputs[0] for outputs in end.value], missed)
        if ask.aligned:
            answers = _translate_aligned(translator, ask.texts, wanted._replace(options=options))
            continue
        translations = translator.translate(ask.texts, options, to=to, from_=from_, glossary=glossary)
        answers = [Answer([translation.text]) for translation in translations]


def _translate_aligned(translator: Translator, texts: Sequence[str], wanted: Wanted) -> list[Answer]:
    """Translate `texts` sentence by sentence, and return the translations with their alignments."""
    options, to, from_, glossary = wanted
    directed = [translator.languages.direct(text, to, from_) for text in texts]
    cuts = [cut_text(translator.segmenter, each, options) for each in directed]
    sources = [source for _, parts in cuts for source, *_ in parts]
    found = iter(translator.translate(sources, options, to=to, from_=from_, glossary=glossary))
    answers = []
    for text, each, (lead, parts) in zip(texts, directed, cuts, strict=True):
        before, written, pieces = lead, "", []
        for source, space, _ in parts:
            translation = next(found)
            pieces.append((before, explain(translator, source, each.direction, translation), space))
            written, before = f"{written}{before}{translation.text}{space}", ""
        answers.append(Answer([written], join_details(text, pieces)))
    return answers


def missed_in_blocks(
    blocks: Sequence[Block], found: Sequence[Sequence[str]], find: Callable[[str], Sequence[Match]]
) -> list[Term]:
    """Return the glossary terms whose translations are missing in the translated blocks.

    `find` returns those in the text of a block, as `TextSegmenter.terms_to_keep` does.
    """
    missed = []
    for block, outputs in zip(blocks, found, strict=True):
        terms = [match.term for match in find(block.plain())]
        missed += missed_terms(terms, unescape(_TAG.sub("", outputs[0]))) if terms else []
    return missed
