"""Many long requests at once: they wait for one thread, within the limits, and short ones do not wait for them."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from nmt.apps.server import service

LONG = ["1234567890 " * 25] * 10


class Segmenting:
    """Holds the segmentation of long texts of a running server until it is let go, and counts those at once."""

    def __init__(self, server, monkeypatch):
        self.go, self.begun = threading.Event(), threading.Event()
        self.at_once, self.most = 0, 0
        translator = server.models.served[0].translator
        segment = translator.segment

        def wait(texts, request):
            if len(texts) < len(LONG):
                return segment(texts, request)
            self.at_once += 1
            self.most = max(self.most, self.at_once)
            self.begun.set()
            assert self.go.wait(60)
            self.at_once -= 1
            return segment(texts, request)

        monkeypatch.setattr(translator, "segment", wait)


@pytest.mark.parametrize("path", ["/translate", "/v2/translate"])
def test_long_requests_are_segmented_one_after_another_and_short_ones_do_not_wait(running, monkeypatch, path):
    body = {"q": LONG, "source": "en", "target": "de", "text": LONG, "source_lang": "EN", "target_lang": "DE"}
    held = Segmenting(running, monkeypatch)
    with ThreadPoolExecutor(8) as threads:
        asked = [threads.submit(running.client.post, path, json=body) for _ in range(8)]
        assert held.begun.wait(60)
        assert running.client.get("/health").json() == {"status": "ok"}
        assert running.translate(q="12", source="en", target="de").status_code == 200
        assert not any(answer.done() for answer in asked)
        held.go.set()
        assert [answer.result().status_code for answer in asked] == [200] * 8
    assert held.most == 1


def test_what_waits_for_segmentation_counts_for_the_limit_and_the_timeout(running, start, two_run, monkeypatch):
    server = start([two_run], timeout=0.5)
    monkeypatch.setattr(service, "MAX_WAITING_CHARACTERS", 2 * len("".join(LONG)))
    held = Segmenting(server, monkeypatch)
    with ThreadPoolExecutor(4) as threads:
        asked = [threads.submit(server.translate, q=LONG, source="en", target="de") for _ in range(4)]
        answers = [answer.result() for answer in asked]
        held.go.set()
    assert sorted(answer.status_code for answer in answers) == [429, 429, 503, 503]
    assert all(answer.headers["retry-after"] for answer in answers)
    assert server.metric("nmt_refused_total", limit="queue") == 2


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a thread has the priority of its process")
def test_what_segments_translates_and_reloads_leaves_the_processor_to_the_event_loop(two_run, start, monkeypatch):
    server = start([two_run])
    translator, found = server.models.served[0].translator, {}

    def priority() -> int:
        return os.getpriority(os.PRIO_PROCESS, 0)

    def noting(name, work):
        def note(*arguments):
            found[name] = priority()
            return work(*arguments)

        return note

    for name in ("segment", "translate_segmented"):
        monkeypatch.setattr(translator, name, noting(name, getattr(translator, name)))
    assert server.translate(q=LONG, source="en", target="de").status_code == 200

    async def reload() -> int:
        await server.app.state.reload(dict, noting("reload", lambda: server.models))
        return priority()

    of_loop = asyncio.run_coroutine_threadsafe(reload(), server.loop).result()
    assert of_loop == priority()
    assert set(found) == {"segment", "translate_segmented", "reload"}
    assert all(of_thread > of_loop for of_thread in found.values())
