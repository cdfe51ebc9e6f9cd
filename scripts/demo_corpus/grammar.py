"""Word tables and sentence templates: reads `words.txt` and `templates.txt`, fills a template's slots.

Both files begin with a comment that explains their format.
"""

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

Entry = dict[str, str]
Tables = dict[str, list[Entry]]


_SLOT = re.compile(
    r"\{(?P<name>[a-z_]+)(?P<digit>\d?)"
    r"(?:\.(?P<column>\w+)|:(?P<plain>\w+)/(?P<third>\w+)|\[(?P<other>\w+)\.(?P<key>\w+)\])?\}"
)


@dataclass(frozen=True)
class Template:
    """A sentence pattern in two languages; `take` of its fillings are used (None: all)."""

    name: str
    src: str
    tgt: str
    take: int | None
    train_only: bool
    with_and_without_stop: bool


def _content_lines(path: Path) -> list[str]:
    """Return the lines of a grammar file, except blank lines and comments."""
    lines = (line.strip() for line in path.read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def read_tables(path: Path) -> Tables:
    """Return the word tables by name; an entry maps column names to words. ValueError for an invalid line."""
    tables: Tables = {}
    rows: list[Entry] = []
    columns: list[str] = []
    for line in _content_lines(path):
        if line.startswith("["):
            name, union, parts = re.split(r" ?([=:]) ", line.strip("[]"), maxsplit=1)
            if union == "=":
                tables[name] = [entry for part in parts.split(" + ") for entry in tables[part]]
            else:
                columns, rows = parts.split(" | "), []
                tables[name] = rows
        else:
            rows.append(dict(zip(columns, line.split(" | "), strict=True)))
    return tables


def read_templates(path: Path) -> list[Template]:
    """Return the templates in the file's order: a header line, the English pattern, the Mandarin pattern."""
    lines = _content_lines(path)
    templates = []
    for header, src, tgt in zip(lines[::3], lines[1::3], lines[2::3], strict=True):
        match = re.fullmatch(r"\[(\w+)\] (all|\d+)((?: train| both)*)", header)
        if match is None:
            raise ValueError(f"{path}: not a template header: {header}")
        name, take, options = match.groups()
        count = None if take == "all" else int(take)
        templates.append(Template(name, src, tgt, count, "train" in options, "both" in options))
    return templates


def _fill(pattern: str, language: str, chosen: dict[str, Entry]) -> str:
    """Return the pattern with every slot replaced; a bare slot stands for the entry's column named `language`."""

    def word(match: re.Match[str]) -> str:
        entry = chosen[match["name"] + match["digit"]]
        if match["plain"]:
            return match["third"] if entry["verb"] == "third" else match["plain"]
        if match["other"]:
            agreed = chosen[match["other"]][match["key"]]
            return entry[agreed]
        return entry[match["column"] or language]

    return _SLOT.sub(word, pattern)


def fillings(template: Template, tables: Tables) -> Iterator[tuple[str, str]]:
    """Yield every (English, Mandarin) sentence of a template, with its final punctuation."""
    slots = list(dict.fromkeys(match["name"] + match["digit"] for match in _SLOT.finditer(template.src)))
    for entries in itertools.product(*(tables[slot.rstrip("0123456789")] for slot in slots)):
        if len({tuple(entry.items()) for entry in entries}) < len(entries):
            continue  # "Tom is taller than Tom"
        chosen = dict(zip(slots, entries, strict=True))
        src = _fill(template.src, "en", chosen)
        yield src[0].upper() + src[1:], _fill(template.tgt, "zh", chosen)
