"""Print rows of text as a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def aligned(rows: Sequence[Sequence[str]], texts: int) -> Iterator[str]:
    """Yield rows as lines, with the first `texts` columns aligned left and the others right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    sides = "<" * texts + ">" * (len(widths) - texts)
    for row in rows:
        cells = [f"{cell:{side}{width}}" for cell, side, width in zip(row, sides, widths, strict=True)]
        yield "  ".join(cells).rstrip()
