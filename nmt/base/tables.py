"""Print rows of text as a table."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal

TableFormat = Literal["text", "markdown", "latex"]
_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "-": "$-$",
}


def aligned(rows: Sequence[Sequence[str]], texts: int) -> Iterator[str]:
    """Yield rows as lines, with the first `texts` columns aligned left and the others right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    sides = "<" * texts + ">" * (len(widths) - texts)
    for row in rows:
        cells = [f"{cell:{side}{width}}" for cell, side, width in zip(row, sides, widths, strict=True)]
        yield "  ".join(cells).rstrip()


def formatted(rows: Sequence[Sequence[str]], texts: int, format: TableFormat) -> Iterator[str]:
    """Yield rows, the first of them the heads, as a table in a format; `texts` as for `aligned`."""
    if format == "text":
        yield from aligned(rows, texts)
        return
    head, *body = rows
    num_numbers = len(head) - texts
    if format == "markdown":
        rule = ["---"] * texts + ["---:"] * num_numbers
        yield from (f"| {' | '.join(row)} |" for row in (head, rule, *body))
        return
    yield rf"\begin{{tabular}}{{{'l' * texts}{'r' * num_numbers}}}"
    yield from (" & ".join(map(_as_latex, row)) + r" \\" for row in rows)
    yield r"\end{tabular}"


def _as_latex(cell: str) -> str:
    return re.sub(r"[\\~^±&%$#_{}]|(?<!\S)-(?=\d)", lambda found: _LATEX.get(found[0], f"\\{found[0]}"), cell)
