"""Read subtitles, SubRip and WebVTT: times, numbers, italics and all else between the texts stay unchanged."""

from __future__ import annotations

import re
from bisect import bisect_left
from html import unescape
from itertools import zip_longest

from nmt.apps.documents.blocks import Block, Form, Item, Template, escape_text
from nmt.apps.documents.plain import join_lines, opening_of
from nmt.base.errors import DataError

_TIMES = r"[ \t]*(?:\d+:)?\d+:\d+[,.]?\d*[ \t]*-->[ \t]*(?:\d+:)?\d+:\d+[^\n]*"
# A blank line does not end a text if what follows is neither a subtitle nor a note. Behind a text without one, only a
# number is that of the next subtitle.
_CUE = re.compile(
    rf"^({_TIMES}\n)((?:(?!\s*\n|(?:\d+[ \t\r]*\n)?{_TIMES})[^\n]+\n?"
    rf"|(?<=\n)[ \t\r]*\n(?=[^\n]*\S)(?!(?:NOTE|STYLE|REGION)\b|{_TIMES}|[^\n]*\n{_TIMES}))+)",
    re.MULTILINE,
)
_LINE_END = re.compile(r"(\r?\n(?:[ \t]*\r?\n)?|<br\s*/?>|\\N)")
_NO_CUE = re.compile(rf"(?:\s|\d+[ \t]*\r?\n)*+(?!{_TIMES})\S")
# Tags of both formats, times of karaoke, and overrides: {\an8} puts a subtitle at the top.
_TAG = re.compile(
    r"<(/?)(i|b|u|s|c|font|ruby|rt|lang)\b[^<>]*>|</?v\b[^<>]*>|<\d[\d:.]*>|\{\\[^{}\n]*\}|\{[A-Za-z]:[^{}\n]*\}",
    re.IGNORECASE,
)
# A line may end before a space, and between two ideographs or kana; not within a tag, or after an opening bracket.
_BREAK = re.compile(
    r"<[^>]*>?|(?= )|(?<![「『（《〈【“‘])(?=[「『（《〈【“\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff])"
)
# Opens what one of several speakers says or sings, or a sound: a dash, a note, a bracket, a name.
_CAPITALS = "A-ZÀ-ÞΑ-ΫЀ-Я"
_TAGS = r"(?:<(?!v\b)[^<>]*>|\{\\[^{}\n]*\})*"
_OPENING = re.compile(
    r"[ \t]*(?:\{\\[^{}\n]*\})*(?:(?:[-‐–—♪♫]|(?:>|&gt;){2,3})\s*|#\s+)(?=\S)"
    rf"|(?={_TAGS}(?:[-‐–—♪♫\[(（]|>>|&gt;&gt;|#\s|<v\b|[{_CAPITALS}][{_CAPITALS}\d .'-]{{1,24}}:))"
)
_SPEAKERS = re.compile(
    rf"\A(?:{_OPENING.pattern})|[.?!…]\"?(?:</i>)?[ \t]*\r?\n{_TAGS}[-‐–—]\s*\w"
)  # the first may have no mark
_TURN = re.compile(rf"(?<=\n)(?={_OPENING.pattern})|(?<=\]\n)|(?<=\]</i>\n)")  # to another speaker, or behind a sound


def read_subtitles(text: str, template: Template) -> None:
    """Read a file. DataError, with its line, if it does not begin with a subtitle.

    Each subtitle is a block; its lines are joined, and its translation is split into the same number. What each of
    several speakers says is a block of its own, and so is a sound in a line of its own.
    """
    is_vtt = text.startswith("WEBVTT")
    if not is_vtt and (wrong := _NO_CUE.match(text.removeprefix("\ufeff"))):
        template.go_to(text, wrong.end())
        raise DataError(
            "not subtitles: no subtitle starts here",
            line=template.line,
            hint="each has a number, a line of times such as 00:00:01,000 --> 00:00:02,000, its text, a blank line",
        )

    def translated(cue: re.Match[str]) -> str:
        written, said = cue.groups()
        template.go_to(text, cue.start(2))
        for part in _TURN.split(said) if _SPEAKERS.search(said) else [said]:
            before = opening_of(part, _OPENING)
            written += before + _hole(part[len(before) :], template, is_vtt)
        return written

    template.text = _CUE.sub(translated, text)


def _hole(text: str, template: Template, is_vtt: bool) -> str:
    """Return the hole of one or more lines, and the end of the last one."""
    raw = text.rstrip("\r\n")
    items: list[Item] = []
    lines = _LINE_END.split(raw)
    at = 0
    texts = lines[::2]
    joined = join_lines(texts)
    for tag in _TAG.finditer(joined):
        name = f"{tag[1]}{tag[2].lower()}" if tag[2] else "!"
        is_hidden = tag[0].lstrip("</")[0] in "{v"  # who speaks need not be closed
        items += [Item(unescape(joined[at : tag.start()])), Item(tag[0], name, is_hidden)]
        at = tag.end()

    def finish(written: str) -> str:
        broken = _in_lines(written, len(texts))
        return "".join(map("".join, zip_longest(broken, lines[1 : 2 * len(broken) - 1 : 2], fillvalue="")))

    form = Form(escape_text if is_vtt or unescape(raw) != raw else str, finish)
    return template.hole(Block([*items, Item(unescape(joined[at:]))], raw, form)) + text[len(raw) :]


def _in_lines(text: str, num_lines: int) -> list[str]:
    """Split a text at spaces, or between Chinese or Japanese characters, into lines of about equal length."""
    lines = []
    start = 0
    breaks = [found.start() for found in _BREAK.finditer(text) if found.start() and not found[0]]
    for rest in range(num_lines, 1, -1):
        ideal = start + (len(text) - start) // rest
        later = bisect_left(breaks, ideal)
        near = [at for at in breaks[max(0, later - 1) : later + 1] if at > start]
        if not near:
            break
        at = min(near, key=lambda at: abs(at - ideal))
        lines.append(text[start:at])
        start = at + (text[at] == " ")
    return [*lines, text[start:]]
