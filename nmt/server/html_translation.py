"""Translate pages of HTML: block by block, with inline tags put back by marks or by links; or stretch by stretch."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from nmt.server.html_text import Block, HtmlText
from nmt.server.service import Routed, Service, TextTranslation
from nmt.server.tag_projection import join_details

_QUICK_CHARACTERS = 1000


class _Placed(NamedTuple):
    """A block, the page that it is on, and the direction and model of that page."""

    block: Block
    page: HtmlText
    routed: Routed


async def translate_pages(service: Service, pages: Sequence[Routed], num_alternatives: int) -> list[TextTranslation]:
    """Return the translations of `pages`, as HTML. RequestError as `Service.translate`."""
    read = await _read([page.text for page in pages])
    placed = [_Placed(block, html, page) for html, page in zip(read, pages, strict=True) for block in html.blocks]
    found = await _with_marks(service, placed, num_alternatives)
    await _with_links(service, placed, found)
    await _fill(service, placed, found, num_alternatives)
    return [_join(html, placed, found, num_alternatives) for html in read]


async def _read(pages: Sequence[str]) -> list[HtmlText]:
    """Read pages: long ones in a thread, as html.parser takes seconds on some that are made for that."""

    def read_all() -> list[HtmlText]:
        return [HtmlText(page) for page in pages]

    return read_all() if sum(map(len, pages)) <= _QUICK_CHARACTERS else await asyncio.to_thread(read_all)


async def _with_marks(service: Service, placed: Sequence[_Placed], num_alternatives: int) -> list[list[str | None]]:
    """Return ranked translations of each block as HTML; None where a mark is lost, or the model keeps none."""
    keeps = [not each.block.has_tags or await _keeps_marks(service, each.routed) for each in placed]
    asked = [
        each.routed._replace(text=each.block.with_marks(each.page.letter))
        for each, keep in zip(placed, keeps, strict=True)
        if keep
    ]
    answers = iter(await service.translate(asked, num_alternatives))
    found: list[list[str | None]] = []
    for each, keep in zip(placed, keeps, strict=True):
        ranked = _ranked(next(answers), num_alternatives) if keep else []
        written = [each.block.from_marks(each.page.letter, output) for output in ranked]
        found.append(written or [None] * (num_alternatives + 1))
    return found


async def _with_links(service: Service, placed: Sequence[_Placed], found: list[list[str | None]]) -> None:
    """Translate the blocks whose best translation is missing without tags, and put these around linked words."""
    missing = [number for number, outputs in enumerate(found) if outputs[0] is None]
    asked = [placed[number].routed._replace(text=placed[number].block.plain()) for number in missing]
    answers = await service.translate(asked, details=True) if asked else []
    for number, question, answer in zip(missing, asked, answers, strict=True):
        pieces = [(piece.before, piece.translation.details, piece.after) for piece in answer.pieces]
        aligned = join_details(question.text, pieces)
        found[number][0] = None if aligned is None else placed[number].block.from_links(aligned)


async def _keeps_marks(service: Service, routed: Routed) -> bool:
    async with service.models.use(routed.model) as loaded:
        return loaded.translator.protects


async def _fill(
    service: Service, placed: Sequence[_Placed], found: list[list[str | None]], num_alternatives: int
) -> None:
    """Translate, stretch by stretch, the blocks whose best translation is missing."""
    missing = [number for number, outputs in enumerate(found) if outputs[0] is None]
    asked = [placed[n].routed._replace(text=text) for n in missing for text in placed[n].block.stretches()]
    answers = iter(await service.translate(asked, num_alternatives))
    for number in missing:
        block = placed[number].block
        ranked = [_ranked(next(answers), num_alternatives) for _ in block.stretches()]
        found[number] = [block.from_stretches([outputs[r] for outputs in ranked]) for r in range(num_alternatives + 1)]


def _ranked(answer: TextTranslation, num_alternatives: int) -> list[str]:
    """Return one output per rank; the last one again where there are fewer."""
    outputs = [answer.text, *answer.alternatives]
    return [outputs[min(rank, len(outputs) - 1)] for rank in range(num_alternatives + 1)]


def _join(
    page: HtmlText, placed: Sequence[_Placed], found: Sequence[Sequence[str | None]], num_alternatives: int
) -> TextTranslation:
    """Join a page; where an alternative of a block has lost a mark, its best translation stands."""
    own = [outputs for each, outputs in zip(placed, found, strict=True) if each.page is page]
    ranked = [page.join([outputs[r] or outputs[0] or "" for outputs in own]) for r in range(num_alternatives + 1)]
    return TextTranslation(ranked[0], ranked[1:], [])
