"""Read and write SubRip subtitles with the package srt: times, numbers and italics stay unchanged."""

from __future__ import annotations

import re
from html import unescape
from typing import NamedTuple

from nmt.documents.blocks import Block
from nmt.documents.html import HtmlText
from nmt.documents.source import decode, encode
from nmt.errors import DataError

_OVERRIDE = re.compile(r"\{\\[^{}\n]*\}")  # {\an8} puts a subtitle at the top
_KEPT_OVERRIDE = re.compile(rf"<!--({_OVERRIDE.pattern})-->")
_IDEOGRAPHIC = re.compile(r"[「『（《〈【“\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
_OPENING = "「『（《〈【“‘"
_DASH = re.compile(r"(?:<!--[^>]*-->)?[-‐–—]\s*(?=\S)")  # opens what one of several speakers says


class SrtFile:
    """Subtitles; each one is a block. Its lines are joined, and its translation is split into the same number.

    If every line opens with a dash, each is what another speaker says, and a block of its own.
    """

    def __init__(self, content: bytes):
        """Read a file. DataError if it does not contain subtitles."""
        import srt

        self._content = content
        text = decode(content)
        try:
            self._cues = list(srt.parse(text))
        except srt.SRTParseError as error:
            line = text.count("\n", 0, error.expected_start) + 1
            hint = "each has a number, a line of times such as 00:00:01,000 --> 00:00:02,000, its text, a blank line"
            raise DataError("not SubRip subtitles: no subtitle starts here", line=line, hint=hint) from None
        contents = [_OVERRIDE.sub(r"<!--\g<0>-->", cue.content) for cue in self._cues]  # comments stay as they are
        self._utterances = [_utterances(content.strip().split("\n")) for content in contents]

    @property
    def blocks(self) -> list[Block]:
        """The blocks with words in them."""
        return [block for cue in self._utterances for utterance in cue for block in utterance.text.blocks]

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
    lines = []
    for rest in range(num_lines, 1, -1):
        breaks = [at for at in range(1, len(text)) if _may_break(text, at) and not _within_tag(text, at)]
        if not breaks:
            break
        at = min(breaks, key=lambda at: abs(at - len(text) // rest))
        lines.append(text[:at])
        text = text[at:].removeprefix(" ")
    return "\n".join([*lines, text])


def _may_break(text: str, at: int) -> bool:
    """Return whether a line may end before the character at `at`: at a space, or between two ideographs or kana."""
    return text[at] == " " or (_IDEOGRAPHIC.match(text, at) is not None and text[at - 1] not in _OPENING)


def _within_tag(text: str, at: int) -> bool:
    return text.rfind("<", 0, at) > text.rfind(">", 0, at)
