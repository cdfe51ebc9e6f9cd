"""The words in which two texts differ."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from typing import NamedTuple

# A single character in languages written without spaces, a word or number, white space, or any other character.
_TOKEN = re.compile(
    r"[\u2e80-\u9fff\uf900-\ufaff\u0e00-\u0eff\u1000-\u109f]|\w+?(?=[\u2e80-\u9fff]|\b)|\s+|.", re.DOTALL
)


class Span(NamedTuple):
    """A part of a text; `differs` if the other text lacks it at this place."""

    text: str
    differs: bool


def find_differences(first: str, second: str) -> tuple[list[Span], list[Span]]:
    """Split both texts into spans: the longest spans that they share, and those that differ."""
    tokens = _TOKEN.findall(first), _TOKEN.findall(second)
    spans: tuple[list[Span], list[Span]] = ([], [])
    for kind, *places in SequenceMatcher(None, *tokens, autojunk=False).get_opcodes():
        for side, start, end in ((0, *places[:2]), (1, *places[2:])):
            if start < end:
                spans[side].append(Span("".join(tokens[side][start:end]), kind != "equal"))
    return spans
