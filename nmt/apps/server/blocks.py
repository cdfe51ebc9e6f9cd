"""Translate blocks of documents and HTML pages with the models of a server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from nmt.apps.documents.blocks import Block, Template
from nmt.apps.documents.markup import HtmlText
from nmt.apps.documents.tag_projection import join_details
from nmt.apps.documents.translation import Answer, Ask, TranslatedBlock, with_losses, works_of
from nmt.apps.server.requests import refusal
from nmt.apps.server.routes import Routed
from nmt.apps.server.service import Service, TextTranslation
from nmt.base.rounds import await_together
from nmt.data.text.glossary import Term
from nmt.translation.request import Request
from nmt.translation.translation import Flags, merge


async def translate_pages(
    service: Service,
    pages: Sequence[Routed],
    num_alternatives: int = 0,
    read: Callable[[str], Template] = HtmlText,
) -> list[TextTranslation]:
    """Return the translations of `pages`, as HTML, or as XML if `read` reads it.

    RequestError as `Service.translate`; it cancels the other pages. RequestError (400) for a page that `read` rejects.
    """
    try:
        async with service.in_time(), asyncio.TaskGroup() as group:
            tasks = [group.create_task(_translate_page(service, page, num_alternatives, read)) for page in pages]
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]


async def _translate_page(
    service: Service, page: Routed, num_alternatives: int, read: Callable[[str], Template]
) -> TextTranslation:
    if not page.path:
        return TextTranslation(page.text, [], [], [], {})
    with refusal("Invalid request: "):
        html = await service.pages.run_if_long(len(page.text), read, page.text)
    blocks = await translate_blocks(service, page, html.blocks, num_alternatives)

    def join() -> list[str]:
        return [html.join([block.written[rank] for block in blocks]) for rank in range(num_alternatives + 1)]

    best, *alternatives = await service.pages.run_if_long(len(page.text), join)
    missed, flags = faults_of(blocks)
    return TextTranslation(best, alternatives, [], missed, flags if page.flags or len(page.path) > 1 else {})


def faults_of(blocks: Sequence[TranslatedBlock]) -> tuple[list[Term], Flags]:
    """Return the terms that the translations of `blocks` miss, and the flags of all together."""
    return [term for block in blocks for term in block.terms_missed], merge([block.flags for block in blocks])


async def translate_blocks(
    service: Service, routed: Routed, blocks: Sequence[Block], num_alternatives: int = 0
) -> list[TranslatedBlock]:
    """Translate `blocks` in the direction of `routed`, whose text is ignored. RequestError as `Service.translate`."""
    run_if_long = partial(service.pages.run_if_long, sum(len(block.plain()) for block in blocks))
    first = routed.translators[0]
    direction = routed.path[0][0]
    request = Request(first.options, to=direction.tgt, from_=direction.src, glossary=routed.glossary)

    async def answer(asks: list[Ask]) -> list[Answer]:
        is_aligned = asks[0].aligned
        memory = None if is_aligned else routed.memory  # has no tags to place
        texts = [routed._replace(text=ask.text, memory=memory) for ask in asks]
        translated = await service.translate(texts, 0 if is_aligned else num_alternatives, details=is_aligned)
        return await run_if_long(lambda: [*map(_answer, asks, translated)])

    works = works_of(blocks, routed.translators, request.options, num_alternatives + 1)
    found = await await_together(works, answer, run_if_long)
    kinds = (model.translator.segmenter.habits(direction).left_out for direction, model in routed.path)
    left_out = frozenset[str]().union(*kinds)
    return await run_if_long(with_losses, blocks, found, first.segmenter, request, left_out)


def _answer(ask: Ask, translated: TextTranslation) -> Answer:
    aligned = join_details(ask.text, [(each.before, each.details, each.after) for each in translated.segments])
    return Answer([translated.text, *translated.alternatives], translated.flags, aligned)
