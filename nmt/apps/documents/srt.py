"""Read and write SubRip subtitles with the package srt: times, numbers and italics stay unchanged."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from html import unescape
from typing import Any, NamedTuple

from nmt.apps.documents.blocks import decode, encode
from nmt.apps.documents.html import HtmlText
from nmt.base.errors import DataError

_OVERRIDE = re.compile(r"\{\\[^{}\n]*\}")  # {\an8} puts a subtitle at the top
_KEPT_OVERRIDE = re.compile(rf"<!--({_OVERRIDE.pattern})-->")
# A line may end before a space, and between two ideographs or kana; not within a tag, or after an opening bracket.
_BREAK = re.compile(
    r"<[^>]*>?|(?= )|(?<![「『（《〈【“‘])(?=[「『（《〈【“\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff])"
)
_HUGE_NUMBER = re.compile(r"[0-9]{100}")  # srt takes quadratic time for it
_DASH = re.compile(r"(?:<!--[^>]*-->)?[-‐–—]\s*(?=\S)")  # opens what one of several speakers says


class SrtFile:
    """Subtitles; each one is a block. Its lines are joined, and its translation is split into the same number.

    If every line opens with a dash, each is what another speaker says, and a block of its own.
    """

    def __init__(self, content: bytes):
        """Read a file. DataError if it does not contain subtitles."""
        self._content = content
        self._cues = list(_cues(decode(content)))
        contents = [_OVERRIDE.sub(r"<!--\g<0>-->", cue.content) for cue in self._cues]  # comments stay as they are
        self._utterances = [_utterances(content.strip().split("\n")) for content in contents]
        self.blocks = [block for cue in self._utterances for utterance in cue for block in utterance.text.blocks]

    def save(self, translations: list[str]) -> bytes:
        """Return the file with `translations` of its blocks."""
        import srt

        rest = iter(translations)
        for cue, utterances in zip(self._cues, self._utterances, strict=True):
            written = []
            for dash, text, num_lines in utterances:
                translation = unescape(text.join([next(rest) for _ in text.blocks])).strip()
                written.append(_in_lines(_KEPT_OVERRIDE.sub(r"\1", dash + translation), num_lines))
            cue.content = "\n".join(written)
        return encode(srt.compose(self._cues, reindex=False), self._content)


def _cues(text: str) -> Iterator[Any]:
    """Yield the subtitles in a text; a blank one has none. DataError, with its line, if one cannot be read.

    `srt.parse` gets one at a time: behind a faulty one, it would search for the next in quadratic time.
    """
    import srt

    hint = "each has a number, a line of times such as 00:00:01,000 --> 00:00:02,000, its text, a blank line"
    if huge := _HUGE_NUMBER.search(text):
        line = text.count("\n", 0, huge.start()) + 1
        raise DataError("not SubRip subtitles: a number of 100 digits or more", line=line, hint=hint)
    text = text.removeprefix("\ufeff")  # a second byte order mark
    if not text.strip():
        return
    at, line = 0, 1
    while at < len(text):
        if (cue := srt.SRT_REGEX.match(text, at)) is None:
            raise DataError("not SubRip subtitles: no subtitle starts here", line=line, hint=hint)
        try:
            yield from srt.parse(cue[0])
        except OverflowError:
            raise DataError("not SubRip subtitles: a time in this one is too large", line=line, hint=hint) from None
        at, line = cue.end(), line + cue[0].count("\n")


class _Utterance(NamedTuple):
    """One speaker's part of a subtitle: the dash before it, its text, and its number of lines."""

    dash: str
    text: HtmlText
    num_lines: int


def _utterances(lines: list[str]) -> list[_Utterance]:
    """Return one utterance per line if several lines all open with a dash, else one for all lines."""
    dashes = [_DASH.match(line) for line in lines]
    if len(lines) > 1 and all(dashes):
        pairs = zip(dashes, lines, strict=True)
        return [_Utterance(dash[0], HtmlText(line[dash.end() :]), 1) for dash, line in pairs if dash]
    return [_Utterance("", HtmlText(" ".join(lines)), len(lines))]


def _in_lines(text: str, num_lines: int) -> str:
    """Split a text at spaces, or between Chinese or Japanese characters, into lines of about equal length."""
    lines, start = [], 0
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
    return "\n".join([*lines, text[start:]])
