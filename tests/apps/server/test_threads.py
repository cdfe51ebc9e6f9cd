"""Long work takes turns in a few threads."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import pytest

from nmt.apps.server.threads import Threads


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
    def fail(thread):
        raise RuntimeError("can't start new thread")

    async def main():
        threads = Threads(1)
        with monkeypatch.context() as exhausted:
            exhausted.setattr(threading.Thread, "start", fail)
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
