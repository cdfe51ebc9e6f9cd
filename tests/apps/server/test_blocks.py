"""HTML pages are translated block by block, without holding up other requests; long work takes turns in threads."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import pytest

from nmt.apps.documents.blocks import Block
from nmt.apps.server import blocks
from nmt.apps.server.metrics import Metrics
from nmt.apps.server.requests import RequestError
from nmt.apps.server.service import Service
from nmt.apps.server.settings import Settings
from nmt.apps.server.threads import Threads


def test_the_tags_of_a_long_page_are_placed_in_a_thread(running, monkeypatch):
    names = set()
    place = Block.from_links

    def note(block, aligned):
        names.add(threading.current_thread().name)
        return place(block, aligned)

    monkeypatch.setattr(Block, "from_links", note)
    page = "<p>12 <b>34</b> 5</p>" * 300
    answer = running.translate(q=page, source="en", target="de", format="html")
    assert answer.json()["translatedText"].count("<b>") == 300
    assert all(name.startswith("Dummy-") for name in names), names  # a thread that `threading` did not start


def test_the_other_pages_of_a_request_are_cancelled_if_one_fails(running, monkeypatch):
    ended, service = [], Service(running.models, running.settings, Metrics(), {})

    async def translate(service, page, *_):
        if page == "full":
            raise RequestError(429, "full")
        try:
            await asyncio.sleep(20)
        except asyncio.CancelledError:
            ended.append(page)
            raise

    async def main():
        with pytest.raises(RequestError, match="full"):
            await blocks.translate_pages(service, ["a", "full", "b"], 0)
        assert sorted(ended) == ["a", "b"]

    monkeypatch.setattr(blocks, "_translate_page", translate)
    asyncio.run(main())


def test_a_page_that_waits_too_long_for_a_thread_gets_503(running):
    service = Service(running.models, Settings(timeout=0.1), Metrics(), {})
    page, go = service.routes.route("en", "de")._replace(text="<p>12</p>" * 300), threading.Event()

    async def main():
        service.pages = threads = Threads(1)
        others = [asyncio.create_task(threads.run(go.wait, 120)) for _ in range(2)]
        with pytest.raises(RequestError, match=r"this took longer than 0\.1 seconds") as refused:
            await asyncio.wait_for(blocks.translate_pages(service, [page, page], 0), 120)
        go.set()
        await asyncio.gather(*others)
        assert refused.value.status_code == 503
        assert service.metrics.registry.get_sample_value("nmt_refused_total", {"limit": "time"}) == 1

    asyncio.run(main())


def test_a_term_within_a_protected_span_of_a_page_is_not_missed(running):
    page = {"q": "<p>http://a.org/34 <b>12</b></p>", "source": "de", "target": "en", "format": "html"}
    too_long = "x" * 60
    answer = running.translate(**page, glossary={"34": "xyzzy", "12": too_long}).json()
    assert answer["terms_missed"] == [["12", too_long]]


def test_work_is_done_in_other_threads_and_its_errors_are_raised():
    async def main():
        threads = Threads(1)
        assert await threads.run(threading.get_ident) != threading.get_ident()
        with pytest.raises(ZeroDivisionError):
            await threads.run(divmod, 1, 0)
        assert await threads.run(divmod, 7, 4) == (1, 3)

    asyncio.run(main())


def test_work_that_nobody_waits_for_keeps_its_place_until_it_ends():
    go, done = threading.Event(), []

    async def main():
        threads = Threads(2)
        gone = [asyncio.create_task(threads.run(go.wait, 120)) for _ in range(2)]
        await asyncio.sleep(0.01)
        for task in gone:
            task.cancel()
        later = asyncio.create_task(threads.run(done.append, 1))
        await asyncio.sleep(0.05)
        assert (done, all(task.cancelled() for task in gone)) == ([], True)
        go.set()
        await later
        assert done == [1]

    asyncio.run(main())


def test_a_thread_that_does_not_start_keeps_no_place(monkeypatch):
    def fail(function, arguments):
        raise RuntimeError("can't start new thread")

    async def main():
        threads = Threads(1)
        with monkeypatch.context() as exhausted:
            exhausted.setattr("_thread.start_new_thread", fail)
            with pytest.raises(RuntimeError, match="can't start"):
                await threads.run(divmod, 7, 4)
        assert await asyncio.wait_for(threads.run(divmod, 7, 4), 120) == (1, 3)

    asyncio.run(main())


STUCK = """
import asyncio, time
from nmt.apps.server.threads import Threads

async def main():
    try:
        await asyncio.wait_for(Threads(1).run(time.sleep, 600), 0.01)
    except TimeoutError:
        print("stopped")

asyncio.run(main())
"""


def test_work_that_does_not_end_keeps_no_server_from_stopping():
    done = subprocess.run([sys.executable, "-c", STUCK], capture_output=True, text=True, timeout=600, check=True)
    assert done.stdout == "stopped\n"
