"""Progress of a long command, in a log and on a terminal."""

from __future__ import annotations

import io
import sys

import pytest

from nmt.base import progress
from nmt.base.progress import Progress


@pytest.fixture
def clock(monkeypatch) -> list[float]:
    """The time in seconds, which the test sets."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_a_log_gets_a_line_every_half_minute_with_the_total(clock, messages):
    with Progress(total=5000, start=1000, log_lines=True) as bar:
        for seconds in range(5, 66, 5):
            clock[0] = seconds
            bar.add(100)
    assert messages == [
        "1,600 of 5,000 lines translated, 20.0 lines/s",
        "2,200 of 5,000 lines translated, 20.0 lines/s",
    ]
    assert bar.count == 2300


def test_a_bar_shows_the_total_if_it_is_known(monkeypatch):
    terminal = io.StringIO()
    monkeypatch.setattr(sys, "stderr", terminal)
    with Progress(total=200, start=50, bar=True) as bar:
        bar.add(50)
    assert "100/200" in terminal.getvalue()


def test_without_bar_and_log_it_counts_in_silence(clock, messages, capsys):
    with Progress() as bar:
        clock[0] = 1000
        bar.add(7)
    assert (bar.count, messages, capsys.readouterr().err) == (7, [], "")
