"""The rules by name, which is the key of a filter in `data.filters`."""

from __future__ import annotations

from collections.abc import Collection

from nmt.config.filters import Filters

VERSION = 2  # increase this when a rule starts to find other pairs: stores of filtered pairs are then rebuilt

REPORTED = {
    "near_duplicate": "an earlier pair differs only in case, punctuation, digits or white space",
    "repeated_source": "the source appears on an earlier line with another translation; often harmless",
    "mixed_scripts": "a word mixes letters of Latin, Greek and Cyrillic, which often look alike",
    "punctuation_mismatch": "only one side ends in a question mark; often harmless",
    "near_overlap": "the source is in the validation or test set, ignoring case, punctuation, digits and white space",
}
"""The rules that are no filters: `nmt data check` reports them, with their descriptions."""

RULES: dict[str, str] = {
    "empty": "a side is empty; training always drops such pairs",
    **{name: field.description or "" for name, field in Filters.model_fields.items()},
    **REPORTED,
}
"""The description of each rule, by name, in the order of reports."""


def in_order(names: Collection[str]) -> list[str]:
    """Return the rules `names` in the order of reports."""
    return [name for name in RULES if name in names]


def rules_that_drop(filters: Filters) -> frozenset[str]:
    """Return the rules that drop pairs: those that are turned on, and `empty`, which always is."""
    return frozenset({"empty", *(name for name, value in filters if value not in (None, False, "swap"))})
