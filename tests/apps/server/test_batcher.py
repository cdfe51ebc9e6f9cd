"""The queue of a model: what piles up is translated together, clients take turns, nothing is lost."""

from __future__ import annotations

import asyncio
import threading

import pytest

from nmt.apps.server import batcher as batcher_module
from nmt.apps.server.batcher import Batcher, QueuedSegment, SegmentResult
from nmt.apps.server.metrics import Metrics
from nmt.apps.server.requests import RequestError
from nmt.base.languages import Direction
from nmt.translation import Translation
from nmt.translation.texts import SegmentedText

NUM_CORES = 2


@pytest.fixture(autouse=True)
def _two_cores(monkeypatch):
    monkeypatch.setattr(batcher_module, "num_cores", lambda: NUM_CORES)


def segments(*texts: str, num_tokens: int = 1, num_alternatives: int = 0) -> list[QueuedSegment]:
    segmented = [SegmentedText(text, "", [], None, Direction("en", "de")) for text in texts]
    return [QueuedSegment(text, num_tokens, num_alternatives, lambda translation: translation) for text in segmented]


class Gate:
    """Translates into upper case, and keeps the batches; the first of each thread wait until `go`."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.go = threading.Event()

    def __call__(self, batch):
        return self.translate(batch)

    def translate(self, batch):
        self.batches.append([segment.text.text for segment in batch])
        assert self.go.wait(120)
        if any(segment.text.text == "bad" for segment in batch):
            raise ValueError("bad")
        return [SegmentResult(Translation(segment.text.text.upper()), {}) for segment in batch]


def run(test, batch_tokens=4096, timeout=1e6):
    """Run `test(batcher, gate)` in an event loop."""

    async def main():
        gate = Gate()
        batcher = Batcher("m", gate, batch_tokens, timeout, Metrics())
        try:
            return await test(batcher, gate)
        finally:
            gate.go.set()
            batcher.close()

    return asyncio.run(main())


async def fill_cores(batcher: Batcher, gate: Gate) -> None:
    for number in range(NUM_CORES):
        batcher.submit(segments(f"first {number}"))
    while len(gate.batches) < NUM_CORES:
        await asyncio.sleep(0.001)


async def texts_of(job) -> list[str]:
    return [(await segment.result).translation.text for segment in job.segments]


def test_an_idle_engine_starts_at_once_and_what_comes_meanwhile_is_taken_together():
    async def test(batcher, gate):
        await fill_cores(batcher, gate)
        jobs = [batcher.submit(segments(f"a{n}")) for n in range(5)]
        gate.go.set()
        found = [await texts_of(job) for job in jobs]
        assert found == [[f"A{n}"] for n in range(5)]
        assert gate.batches[NUM_CORES:] == [["a0", "a1", "a2", "a3", "a4"]]

    run(test)


def test_clients_take_turns_and_batches_are_counted_in_tokens():
    async def test(batcher, gate):
        await fill_cores(batcher, gate)
        long, short = (
            batcher.submit(segments("l1", "l2", "l3", num_tokens=4)),
            batcher.submit(segments("s", num_tokens=4)),
        )
        gate.go.set()
        assert await texts_of(short) == ["S"]
        assert await texts_of(long) == ["L1", "L2", "L3"]
        later = gate.batches[NUM_CORES:]
        assert later[0] == ["l1", "s"]
        assert sorted(text for batch in later[1:] for text in batch) == ["l2", "l3"]

    run(test, batch_tokens=8)


def test_a_batch_of_several_texts_keeps_the_cores_to_itself():
    async def test(batcher, gate):
        batcher.submit(segments("a", "b", "c"))
        later = [batcher.submit(segments(text)) for text in "de"]
        await asyncio.sleep(0.05)
        assert gate.batches == [["a", "b", "c"]]
        gate.go.set()
        assert [await texts_of(job) for job in later] == [["D"], ["E"]]
        assert gate.batches == [["a", "b", "c"], ["d", "e"]]

    run(test)


@pytest.mark.parametrize("num_tokens", [2, 3])
def test_a_full_queue_refuses(monkeypatch, num_tokens):
    monkeypatch.setattr(batcher_module, "QUEUE_TOKENS", 10)

    async def test(batcher, gate):
        await fill_cores(batcher, gate)
        for _ in range(10 // num_tokens):
            batcher.submit(segments("waits", num_tokens=num_tokens))
        with pytest.raises(RequestError, match="its queue is full") as refused:
            batcher.submit(segments("more", num_tokens=num_tokens))
        assert refused.value.status_code == 429
        assert int(refused.value.headers["Retry-After"]) > 0

    run(test)


def test_what_could_not_be_translated_in_time_is_refused_at_once():
    per_second = batcher_module._FIRST_GUESS
    seconds = 0.01

    async def test(batcher, gate):
        most = int(per_second * batcher_module._SHARE * seconds)
        for number in range(NUM_CORES):  # on which nothing is measured yet
            batcher.submit(segments(f"runs {number}"))
        waits = [batcher.submit(segments("waits")) for _ in range(most)]
        with pytest.raises(RequestError, match="its queue is full"):
            batcher.submit(segments("more"))
        batcher.cancel(waits[0])
        batcher.submit(segments("in its place"))

    run(test, timeout=seconds)


def test_the_measured_speed_is_that_of_long_batches_rather_than_of_single_texts():
    async def test(batcher, gate):
        gate.go.set()
        for num_tokens, seconds in [*[(5, 0.05)] * 100, (4000, 1.0)]:
            batch = segments("a", num_tokens=num_tokens)
            batcher._num_busy += 1
            batcher._finish(batch, gate.translate(batch), seconds)
        assert 2000 < batcher._speed < 4000

    run(test)


def test_a_large_request_is_accepted_if_no_other_waits_and_small_ones_need_not_wait_for_it(monkeypatch):
    monkeypatch.setattr(batcher_module, "QUEUE_TOKENS", 10)

    async def test(batcher, gate):
        await fill_cores(batcher, gate)
        before = batcher.submit(segments("before"))
        large = batcher.submit(segments(*(f"l{number}" for number in range(50)), num_tokens=3))
        with pytest.raises(RequestError, match="its queue is full"):
            batcher.submit(segments("another", num_tokens=3))
        small = [batcher.submit(segments(f"s{number}")) for number in range(9)]
        with pytest.raises(RequestError, match="its queue is full"):
            batcher.submit(segments("more"))
        gate.go.set()
        assert [await texts_of(job) for job in small] == [[f"S{number}"] for number in range(9)]
        assert {"before", "l0", *(f"s{number}" for number in range(9))} == set(gate.batches[NUM_CORES])
        batcher.cancel(large)
        await texts_of(before)
        assert batcher._tokens == {False: 0, True: 0}

    run(test, batch_tokens=13)


def test_what_is_cancelled_leaves_the_queue():
    async def test(batcher, gate):
        await fill_cores(batcher, gate)
        gone, stays = batcher.submit(segments("g1", "g2")), batcher.submit(segments("s"))
        batcher.cancel(gone)
        assert batcher._tokens[False] == 1
        gate.go.set()
        assert await texts_of(stays) == ["S"]
        assert gate.batches[NUM_CORES:] == [["s"]]

    run(test)


def test_a_text_that_cannot_be_translated_fails_alone():
    async def test(batcher, gate):
        await fill_cores(batcher, gate)
        jobs = [batcher.submit(segments(text)) for text in ("a", "bad", "b")]
        gate.go.set()
        assert [await texts_of(job) for job in (jobs[0], jobs[2])] == [["A"], ["B"]]
        with pytest.raises(RequestError, match="cannot translate this text"):
            await texts_of(jobs[1])

    run(test)
