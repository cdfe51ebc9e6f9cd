"""Translate pages of HTML by the models of a server."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from nmt.documents.html import HtmlText
from nmt.documents.tag_projection import join_details
from nmt.documents.translation import Answer, Ask, rounds
from nmt.server.service import Routed, Service, TextTranslation

_QUICK_CHARACTERS = 1000


async def translate_pages(service: Service, pages: Sequence[Routed], num_alternatives: int) -> list[TextTranslation]:
    """Return the translations of `pages`, as HTML. RequestError as `Service.translate`."""
    return await asyncio.gather(*(_translate_page(service, page, num_alternatives) for page in pages))


async def _translate_page(service: Service, page: Routed, num_alternatives: int) -> TextTranslation:
    html = await _read(page.text)
    async with service.models.use(page.model) as loaded:
        keeps_marks = loaded.translator.protects
    work = rounds(html.blocks, keeps_marks=keeps_marks, num_ranks=num_alternatives + 1)
    answers: list[Answer] | None = None
    while True:
        try:
            ask = next(work) if answers is None else work.send(answers)
        except StopIteration as end:
            ranked = [html.join([outputs[rank] for outputs in end.value]) for rank in range(num_alternatives + 1)]
            return TextTranslation(ranked[0], ranked[1:], [])
        answers = await _answer(service, page, ask, num_alternatives)


async def _answer(service: Service, page: Routed, ask: Ask, num_alternatives: int) -> list[Answer]:
    asked = [page._replace(text=text) for text in ask.texts]
    found = await service.translate(asked, 0 if ask.aligned else num_alternatives, details=ask.aligned)
    return [
        Answer(
            [each.text, *each.alternatives],
            join_details(text, [(piece.before, piece.translation.details, piece.after) for piece in each.pieces]),
        )
        for text, each in zip(ask.texts, found, strict=True)
    ]


async def _read(page: str) -> HtmlText:
    """Read a page: a long one in a thread, as html.parser takes seconds on some that are made for that."""
    return HtmlText(page) if len(page) <= _QUICK_CHARACTERS else await asyncio.to_thread(HtmlText, page)
