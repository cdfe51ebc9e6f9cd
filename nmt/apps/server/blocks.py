"""Translate blocks of documents and HTML pages with the models of a server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar, TypeVarTuple

from nmt.apps.documents.blocks import Block
from nmt.apps.documents.html import HtmlText
from nmt.apps.documents.tag_projection import join_details
from nmt.apps.documents.translation import Answer, Ask, Rounds, TranslatedBlock, merge, rounds, with_losses
from nmt.apps.server.service import Routed, Service, TextTranslation
from nmt.apps.server.threads import Threads
from nmt.data.text.glossary import Glossary

_QUICK_CHARACTERS = 1000

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")


async def translate_pages(service: Service, pages: Sequence[Routed], num_alternatives: int) -> list[TextTranslation]:
    """Return the translations of `pages`, as HTML. RequestError as `Service.translate`; it cancels the other pages."""
    try:
        async with service.in_time(), asyncio.TaskGroup() as group:
            tasks = [group.create_task(_translate_page(service, page, num_alternatives)) for page in pages]
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]


async def _translate_page(service: Service, page: Routed, num_alternatives: int) -> TextTranslation:
    threads = service.threads if len(page.text) > _QUICK_CHARACTERS else None
    html = await _run(threads, HtmlText, page.text)
    found = await translate_blocks(service, page, html.blocks, num_alternatives, threads=threads)

    def join() -> list[str]:
        return [html.join([block.written[rank] for block in found]) for rank in range(num_alternatives + 1)]

    best, *alternatives = await _run(threads, join)
    missed = [term for block in found for term in block.terms_missed]
    return TextTranslation(best, alternatives, [], missed, merge([block.flags for block in found]))


async def translate_blocks(
    service: Service,
    routed: Routed,
    blocks: Sequence[Block],
    num_alternatives: int = 0,
    *,
    threads: Threads | None = None,
) -> list[TranslatedBlock]:
    """Translate `blocks` in the direction of `routed`, whose text is ignored.

    `threads` place the tags; None: the event loop does, which is for short pages. RequestError as `Service.translate`.
    """
    async with service.models.use(routed.model) as loaded:
        segmenter, options = loaded.translator.segmenter, loaded.translator.options
    work = rounds(blocks, keeps_marks=segmenter.protects(options), num_ranks=num_alternatives + 1)
    step = await _run(threads, _next_step, work, None, [])
    while isinstance(step, Ask):
        asked = [routed._replace(text=text) for text in step.texts]
        found = await service.translate(asked, 0 if step.aligned else num_alternatives, details=step.aligned)
        step = await _run(threads, _next_step, work, step, found)
    glossary = Glossary(routed.terms) if routed.terms else None
    return await _run(threads, with_losses, blocks, step, segmenter, options, glossary)


async def _run(threads: Threads | None, work: Callable[[*Arguments], Result], *arguments: *Arguments) -> Result:
    return work(*arguments) if threads is None else await threads.run(work, *arguments)


def _next_step(work: Rounds, ask: Ask | None, found: Sequence[TextTranslation]) -> Ask | list[TranslatedBlock]:
    """Return what to ask next, given the answers to `ask`, or the result of `work`."""
    try:
        return next(work) if ask is None else work.send(_answers(ask, found))
    except StopIteration as end:
        blocks: list[TranslatedBlock] = end.value
        return blocks


def _answers(ask: Ask, found: Sequence[TextTranslation]) -> list[Answer]:
    return [
        Answer(
            [each.text, *each.alternatives],
            each.flags,
            join_details(text, [(piece.before, piece.translation.details, piece.after) for piece in each.pieces]),
        )
        for text, each in zip(ask.texts, found, strict=True)
    ]
