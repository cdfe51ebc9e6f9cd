"""Ctrl-C and SIGTERM, while training handles them and after it."""

from __future__ import annotations

import signal

from nmt.training.interrupt import Interrupt


def test_a_context_that_is_entered_twice_ends_with_the_outer_one():
    before = signal.getsignal(signal.SIGTERM)
    with Interrupt() as interrupt:
        handled = signal.getsignal(signal.SIGTERM)
        with interrupt:
            assert signal.getsignal(signal.SIGTERM) == handled != before
        assert signal.getsignal(signal.SIGTERM) == handled
    assert signal.getsignal(signal.SIGTERM) == before


def test_signals_are_handled_until_the_context_ends():
    before = signal.getsignal(signal.SIGTERM)
    with Interrupt() as interrupt:
        interrupt.defer()
        assert signal.getsignal(signal.SIGTERM) != before
        signal.raise_signal(signal.SIGTERM)
        assert interrupt.requested == signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) == before
