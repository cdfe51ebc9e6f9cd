"""Read plain text and Markdown: paragraphs are translated; their marks and all between them stay."""

from __future__ import annotations

import re
import textwrap

from nmt.apps.documents.blocks import Block, Form, Item, Template, split_lines
from nmt.apps.documents.markup import Reader, dialect

_MIN_WIDTH, _MAX_WIDTH = 40, 120  # of lines that an editor broke
# What opens a line: quotes, list marks, tasks, headings, notes.
_OPENING = re.compile(
    r"(?:[ \t]{0,12}(?:>|[-*+•–](?=[ \t])(?:[ \t]+\[[ xX]\](?=[ \t]))?|\d{1,9}[.)](?=[ \t])|\[\^[^\]\s]+\]:"
    r"|#{1,6}(?=[ \t])))*[ \t]*"
)
# What is not a paragraph: the front matter, code, formulas, comments; and markup, which is.
_PARTS = re.compile(
    r"\A---[ \t]*\r?\n.*?\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)"
    r"|^[ \t]*(?:[>*+-][ \t]+)*(?P<fence>`{3,}|~{3,}|\$\$(?=\s*\n)).*?"
    r"(?:^[> \t]*(?P=fence)[^\n]*\n?|\Z)"
    r"|(?<=\n\n)(?P<code>(?:(?: {4}|\t)[^\n]*\n)+)|^<!--.*?(?:-->|\Z)"
    r"|^(?P<markup></?[A-Za-z](?:[^\n]+\n?)+)",
    re.DOTALL | re.MULTILINE,
)
_TABLE_RULE = re.compile(r"[ \t>]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?\s*")
_KEPT_LINE = re.compile(r"[ \t>]*(?:([-*_=])(?:[ \t]*\1)*|\$\$.*\$\$|\[[^\]^][^\]]*\]:[ \t]*\S.*)?\s*")
# Of limited length, so that the time for unclosed marks does.
_INLINE = re.compile(
    r"(?P<kept>(?P<ticks>`+)(?!`).{1,500}?(?<!`)(?P=ticks)(?!`)|\$\$.{1,500}?\$\$|<[A-Za-z][\w+.-]*[:@][^\s<>]*>"
    r"|\[\^[^\]\s]+\]|<!--.{0,500}?-->)"
    r"|(?<!\\)(?P<open>!?\[)(?P<text>(?:[^\[\]]|!?\[[^\[\]]*\](?:\([^()\s]*\))?)*)"
    r"(?P<close>\](?:\([^()\s]*(?:\([^()\s]*\)[^()\s]*)*(?:\s+\"[^\"]*\")?\)|\[[^\[\]]*\]))"
    r"|(?<![\\\w])(?P<mark>\*\*|__|~~|\*|_)(?=\S)(?P<inner>.{1,500}?)(?<![\s\\])(?P=mark)(?!\w)"
    r"|</?(?P<tag>[A-Za-z][\w-]*)(?:\s[^<>]*)?/?>"
)
_ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")
_SPECIAL = re.compile(r"[\\`*]|(?<!\w)_|_(?!\w)|<(?=[A-Za-z/!])")


def read_text(text: str, template: Template) -> None:
    """Read plain text; each line is a block, but for paragraphs that an editor broke into lines of one width."""
    written, lines = list[str](), list[str]()
    for line in [*split_lines(text), ""]:
        if line.strip() and not (lines and _opening(line).strip()):
            lines.append(line)
            continue
        sizes = [len(each.rstrip()) for each in lines]
        is_broken = len(lines) > 1 and _MIN_WIDTH <= max(sizes) <= _MAX_WIDTH and min(sizes[:-1]) > max(sizes) * 0.7
        for part in [lines] if is_broken else [[each] for each in lines]:
            written += _paragraph(part, template)
        lines = [line] if line.strip() else []
        written += [] if line.strip() else [line]
    template.text = "".join(written)


def read_markdown(text: str, template: Template) -> None:
    """Read Markdown; code, formulas, addresses and the front matter stay."""
    written, at = list[str](), 0
    for part in _PARTS.finditer(text):
        before = text[max(0, part.start() - 1000) : part.start()].rstrip().rpartition("\n")[2]
        if part["code"] and (before[:1] in (" ", "\t") or _opening(before).strip(" \t>#")):
            continue  # in a list
        written += _lines(text[at : part.start()], template)
        if part["markup"]:
            Reader(part[0], dialect("html"), template)
        written.append(template.text if part["markup"] else part[0])
        at = part.end()
    template.text = "".join(written + _lines(text[at:], template))


