"""The queue of a model: what piles up is translated together, clients take turns, nothing is lost."""

from __future__ import annotations

import asyncio
import threading

import pytest

from nmt.languages import Direction
from nmt.server import batcher as batcher_module
from nmt.server.batcher import Batcher
from nmt.server.metrics import Metrics
from nmt.server.request_error import RequestError
from nmt.server.settings import Settings
from nmt.server.units import Unit, UnitTranslation, Wanted

NUM_CORES = 2
WANTED = Wanted(Direction("en", "de"))


@pytest.fixture(autouse=True)
def _two_cores(monkeypatch):
    monkeypatch.setattr(batcher_module, "num_cores", lambda: NUM_CORES)


def units(*texts: str, num_tokens: int = 1) -> list[Unit]:
    return [Unit(text, WANTED, num_tokens) for text in texts]


class Gate:
    """Translates into upper case, and keeps the batches; the first of each thread wait until `go`."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.go = threading.Event()

    def __call__(self, batch):
        self.batches.append([unit.text for unit in batch])
        assert self.go.wait(20)
        if any(unit.text == "bad" for unit in batch):
            raise ValueError("bad")
        return [UnitTranslation(unit.text.upper(), [], 1, 1, True, []) for unit in batch]


def run(test, **limits):
    """Run `test(batcher, gate)` in an event loop."""

    async def main():
        gate = Gate()
        batcher = Batcher("m", gate, Settings(**limits), Metrics())
        try:
            return await test(batcher, gate)
        finally:
            gate.go.set()
            batcher.close()

    return asyncio.run(main())


async def fill_cores(batcher: Batcher, gate: Gate) -> None:
    for number in range(NUM_CORES):
        batcher.submit(units(f"first {number}"))
    while len(gate.batches) < NUM_CORES:
        await asyncio.sleep(0.001)


async def texts_of(job) -> list[str]:
    return [(await result).text for result in job.results]


def test_an_idle_engine_starts_at_once_and_what_comes_meanwhile_is_taken_together():
    async def test(batcher, gate):
        await fill_cores(batcher, gate)
        jobs = [batcher.submit(units(f"a{n}")) for n in range(5)]
        gate.go.set()
        found = [await texts_of(job) for job in jobs]
        assert found == [[f"A{n}"] for n in range(5)]
        assert gate.batches[NUM_CORES:] == [["a0", "a1", "a2", "a3", "a4"]]

    run(test)


def test_clients_take_turns_and_batches_are_counted_in_tokens():
    async def test(batcher, gate):
        await fill_cores(batcher, gate)
        long, short = batcher.submit(units("l1", "l2", "l3", num_tokens=4)), batcher.submit(units("s", num_tokens=4))
        gate.go.set()
        assert await texts_of(short) == ["S"]
        assert await texts_of(long) == ["L1", "L2", "L3"]
        later = gate.batches[NUM_CORES:]
        assert later[0] == ["l1", "s"]
        assert sorted(text for batch in later[1:] for text in batch) == ["l2", "l3"]

    run(test, batch_tokens=8)


def test_a_batch_of_several_texts_keeps_the_cores_to_itself():
    async def test(batcher, gate):
        batcher.submit(units("a", "b", "c"))
        later = [batcher.submit(units(text)) for text in "de"]
        await asyncio.sleep(0.05)
        assert gate.batches == [["a", "b", "c"]]
        gate.go.set()
        assert [await texts_of(job) for job in later] == [["D"], ["E"]]
        assert gate.batches == [["a", "b", "c"], ["d", "e"]]

    run(test)


def test_a_full_queue_refuses_but_an_empty_one_takes_any_request():
    async def test(batcher, gate):
        await fill_cores(batcher, gate)
        batcher.submit(units("large", num_tokens=1000))
        with pytest.raises(RequestError, match="its queue is full") as refused:
            batcher.submit(units("more", num_tokens=2))
        assert refused.value.status == 429
        assert refused.value.retry_after > 0

    run(test, queue_tokens=10)


def test_what_is_cancelled_leaves_the_queue():
    async def test(batcher, gate):
        await fill_cores(batcher, gate)
        gone, stays = batcher.submit(units("g1", "g2")), batcher.submit(units("s"))
        batcher.cancel(gone)
        assert batcher._queue_tokens == 1
        gate.go.set()
        assert await texts_of(stays) == ["S"]
        assert gate.batches[NUM_CORES:] == [["s"]]

    run(test)


def test_a_text_that_cannot_be_translated_fails_alone():
    async def test(batcher, gate):
        await fill_cores(batcher, gate)
        jobs = [batcher.submit(units(text)) for text in ("a", "bad", "b")]
        gate.go.set()
        assert [await texts_of(job) for job in (jobs[0], jobs[2])] == [["A"], ["B"]]
        with pytest.raises(RequestError, match="cannot translate this text"):
            await texts_of(jobs[1])

    run(test)


def test_an_engine_may_be_told_to_wait_for_more():
    async def test(batcher, gate):
        gate.go.set()
        jobs = []
        for text in "abc":
            jobs.append(batcher.submit(units(text)))
            await asyncio.sleep(0.001)
        assert [await texts_of(job) for job in jobs] == [["A"], ["B"], ["C"]]
        assert gate.batches == [["a", "b", "c"]]

    run(test, batch_wait=0.2)
