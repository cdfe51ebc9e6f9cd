"""Long work, so that it does not keep the event loop from other clients: in threads, or in turns.

Threads work few at a time, and none keeps the server from stopping.
"""

from __future__ import annotations

import _thread
import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import TypeVar, TypeVarTuple

QUICK_CHARACTERS = 2000  # that the event loop reads itself
_IN_A_STEP = 32  # texts: about a millisecond

# Of threads beside the event loop, which else waits behind them for a processor; lower ones would wait too long for one
# while they hold Python's lock.
_NICE = 5

Item = TypeVar("Item")
Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")


class Turns(asyncio.Lock):
    """Lets long requests run in the event loop one at a time, so that others wait for a step of one, not of all."""

    async def take(self) -> None:
        """Wait until no other long request has a step in this round of the event loop."""
        async with self:
            await asyncio.sleep(0)

    async def each(self, items: Sequence[Item]) -> AsyncIterator[Item]:
        """Yield `items`; if there are many, take a turn before every few of them."""
        for number, item in enumerate(items):
            if number % _IN_A_STEP == 0 and len(items) > _IN_A_STEP:
                await self.take()
            yield item


def lower_priority() -> None:
    """Let the event loop go before this thread and those that it starts, where a thread has a priority (Linux)."""
    if sys.platform == "linux":
        with suppress(OSError):  # a sandbox may refuse it
            os.nice(_NICE)


class Threads:
    """Runs functions in at most `size` threads. Use it only from the event loop.

    Unlike the threads of an executor, these do not keep the process from ending.
    """

    def __init__(self, size: int):
        self._free = asyncio.Semaphore(size)

    async def run_if_long(
        self, num_characters: int, work: Callable[[*Arguments], Result], *arguments: *Arguments
    ) -> Result:
        """Return `work(*arguments)`, which reads so many characters; the event loop does it, if they are few."""
        return work(*arguments) if num_characters <= QUICK_CHARACTERS else await self.run(work, *arguments)

    async def run(self, work: Callable[[*Arguments], Result], *arguments: *Arguments) -> Result:
        """Return `work(*arguments)`. If this is cancelled, the work goes on, and keeps its thread until it ends.

        RuntimeError if the system starts no more threads.
        """
        await self._free.acquire()
        loop = asyncio.get_running_loop()
        future: Future[Result] = Future()
        future.set_running_or_notify_cancel()

        def work_and_release() -> None:
            lower_priority()
            try:
                future.set_result(work(*arguments))
            except BaseException as error:
                future.set_exception(error)
            with suppress(RuntimeError):  # the event loop is closed
                loop.call_soon_threadsafe(self._free.release)

        try:
            _thread.start_new_thread(work_and_release, ())  # threading's start would wait until the thread runs
        except BaseException:
            self._free.release()  # `work_and_release` will not do it
            raise
        return await asyncio.wrap_future(future)
