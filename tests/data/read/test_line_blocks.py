"""Blocks of lines: all of them, in order, soon, and never too far ahead."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from nmt.data.read import line_blocks
from nmt.data.read.line_blocks import grow_blocks, read_blocks, whole_blocks


@pytest.mark.parametrize("blocks", [grow_blocks, read_blocks])
@pytest.mark.parametrize("count", [0, 1, 16, 17, 5000])
def test_every_line_comes_once_in_order(blocks, count):
    lines = [str(i) for i in range(count)]
    assert [line for block in blocks(iter(lines)) for line in block] == lines


def test_blocks_grow_from_16_lines_to_1024():
    assert [len(block) for block in grow_blocks("x" for _ in range(5000))][:8] == [
        16,
        32,
        64,
        128,
        256,
        512,
        1024,
        1024,
    ]


@pytest.mark.parametrize("num_lines", [0, 15, 16, 47, 48, 1007, 1008, 2031, 2032, 4999])
def test_blocks_after_whole_ones_are_those_of_all_lines(num_lines):
    lines = [*map(str, range(5000))]
    done = whole_blocks(num_lines)
    rest = [*grow_blocks(lines[done:], done)]
    assert num_lines - 1024 < done <= num_lines
    assert rest == [*grow_blocks(lines)][-len(rest) :]


@pytest.mark.parametrize("blocks", [grow_blocks, read_blocks])
def test_long_lines_make_small_blocks(blocks):
    assert max(len(block) for block in blocks("x" * 300_000 for _ in range(20))) <= 4


def test_the_first_block_comes_before_line_300_is_read():
    read = 0

    def lines() -> Iterator[str]:
        nonlocal read
        for i in range(100_000):
            read += 1
            yield str(i)

    blocks = read_blocks(lines())
    assert len(next(blocks)) == 16
    time.sleep(0.05)  # the thread reads on until it may no further
    assert read <= 16 + line_blocks.READ_AHEAD_LINES
    blocks.close()


def test_what_is_there_is_given_while_the_source_is_silent():
    go_on = threading.Event()

    def lines() -> Iterator[str]:
        yield "a"
        yield "b"
        go_on.wait(30)
        yield "c"

    blocks = read_blocks(lines())
    assert next(blocks) == ["a", "b"]
    go_on.set()
    assert list(blocks) == [["c"]]


def test_a_fault_of_the_source_comes_after_the_lines_before_it():
    def lines() -> Iterator[str]:
        yield "a"
        raise ValueError("broken")

    blocks = read_blocks(lines())
    assert next(blocks) == ["a"]
    with pytest.raises(ValueError, match="broken"):
        next(blocks)


def test_the_thread_ends_when_nobody_reads_on():
    blocks = read_blocks(str(i) for i in range(100_000))
    next(blocks)
    blocks.close()
    deadline = time.monotonic() + 120
    while any(thread.name == "read-ahead" for thread in threading.enumerate()) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not any(thread.name == "read-ahead" for thread in threading.enumerate())
