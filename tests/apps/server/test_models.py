"""Models are loaded once, and leave memory when it is short."""

from __future__ import annotations

import asyncio
import threading

import pytest

from nmt.apps.server.metrics import Metrics
from nmt.apps.server.models import Models
from nmt.apps.server.settings import Settings
from nmt.base.errors import NmtError
from nmt.base.languages import Direction


def models(*paths, memory_limit=0) -> Models:
    settings = Settings(memory_limit=memory_limit, device="cpu", precision="fp32")
    return Models([str(path) for path in paths], settings, Metrics())


def test_the_first_model_of_a_direction_serves_it_and_names_differ(two_run, letters_run):
    found = models(two_run, letters_run, two_run)
    assert found.directions == [Direction("en", "de"), Direction("en", "fr"), Direction("de", "en")]
    first, second, third = found.served
    assert found.by_direction(Direction("en", "fr")) is first
    assert found.by_name(third.name) is third
    assert [third.name, second.name] == [f"{first.name}#2", second.name]
    found.close()


def test_the_model_used_least_recently_leaves_when_its_requests_are_answered(two_run, letters_run):
    size = max(each.size for each in models(two_run, letters_run).served)
    found = models(two_run, letters_run, memory_limit=size)
    two, letters = found.served
    assert (two.loaded is None, letters.loaded is None) == (False, True)

    async def main():
        order = []

        async def use(served, name, event=None):
            async with found.use(served):
                order.append(name)
                if event:
                    await event.wait()

        finished = asyncio.Event()
        first = asyncio.create_task(use(two, "two", finished))
        await asyncio.sleep(0)
        second = asyncio.create_task(use(letters, "letters"))
        await asyncio.sleep(0.05)
        third = asyncio.create_task(use(two, "two again"))
        await asyncio.sleep(0.05)
        assert order == ["two"]
        finished.set()
        await asyncio.gather(first, second, third)
        return order

    assert asyncio.run(main()) == ["two", "letters", "two again"]
    assert (two.loaded is None, letters.loaded is None) == (False, True)
    found.close()


def test_a_load_goes_on_when_its_client_has_gone_and_is_the_only_one(two_run, letters_run):
    size = max(each.size for each in models(two_run, letters_run).served)
    found = models(two_run, letters_run, memory_limit=size)
    letters = found.served[1]
    load, loads, go = found._load, [], threading.Event()

    def load_slowly(served):
        loads.append(served)
        assert go.wait(120)
        return load(served)

    found._load = load_slowly

    async def main():
        clients = []
        for _ in range(3):
            clients.append(asyncio.create_task(found.acquire(letters)))
            while not loads:
                await asyncio.sleep(0.001)
            clients[-1].cancel()
        stays = asyncio.create_task(found.acquire(letters))
        await asyncio.gather(*clients, return_exceptions=True)
        assert all(client.cancelled() for client in clients)
        go.set()
        assert await stays is letters.loaded
        assert letters.num_users == 1
        found.release(letters)
        assert letters.idle.is_set()

    asyncio.run(main())
    assert loads == [letters]
    found.close()


def test_a_model_larger_than_the_limit_is_refused(two_run):
    with pytest.raises(NmtError, match="larger than the memory limit"):
        models(two_run, memory_limit=1000)
