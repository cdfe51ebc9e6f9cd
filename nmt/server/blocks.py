"""Translate blocks of documents and HTML pages with the models of a server."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from nmt.data.glossary import Glossary
from nmt.documents.blocks import Block
from nmt.documents.html import HtmlText
from nmt.documents.tag_projection import join_details
from nmt.documents.translation import Answer, Ask, missed_in_blocks, rounds
from nmt.server.service import Routed, Service, TextTranslation

_QUICK_CHARACTERS = 1000


async def translate_pages(service: Service, pages: Sequence[Routed], num_alternatives: int) -> list[TextTranslation]:
    """Return the translations of `pages`, as HTML. RequestError as `Service.translate`."""
    return await asyncio.gather(*(_translate_page(service, page, num_alternatives) for page in pages))


async def _translate_page(service: Service, page: Routed, num_alternatives: int) -> TextTranslation:
    # Parse long pages in a thread: html.parser takes seconds on some malicious ones.
    is_long = len(page.text) > _QUICK_CHARACTERS
    html = await asyncio.to_thread(HtmlText, page.text) if is_long else HtmlText(page.text)
    found = await translate_blocks(service, page, html.blocks, num_alternatives)
    ranked = [html.join([outputs[rank] for outputs in found]) for rank in range(num_alternatives + 1)]
    glossary = Glossary(page.terms) if page.terms else None
    return TextTranslation(ranked[0], ranked[1:], [], missed_in_blocks(html.blocks, found, glossary))


async def translate_blocks(
    service: Service, routed: Routed, blocks: Sequence[Block], num_alternatives: int = 0
) -> list[list[str]]:
    """Return the translations of each block, best first, in the direction of `routed`, whose text is ignored.

    RequestError as `Service.translate`.
    """
    async with service.models.use(routed.model) as loaded:
        keeps_marks = loaded.translator.protects
    work = rounds(blocks, keeps_marks=keeps_marks, num_ranks=num_alternatives + 1)
    answers: list[Answer] | None = None
    while True:
        try:
            ask = next(work) if answers is None else work.send(answers)
        except StopIteration as end:
            return end.value
        answers = await _answer(service, routed, ask, num_alternatives)


async def _answer(service: Service, routed: Routed, ask: Ask, num_alternatives: int) -> list[Answer]:
    asked = [routed._replace(text=text) for text in ask.texts]
    found = await service.translate(asked, 0 if ask.aligned else num_alternatives, details=ask.aligned)
    return [
        Answer(
            [each.text, *each.alternatives],
            join_details(text, [(piece.before, piece.translation.details, piece.after) for piece in each.pieces]),
        )
        for text, each in zip(ask.texts, found, strict=True)
    ]
