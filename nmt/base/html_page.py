"""Self-contained HTML pages: styles, figures and scripts are inline, with a light and a dark theme."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from html import escape

from nmt.base.errors import printable

_STYLE = """
:root { color-scheme: light dark; --ink: #1c1e26; --soft: #5b6070; --line: #d9dce5; --page: #ffffff; --fill: #3f51b5; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e8ef; --soft: #a3a8b8; --line: #3a3f4d; --page: #16181d; --fill: #8c9eff; }
}
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page); max-width: 60rem;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2.5rem; } h3 { font-size: 1rem; margin-bottom: 0; }
p, figcaption { color: var(--soft); max-width: 45rem; } figure { margin: 1.5rem 0; }
table { border-collapse: collapse; width: 100%; }
th, td { padding: .35rem .6rem; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
th.number, td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
td.text { overflow-wrap: anywhere; width: 45%; } code { color: var(--soft); }
.figures { display: flex; flex-wrap: wrap; gap: 2rem; } .figures b { display: block; font-size: 1.8rem; }
svg { width: 100%; height: auto; } svg rect { fill: var(--fill); } svg text { fill: var(--soft); font-size: 11px; }
"""
# The browser loads nothing from elsewhere, whatever the page contains.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
_WIDTH, _HEIGHT, _FOOT = 600, 120, 18  # of a chart, in SVG units


def html_page(title: str, body: Iterable[str], *, style: str = "", script: str = "") -> str:
    """Return a page with the HTML lines `body`, additional style and a script; `title` is plain text."""
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title>\n<style>{_STYLE}{style}</style>\n</head>\n<body>",
            f"<h1>{escape(title)}</h1>",
            *body,
            *([f"<script>{script}</script>"] if script else []),
            "</body>\n</html>\n",
        ]
    )


def html_text(text: str) -> str:
    """Return untrusted text as HTML: escaped, with control characters made visible, and a note if it is empty."""
    return escape(printable(text)) or "<i>empty</i>"


def html_table(heads: Sequence[str], rows: Iterable[Sequence[str]], numbers: Container[int]) -> str:
    """Return a table of HTML cells; `numbers` are the columns of numbers, from 0."""

    def row(cells: Sequence[str], tag: str) -> str:
        opened = (f'<{tag} class="number">' if column in numbers else f"<{tag}>" for column in range(len(cells)))
        return f"<tr>{''.join(f'{tag_}{cell}</{tag}>' for tag_, cell in zip(opened, cells, strict=True))}</tr>"

    body = "\n".join(row(cells, "td") for cells in rows)
    return f"<table><thead>{row(heads, 'th')}</thead><tbody>{body}</tbody></table>"


def figures(numbers: Iterable[tuple[str, str]]) -> str:
    """Return labeled numbers in large type."""
    cells = (f"<div><b>{escape(number)}</b>{escape(label)}</div>" for number, label in numbers)
    return "\n".join(['<div class="figures">', *cells, "</div>"])


def bar_chart(bars: Sequence[tuple[float, str, str]], caption: str, *, label_every: int = 1) -> str:
    """Return an SVG bar chart of `bars`: (height, label below the bar, tooltip)."""
    top, step = max([1e-9, *(height for height, _, _ in bars)]), _WIDTH / max(1, len(bars))
    parts = [f'<figure><svg viewBox="0 0 {_WIDTH} {_HEIGHT + _FOOT}" role="img" aria-label="{escape(caption)}">']
    for number, (value, label, title) in enumerate(bars):
        height = _HEIGHT * value / top
        place = f'x="{number * step + 1:.1f}" y="{_HEIGHT - height:.1f}" width="{step - 2:.1f}"'
        parts.append(f'<rect {place} height="{height:.1f}"><title>{escape(title)}</title></rect>')
        if number % label_every == 0:
            parts.append(f'<text x="{number * step:.1f}" y="{_HEIGHT + _FOOT - 4}">{escape(label)}</text>')
    return "".join([*parts, f"</svg><figcaption>{escape(caption)}</figcaption></figure>"])
