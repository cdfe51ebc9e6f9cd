"""Lines with protected spans, and how many of them keep their spans when they are translated."""

from __future__ import annotations

import random
from collections import Counter

from nmt.data.text.spans import find_spans
from nmt.translation import Translation

_WORDS = ("user", "count", "total", "date", "city", "item", "first-name", "order_id", "shop", "news")
_TAGS = ("b", "i", "em", "strong", "span", "u")


def draw_spans(draw: random.Random, count: int) -> list[str]:
    """Draw `count` spans of all kinds; a pair of tags counts as two."""
    spans: list[str] = []
    while len(spans) < count:
        word, number = draw.choice(_WORDS), draw.randrange(10_000)
        if len(spans) + 2 <= count and draw.random() < 0.25:
            tag = draw.choice(_TAGS)
            spans += [f"<{tag}>", f"</{tag}>"]
            continue
        kinds = [
            f"https://www.{word}.example.org/{number}?q={word}",
            f"http://{word}{number}.de",
            f"{word}.{number}@mail.example.com",
            f"{{{word}}}",
            f"%{len(spans) + 1}$s",
            "%d",
            f"<br id='{number}'/>",
        ]
        spans.append(draw.choice(kinds))
    return spans


def put_in(line: str, spans: list[str], draw: random.Random, spaced: bool) -> str:
    """Insert `spans`, in order, between the words of `line` (between its characters, if it has no spaces)."""
    words = line.split() if spaced else list(line)
    places = sorted(draw.randrange(len(words) + 1) for _ in spans)
    joiner = " " if spaced else ""
    for place, span in sorted(zip(places, spans, strict=True), key=lambda item: item[0], reverse=True):
        words.insert(place, span)
    # Inserting from the back reverses spans at the same position; put them in the order in which they were drawn.
    order = iter(spans)
    return joiner.join(next(order) if word in spans else word for word in words)


def make_lines(lines: list[str], number: int, seed: int, spaced: bool) -> list[str]:
    """Return `number` lines with one to three spans each; repeats `lines` if there are too few."""
    draw = random.Random(seed)
    usable = [line for line in lines if line.strip() and not find_spans(line)]
    return [put_in(usable[i % len(usable)], draw_spans(draw, draw.randint(1, 3)), draw, spaced) for i in range(number)]


def is_whole(source: str, output: str) -> bool:
    """Return whether `output` contains each span exactly as often as `source`."""
    wanted = Counter(source[span.start : span.end] for span in find_spans(source))
    return wanted == Counter(output[span.start : span.end] for span in find_spans(output))


def measure(sources: list[str], translations: list[Translation]) -> dict[str, int]:
    """Count the lines that are whole, those whole at the first try, and those that are not whole and not flagged."""
    whole = [is_whole(source, done.text) for source, done in zip(sources, translations, strict=True)]
    return {
        "whole": sum(whole),
        "whole_at_first": sum(ok and not done.protected_retried for ok, done in zip(whole, translations, strict=True)),
        "not_whole_and_not_flagged": sum(
            not ok and not done.protected_lost for ok, done in zip(whole, translations, strict=True)
        ),
    }
