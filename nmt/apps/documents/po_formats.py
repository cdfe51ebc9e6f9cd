"""Placeholders of messages in gettext catalogs, as the format flags of an entry (`c-format`, …) define them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection

# `%%` and doubled braces stand for a character; a bare % or brace is an error at run time, so it counts.
_PRINTF = (
    r"%%|%(?:\d{1,3}\$|\([^()\n]{0,200}\))?[-+ #0',]{0,6}(?:\d{1,9}|\*(?:\d{1,3}\$)?)?(?:\.(?:\d{1,9}|\*)?)?"
    r"(?:hh?|ll?|[qjztL])?(?:[A-Za-z@]|<PRI\w{1,12}>)|%"
)
_BRACES = r"\{\{|\}\}|\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}|[{}]"
_FORMATS = {
    "c objc python java-printf ruby awk lua perl php tcl object-pascal javascript": _PRINTF,
    "python-brace java csharp perl-brace rust": _BRACES,
    "qt qt-plural kde": r"%L?\d{1,2}|%n",
    "sh": r"\$\{\w+\}|\$\w+",
}
_PATTERNS = {name: re.compile(pattern) for names, pattern in _FORMATS.items() for name in names.split()}
_NEXT = re.compile(r"%[^($]*[A-Za-z@>]|\{(?:[:!].*)?\}")  # takes the next value, without its number or name
_ESCAPES = ("%%", "{{", "}}")


def changed_placeholders(source: str, output: str, flags: Collection[str]) -> list[str]:
    """Return the placeholders that `output` lost or invented, in the formats that `flags` name.

    Also those without a number or a name whose order is another: `%s` and `%d` take their values in this order.
    """
    changed = []
    for name, pattern in _PATTERNS.items():
        if f"{name}-format" in flags:
            wanted, found = (
                [each for each in pattern.findall(text) if each not in _ESCAPES] for text in (source, output)
            )
            wrong = [*(Counter(wanted) - Counter(found)), *(Counter(found) - Counter(wanted))]
            in_order = [[each for each in placeholders if _NEXT.fullmatch(each)] for placeholders in (wanted, found)]
            changed += wrong or [each for each, other in zip(*in_order, strict=True) if each != other]
    return list(dict.fromkeys(changed))


def is_excluded(span: str, flags: Collection[str]) -> bool:
    """Return whether `flags`, such as `no-c-format`, say that `span` is not a placeholder."""
    return any(f"no-{name}-format" in flags and pattern.fullmatch(span) for name, pattern in _PATTERNS.items())
