"""What `make test` leaves to `make test-slow`: most examples of a property, most values of a list of parameters."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

RUNS_MANY = os.environ.get("NMT_TEST_EXAMPLES") == "many"  # as `make test-slow` sets it


def examples(few: int, many: int) -> int:
    """Return how many examples of a property to draw."""
    return many if RUNS_MANY else few


def quick_and_slow(cases: Mapping[str, Any] | Sequence[Any], is_quick: Callable[[int, Any], bool]) -> list[Any]:
    """Return `cases` as parameters of a test; those that are not quick, by number and name or value, are marked slow.

    A name becomes the id. Choose the quick ones so that each branch of the code under test has one.
    """
    named = isinstance(cases, Mapping)
    parameters = []
    for number, key in enumerate(cases):
        marks = () if is_quick(number, key) else (pytest.mark.slow,)
        value = cases[key] if isinstance(cases, Mapping) else key
        values = value if isinstance(value, tuple) else (value,)
        parameters.append(pytest.param(*values, id=key if named else None, marks=marks))
    return parameters