def _lines(text: str, template: Template) -> list[str]:
    """Return the lines of Markdown between other parts, with holes."""
    written, paragraph = list[str](), list[str]()
    lines = split_lines(text)
    is_table = False
    for line, following in zip(lines, [*lines[1:], ""], strict=False):
        opening = _opening(line).strip(" \t>")
        is_other = bool(paragraph) and _opening(line).count(">") != _opening(paragraph[0]).count(">")
        is_table = "|" in line and (is_table or ("|" in following and bool(_TABLE_RULE.fullmatch(following))))
        is_kept = _KEPT_LINE.fullmatch(line) or (is_table and _TABLE_RULE.fullmatch(line))
        if opening or is_other or is_table or is_kept:
            written += _paragraph(paragraph, template, is_markdown=True)
            paragraph = []
        if is_kept:
            written.append(line)
        elif is_table:
            form = Form(lambda text: _markdown(text).replace("|", r"\|"))
            cells = re.split(r"((?<!\\)\||\s+\Z)", line)
            written += [c if i % 2 else template.hole(Block(_inline(c), c, form)) for i, c in enumerate(cells)]
        else:
            paragraph.append(line)
            if opening.startswith("#") or line.rstrip("\r\n").endswith(("  ", "\\")):
                written += _paragraph(paragraph, template, is_markdown=True)
                paragraph = []
    return written + _paragraph(paragraph, template, is_markdown=True)


def _opening(line: str) -> str:
    found = _OPENING.match(line)
    return found[0] if found else ""


def _paragraph(lines: list[str], template: Template, *, is_markdown: bool = False) -> list[str]:
    """Return the opening of the first line, a hole, and the end of the last one."""
    if not lines:
        return []
    first, other = _opening(lines[0]), _opening(lines[1]) if len(lines) > 1 else ""
    raw = "".join(lines)[len(first) :]
    end = raw[len(raw.rstrip("\r\n \t\\")) :]
    raw = raw[: len(raw) - len(end)]
    text = " ".join(line[len(_opening(line)) :].strip() for line in split_lines(first + raw)) if len(lines) > 1 else raw
    width = max(len(line.rstrip()) for line in lines)

    def finish(written: str) -> str:
        """Break lines as they were; no mark of a list or heading may come to open one."""
        if len(lines) == 1:
            return written
        wrapped = textwrap.wrap(
            first + written, width, subsequent_indent=other, break_long_words=False, break_on_hyphens=False
        )
        joined = "\n".join(wrapped)[len(first) :]
        joined = re.sub(rf"\n{re.escape(other)}(?=(?:[-+*#>=]|\d+[.)])(?:\s|$))", " ", joined)
        return joined.replace("\n", "\r\n") if "\r\n" in lines[0] else joined

    form = Form(_markdown if is_markdown else str, finish)
    return [first, template.hole(Block(_inline(text) if is_markdown else [Item(text)], raw, form)), end]


def _markdown(text: str) -> str:
    return _SPECIAL.sub(r"\\\g<0>", text)


def _inline(text: str) -> list[Item]:
    """Return the text and the inline markup of a paragraph."""
    items, at = list[Item](), 0
    for found in _INLINE.finditer(text):
        items.append(Item(_ESCAPED.sub(r"\1", text[at : found.start()])))
        at, written = found.end(), found[0]
        if found["kept"]:
            items.append(Item(written, "!", is_hidden=written.startswith("<!--")))
        elif found["tag"]:
            name = found["tag"].lower()
            is_alone = written.endswith("/>") or name in dialect("html").void
            items.append(Item(written, "!" if is_alone else "/" + name if written[1] == "/" else name))
        else:
            start, close = (found["mark"],) * 2 if found["mark"] else (found["open"], found["close"])
            items += [Item(start, start), *_inline(found["inner"] or found["text"] or ""), Item(close, "/" + start)]
    return [*items, Item(_ESCAPED.sub(r"\1", text[at:]))]
