"""HTML pages are translated block by block, without holding up other requests."""

from __future__ import annotations

import asyncio
import threading

import pytest

from nmt.documents.blocks import Block
from nmt.server import blocks
from nmt.server.request_error import RequestError


def test_the_tags_of_a_long_page_are_placed_in_a_thread(running, monkeypatch):
    names = set()
    place = Block.from_links

    def note(block, aligned):
        names.add(threading.current_thread().name)
        return place(block, aligned)

    monkeypatch.setattr(Block, "from_links", note)
    page = "<p>12 <b>34</b> 5</p>" * 60
    answer = running.translate(q=page, source="en", target="de", format="html")
    assert answer.json()["translatedText"].count("<b>") == 60
    assert names == {"nmt-documents"}


def test_the_other_pages_of_a_request_are_cancelled_if_one_fails(monkeypatch):
    ended = []

    async def translate(service, page, num_alternatives):
        if page == "full":
            raise RequestError(429, "full")
        try:
            await asyncio.sleep(20)
        except asyncio.CancelledError:
            ended.append(page)
            raise

    async def main():
        with pytest.raises(RequestError, match="full"):
            await blocks.translate_pages(None, ["a", "full", "b"], 0)
        assert sorted(ended) == ["a", "b"]

    monkeypatch.setattr(blocks, "_translate_page", translate)
    asyncio.run(main())
