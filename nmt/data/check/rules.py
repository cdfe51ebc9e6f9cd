"""The rules by name, each with its bit in the flags of a pair."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from nmt.config.filters import THRESHOLDS, Filters

VERSION = 2
"""Increase this when a rule starts to find other pairs: stores of filtered pairs are then rebuilt."""

_EMPTY = "a side is empty; training always drops such pairs"


class Rule(NamedTuple):
    """A rule: its name in reports, its key in `data.filters` (none for `empty`), its description and its bit."""

    name: str
    key: str
    description: str
    bit: int


RULES: tuple[Rule, ...] = (
    Rule("empty", "", _EMPTY, 1),
    *(
        Rule(key.replace("_", "-"), key, field.description or "", 1 << number)
        for number, (key, field) in enumerate(Filters.model_fields.items(), start=1)
    ),
)
_BITS = {rule.name: rule.bit for rule in RULES}


ALL_BITS = sum(_BITS.values())
EMPTY = _BITS["empty"]
"""The bit of the rule that every training run applies, whatever its filters."""


def bit_of(name: str) -> int:
    """Return the bit of the rule `name`."""
    return _BITS[name]


def rules_in(flags: int) -> Iterator[Rule]:
    """Yield the rules whose bits are in `flags`."""
    return (rule for rule in RULES if flags & rule.bit)


def bits_switched_on(filters: Filters) -> int:
    """Return the bits of the rules that drop pairs: those that are turned on, and `empty`."""
    return sum(rule.bit for rule in RULES if not rule.key or getattr(filters, rule.key) not in (None, False))


def threshold(filters: Filters, key: str) -> float:
    """Return the threshold of a rule from `filters`, or else the default."""
    value = getattr(filters, key)
    return THRESHOLDS[key] if value is None else value


def count_bits(flags: Iterable[int]) -> dict[str, int]:
    """Return for each rule name how many of `flags` contain it."""
    counts = dict.fromkeys((rule.name for rule in RULES), 0)
    for value in flags:
        for rule in rules_in(value):
            counts[rule.name] += 1
    return counts
