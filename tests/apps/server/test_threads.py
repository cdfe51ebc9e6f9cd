"""Turns of long requests in the event loop."""

from __future__ import annotations

import asyncio

from nmt.apps.server.threads import Turns

NUM_REQUESTS = 7


def steps_of(num_items: int) -> list[set[int]]:
    """Return which of some requests, each with so many items, had a step in each round of an event loop."""
    rounds: list[set[int]] = [set()]

    async def request(number: int, turns: Turns) -> None:
        assert [item async for item in noting(number, turns)] == [*range(num_items)]

    async def noting(number, turns):
        async for item in turns.each(range(num_items)):
            rounds[-1].add(number)
            yield item

    async def run() -> None:
        turns = Turns()
        tasks = [asyncio.create_task(request(number, turns)) for number in range(NUM_REQUESTS)]
        while not all(task.done() for task in tasks):
            rounds.append(set())
            await asyncio.sleep(0)
        await asyncio.gather(*tasks)

    asyncio.run(run())
    return [each for each in rounds if each]


def test_of_requests_with_many_items_one_has_a_step_in_a_round_of_the_event_loop():
    steps = steps_of(100)
    assert {len(each) for each in steps} == {1}
    assert len(steps) > 2 * NUM_REQUESTS
    assert len({min(each) for each in steps[:NUM_REQUESTS]}) == NUM_REQUESTS  # all have one before one has another


def test_requests_with_few_items_do_not_wait_for_each_other():
    assert steps_of(3) == [{*range(NUM_REQUESTS)}]
