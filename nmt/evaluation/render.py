"""Render an evaluation as text, or as an HTML page with charts and a sortable, filterable table of sentences."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from html import escape
from pathlib import PurePath

from nmt.base.errors import printable
from nmt.evaluation.details import FLAGS, Details, Grouping, TestSentence, rounded_chrf
from nmt.evaluation.evaluation import Evaluation
from nmt.evaluation.scores import MetricScore
from nmt.evaluation.significance import LEVEL, TEST, ComparedSystem

MIN_NAME_WIDTH = 5
"""Width of the column with the names of scores."""

MAX_ROWS = 5000
"""A page with more sentences takes seconds to open; for larger test sets, it shows only the worst sentences."""

_STEP = 5  # of chrF, per bar
# A single character in languages written without spaces, a word or number, white space, or any other character.
_TOKEN = re.compile(
    r"[\u2e80-\u9fff\uf900-\ufaff\u0e00-\u0eff\u1000-\u109f]|\w+?(?=[\u2e80-\u9fff]|\b)|\s+|.", re.DOTALL
)
_STYLE = """
:root { color-scheme: light dark; --ink: #1c1e26; --soft: #5b6070; --line: #d9dce5; --page: #ffffff; --fill: #3f51b5; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e8ef; --soft: #a3a8b8; --line: #3a3f4d; --page: #16181d; --fill: #8c9eff; }
}
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page); max-width: 80rem;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2.5rem; }
p, figcaption { color: var(--soft); max-width: 45rem; } figure { margin: 1.5rem 0; max-width: 45rem; }
table { border-collapse: collapse; width: 100%; }
th, td { padding: .35rem .6rem; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
th.number, td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
td.text { overflow-wrap: anywhere; width: 30%; } code { color: var(--soft); }
.figures { display: flex; flex-wrap: wrap; gap: 2rem; } .figures b { display: block; font-size: 1.8rem; }
svg { width: 100%; height: auto; } svg rect { fill: var(--fill); } svg text { fill: var(--soft); font-size: 11px; }
:root { --extra: #fde2c8; --missing: #d5e3fb; }
@media (prefers-color-scheme: dark) { :root { --extra: #6b3d12; --missing: #1f3f74; } }
mark { color: inherit; background: var(--extra); border-radius: .2rem; text-decoration: underline; }
mark.missing { background: var(--missing); text-decoration: underline dotted; }
.controls { position: sticky; top: 0; display: flex; flex-wrap: wrap; gap: 1rem; align-items: center; padding: .6rem 0;
  background: var(--page); }
.controls input { min-width: 16rem; } input, select, button { font: inherit; color: inherit; }
#sentences th button { all: unset; cursor: pointer; text-decoration: underline; }
#sentences th button:focus-visible { outline: 2px solid var(--fill); }
#sentences th.number { min-width: 3.5rem; max-width: 7rem; white-space: normal; overflow-wrap: break-word; }
#sentences td.text div + div { margin-top: .4rem; }
.label { color: var(--soft); font-size: .85rem; } .scroll { overflow-x: auto; }
"""
# The browser loads nothing from elsewhere, whatever the page contains.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
_WIDTH, _HEIGHT, _FOOT = 600, 120, 18  # of a chart, in SVG units
_SCRIPT = """
const table = document.getElementById("sentences"), body = table.tBodies[0], rows = [...body.rows];
const words = document.getElementById("words"), flag = document.getElementById("flag");
const lower = new Map(rows.map(row => [row, row.textContent.toLowerCase()]));
function filter() {
  const wanted = words.value.toLowerCase();
  let shown = 0;
  for (const row of rows) {
    const flags = row.dataset.flags.split(",");
    row.hidden = !(lower.get(row).includes(wanted) && (!flag.value || flags.includes(flag.value)));
    shown += !row.hidden;
  }
  document.getElementById("shown").textContent = `${shown} of ${rows.length} sentences`;
}
let sorted = "chrf", up = true;
function sort(key) {
  up = key === sorted ? !up : true;
  sorted = key;
  rows.sort((a, b) => (up ? 1 : -1) * (a.dataset[key] - b.dataset[key]));
  body.append(...rows);
}
words.addEventListener("input", filter);
flag.addEventListener("change", filter);
table.tHead.addEventListener("click", event => event.target.dataset.key && sort(event.target.dataset.key));
filter();
"""


def render_evaluation(evaluation: Evaluation) -> Iterator[str]:
    """Yield the lines of scores, of the set and of its changed versions, then of comparisons and details."""
    yield from _score_lines(evaluation)
    for kind, each in (evaluation.changed or {}).items():
        yield from (f"{kind}  {line}" for line in _score_lines(each))
    for other in evaluation.compared:
        assert evaluation.system is not None
        yield ""
        yield from render_comparison(evaluation.system.name, other)
    if evaluation.details is not None:
        yield from render_details(evaluation.details)


def _score_lines(evaluation: Evaluation) -> Iterator[str]:
    name_width = max(MIN_NAME_WIDTH, *(len(score.name) for score in evaluation.scores))
    if not evaluation.directions:
        for score in evaluation.scores:
            yield f"{score.name:<{name_width}} {_value(score)}  {score.signature}"
        return
    for direction, each in evaluation.directions.items():
        yield from (f"{direction}  {line}" for line in _score_lines(each))
    width = max(map(len, evaluation.directions))
    for score in evaluation.scores:
        yield f"{'mean':<{width}}  {score.name:<{name_width}} {_value(score)}"


def _value(score: MetricScore) -> str:
    return f"{score.value:6.2f}" + (f" ± {score.interval.half_width:.2f}" if score.interval is not None else "")


def render_comparison(name: str, compared: ComparedSystem) -> Iterator[str]:
    """Yield the lines of a comparison of the system `name` with another: scores, difference, p-value and verdict."""
    other = compared.system.name
    yield f"{name} compared with {other} ({TEST}; significant: p < {LEVEL})"
    width = max(MIN_NAME_WIDTH, *(len(each.name) for each in compared.differences))
    for each in compared.differences:
        values = f"{each.value:6.2f} {each.other:6.2f}  {each.value - each.other:+6.2f}  p = {each.p_value:.4f}"
        yield f"{each.name:<{width}} {values}  {each.verdict()}"


def render_details(details: Details) -> Iterator[str]:
    """Yield the lines of groups of sentences, of flags, and of the worst sentences."""
    for grouping in details.groupings:
        yield ""
        yield from _group_lines(grouping)
    yield ""
    flags = ", ".join(f"{count:,} {flag}" for flag, count in details.flags.items())
    yield f"outputs that look wrong: {flags or 'none'}"
    worst = details.worst()
    yield ""
    yield f"the {len(worst)} worst by chrF"
    for sentence in worst:
        yield from _sentence_lines(sentence)


def _group_lines(grouping: Grouping) -> Iterator[str]:
    names = list(grouping.groups[0].scores)
    width = max(len(group.label) for group in grouping.groups)
    yield f"by {grouping.property}"
    yield f"{'':<{width}} {'sentences':>10} " + " ".join(f"{name:>7}" for name in names)
    for group in grouping.groups:
        scores = " ".join(f"{group.scores[name]:7.2f}" for name in names)
        yield f"{group.label:<{width}} {group.sentences:>10,} {scores}"


def _sentence_lines(sentence: TestSentence) -> Iterator[str]:
    flags = f"  ({', '.join(sentence.flags)})" if sentence.flags else ""
    yield f"line {sentence.number:,}: chrF {sentence.chrf:.2f}{flags}"
    if sentence.source is not None:
        yield f"  source     {printable(sentence.source)}"
    yield f"  output     {printable(sentence.hypothesis)}".rstrip()
    for reference in sentence.references:
        yield f"  reference  {printable(reference)}"


def render_html(title: str, scores: Sequence[MetricScore], details: Details, compared: Sequence[ComparedSystem]) -> str:
    """Return an HTML page on a system and a test set that needs no other files; texts are escaped."""
    title = escape(printable(title))
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>",
            f"<h1>{title}</h1>",
            *_overview(scores, details),
            *_comparisons(details, compared),
            *_pictures(details),
            *_sentences_table(details, compared),
            f"<script>{_SCRIPT}</script>",
            "</body>\n</html>\n",
        ]
    )


def _overview(scores: Sequence[MetricScore], details: Details) -> Iterator[str]:
    numbers = [(f"{len(details.sentences):,}", "sentences")]
    for score in scores:
        half_width = "" if score.interval is None else f" ± {score.interval.half_width:.2f}"
        numbers.append((f"{score.value:.2f}{half_width}", score.name))
    cells = (f"<div><b>{number}</b>{label}</div>" for number, label in numbers)
    yield "\n".join(['<div class="figures">', *cells, "</div>"])
    yield "<p>With 95% confidence intervals, by bootstrap resampling of the sentences. Compare scores only if their"
    yield "signatures are the same:</p><ul>"
    yield from (f"<li>{score.name}: <code>{escape(score.signature)}</code></li>" for score in scores)
    yield "</ul>"


def _comparisons(details: Details, systems: Sequence[ComparedSystem]) -> Iterator[str]:
    for compared in systems:
        yield f"<h2>Compared with {_html_text(compared.system.name)}</h2>"
        yield f"<p>Tested by {TEST}. p is the probability that chance alone makes as large"
        yield f"a difference, in favor of either system; from {LEVEL} on, it may be chance.</p>"
        rows = []
        for each in compared.differences:
            shown = (f"{each.value:.2f}", f"{each.other:.2f}", f"{each.value - each.other:+.2f}", f"{each.p_value:.4f}")
            rows.append((each.name, *shown, each.verdict()))
        heads = ("metric", "this system", "the other", "difference", "p", "this system is")
        yield _html_table(heads, rows, numbers=range(1, 5))
        yield _gains(details, compared)


def _gains(details: Details, compared: ComparedSystem) -> str:
    """Return a chart of the differences by sentence."""
    others = rounded_chrf(compared.system)
    gains = [_gain(sentence, other) for sentence, other in zip(details.sentences, others, strict=True)]
    edges = list(range(-100, 100, 2 * _STEP))
    counts = [sum(first <= gain < first + 2 * _STEP for gain in gains) for first in edges]
    counts[-1] += sum(gain >= 100 for gain in gains)
    bars = [
        (float(count), f"{first:+}", f"from {first:+} to {first + 2 * _STEP:+} chrF: {count:,} sentences")
        for first, count in zip(edges, counts, strict=True)
    ]
    better, worse = sum(gain > 0 for gain in gains), sum(gain < 0 for gain in gains)
    caption = f"Sentences by how much higher their chrF is than the other's: {better:,} are better, {worse:,} worse."
    return _bar_chart(bars, caption)


def _gain(sentence: TestSentence, other: float) -> float:
    """Return the chrF of `sentence` minus that of the `other` output, both rounded to two digits."""
    return round(sentence.chrf - other, 2)


def _pictures(details: Details) -> Iterator[str]:
    sentences = details.sentences
    yield "<h2>Sentences by score</h2>"
    counts = [0] * (100 // _STEP)
    for sentence in sentences:
        counts[min(int(sentence.chrf) // _STEP, len(counts) - 1)] += 1
    bars = [
        (float(count), f"{number * _STEP}", f"chrF {number * _STEP} to {(number + 1) * _STEP}: {count:,} sentences")
        for number, count in enumerate(counts)
    ]
    yield _bar_chart(bars, "Sentences by their chrF.")
    for grouping in details.groupings:
        names = list(grouping.groups[0].scores)
        rows = (
            (group.label, f"{group.sentences:,}", *(f"{group.scores[name]:.2f}" for name in names))
            for group in grouping.groups
        )
        yield f"<h2>By {grouping.property}</h2>"
        yield _html_table(("", "sentences", *names), rows, numbers=range(1, 2 + len(names)))


def _sentences_table(details: Details, systems: Sequence[ComparedSystem]) -> Iterator[str]:
    order = sorted(details.sentences, key=lambda sentence: sentence.chrf)[:MAX_ROWS]
    others = [(other.system.name, other.system.hypotheses, rounded_chrf(other.system)) for other in systems]
    yield "<h2>Sentences</h2>"
    left_out = len(details.sentences) - len(order)
    yield "<p>Worst sentences first. Words that are only in the output are <mark>marked</mark>. Words that are only"
    yield 'in the reference are <mark class="missing">marked</mark> in another color.'
    yield "Lengths are those of the reference in characters, gains are in chrF. Click a column title to sort by it."
    yield f"{left_out:,} better sentences are left out." if left_out else ""
    yield "</p>"
    yield from _controls(details)
    heads = [_sort_button(name.lower(), name) for name in ("line", "chrF", "length")]
    for number, (name, _, _) in enumerate(others, 1):
        heads.append(_sort_button(f"gain{number}", f"gain over {PurePath(name).name}"))
    numbers = "".join(f'<th class="number">{head}</th>' for head in heads)
    texts = (["source"] if details.sentences[0].source is not None else []) + ["output", "reference"]
    yield f'<div class="scroll"><table id="sentences"><thead><tr>{numbers}'
    yield "".join(f"<th>{head}</th>" for head in texts) + "</tr></thead><tbody>"
    for sentence in order:
        index = sentence.number - 1
        yield _row(sentence, [(name, texts[index], chrf[index]) for name, texts, chrf in others])
    yield "</tbody></table></div>"


def _controls(details: Details) -> Iterator[str]:
    options = [
        f'<option value="{flag}">{flag} ({details.flags[flag]:,})</option>' for flag in FLAGS if flag in details.flags
    ]
    yield '<div class="controls"><label>find <input id="words" type="search"></label>'
    yield '<label>outputs <select id="flag"><option value="">all</option>'
    yield "".join(options) + '</select></label><span id="shown"></span></div>'


def _sort_button(key: str, label: str) -> str:
    return f'<button type="button" data-key="{key}">{_html_text(label)}</button>'


def _row(sentence: TestSentence, others: Sequence[tuple[str, str, float]]) -> str:
    """Return the row of a sentence; `others` has the name, output and chrF of each other system."""
    output, reference = find_differences(sentence.hypothesis, sentence.references[0])
    length = f"{len(sentence.references[0])}"
    numbers = {"line": f"{sentence.number}", "chrf": f"{sentence.chrf:.2f}", "length": length}
    for number, (_, _, chrf) in enumerate(others, 1):
        numbers[f"gain{number}"] = f"{_gain(sentence, chrf):+.2f}"
    data = "".join(f' data-{key}="{value}"' for key, value in numbers.items())
    cells = "".join(f'<td class="number">{value}</td>' for value in numbers.values())
    flags = "".join(f'<div class="label">{flag}</div>' for flag in sentence.flags)
    more = "".join(
        f'<div><span class="label">{_html_text(name)}, chrF {chrf:.2f}</span><br>{_html_text(text)}</div>'
        for name, text, chrf in others
    )
    outputs = f"<div>{_marked(output)}</div>{flags}{more}"
    references = f"<div>{_marked(reference, 'missing')}</div>"
    references += "".join(f"<div>{_html_text(other)}</div>" for other in sentence.references[1:])
    sources = [] if sentence.source is None else [_html_text(sentence.source)]
    texts = "".join(f'<td class="text" dir="auto">{text}</td>' for text in (*sources, outputs, references))
    return f'<tr data-flags="{",".join(sentence.flags)}"{data}>{cells}{texts}</tr>'


def find_differences(first: str, second: str) -> tuple[list[tuple[str, bool]], list[tuple[str, bool]]]:
    """Split both texts into the longest parts that they share, and those that differ, which are marked True."""
    tokens = _TOKEN.findall(first), _TOKEN.findall(second)
    parts: tuple[list[tuple[str, bool]], list[tuple[str, bool]]] = ([], [])
    for kind, *places in SequenceMatcher(None, *tokens, autojunk=False).get_opcodes():
        for side, start, end in ((0, *places[:2]), (1, *places[2:])):
            if start < end:
                parts[side].append(("".join(tokens[side][start:end]), kind != "equal"))
    return parts


def _marked(parts: Sequence[tuple[str, bool]], kind: str = "extra") -> str:
    """Return the parts of a text as HTML, with those that differ marked."""
    shown = (
        f'<mark class="{kind}">{_html_text(text)}</mark>' if differs else _html_text(text) for text, differs in parts
    )
    return "".join(shown) or _html_text("")


def _html_text(text: str) -> str:
    """Return untrusted text as HTML: escaped, with control characters made visible, and a note if it is empty."""
    return escape(printable(text)) or "<i>empty</i>"


def _html_table(heads: Sequence[str], rows: Iterable[Sequence[str]], numbers: Container[int]) -> str:
    """Return a table of HTML cells; `numbers` are the columns of numbers, from 0."""

    def row(cells: Sequence[str], tag: str) -> str:
        opened = (f'<{tag} class="number">' if column in numbers else f"<{tag}>" for column in range(len(cells)))
        return f"<tr>{''.join(f'{tag_}{cell}</{tag}>' for tag_, cell in zip(opened, cells, strict=True))}</tr>"

    body = "\n".join(row(cells, "td") for cells in rows)
    return f"<table><thead>{row(heads, 'th')}</thead><tbody>{body}</tbody></table>"


def _bar_chart(bars: Sequence[tuple[float, str, str]], caption: str) -> str:
    """Return an SVG bar chart of `bars`: (height, label below every other bar, tooltip)."""
    top, step = max([1e-9, *(height for height, _, _ in bars)]), _WIDTH / max(1, len(bars))
    parts = [f'<figure><svg viewBox="0 0 {_WIDTH} {_HEIGHT + _FOOT}" role="img" aria-label="{escape(caption)}">']
    for number, (value, label, title) in enumerate(bars):
        height = _HEIGHT * value / top
        place = f'x="{number * step + 1:.1f}" y="{_HEIGHT - height:.1f}" width="{step - 2:.1f}"'
        parts.append(f'<rect {place} height="{height:.1f}"><title>{escape(title)}</title></rect>')
        if number % 2 == 0:
            parts.append(f'<text x="{number * step:.1f}" y="{_HEIGHT + _FOOT - 4}">{escape(label)}</text>')
    return "".join([*parts, f"</svg><figcaption>{escape(caption)}</figcaption></figure>"])
