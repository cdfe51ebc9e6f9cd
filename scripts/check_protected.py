"""Measure how many protected spans survive translation: insert spans into held-out lines, count them in the output.

    python scripts/check_protected.py runs/multi30k-de-en [--lines FILE] [--number 500] [--json OUT]

Each line (of the run's test set by default) gets one to three spans: URLs, e-mail addresses, {name}, %1$s, tags. The
seed determines positions and spans. A line is whole if each of its spans occurs in the translation exactly as often as
in the source. Exit code 1 if a line that is not whole was not flagged.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from nmt.artifacts.find_model import find_run
from nmt.base.languages import written_without_spaces
from nmt.data.read.lines import read_lines
from nmt.data.text.spans import find_spans
from nmt.translation import Translation, Translator

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


def measure(sources: list[str], translations: list[Translation]) -> dict[str, Any]:
    """Count the lines that are whole, by how they were kept whole, and the others, by whether they were flagged."""
    whole = [is_whole(source, done.text) for source, done in zip(sources, translations, strict=True)]
    flagged = [bool(done.protected_lost) for done in translations]
    by_model = [ok and not done.protected_retried for ok, done in zip(whole, translations, strict=True)]
    apart = [ok and bool(done.protected_translated_around) for ok, done in zip(whole, translations, strict=True)]
    return {
        "lines": len(sources),
        "spans": sum(len(find_spans(source)) for source in sources),
        "whole": sum(whole),
        "whole_at_first": sum(by_model),
        "whole_by_another_hypothesis": sum(whole) - sum(by_model) - sum(apart),
        "whole_by_translating_round_the_spans": sum(apart),
        "not_whole_and_flagged": sum(f and not ok for ok, f in zip(whole, flagged, strict=True)),
        "not_whole_and_not_flagged": sum(not f and not ok for ok, f in zip(whole, flagged, strict=True)),
    }


def main() -> int:
    """Measure and print; return the exit code, 0 if every failure was flagged."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run")
    parser.add_argument("--lines", type=Path, help="held-out source lines; default: the run's test set")
    parser.add_argument("--number", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    run = find_run(arguments.run)
    config = run.config()
    lines = list(read_lines(arguments.lines)) if arguments.lines else run.read_pairs("test")[0]
    sources = make_lines(lines, arguments.number, arguments.seed, not written_without_spaces(config.data.src_lang))
    translator = Translator.load(run, device=arguments.device)
    if not translator.segmenter.knows_placeholders:
        sys.stderr.write("this model has no placeholders: it was trained without data.protect\n")
        return 1
    found = measure(sources, translator.translate(sources))
    for name, count in found.items():
        share = "" if name in ("lines", "spans") else f"  {100 * count / found['lines']:.1f}%"
        sys.stdout.write(f"{name.replace('_', ' '):<40} {count:>6}{share}\n")
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    return 1 if found["not_whole_and_not_flagged"] else 0


if __name__ == "__main__":
    sys.exit(main())
