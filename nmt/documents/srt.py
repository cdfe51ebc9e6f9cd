"""Read and write SubRip subtitles with the package srt: times, numbers and italics stay unchanged."""

from __future__ import annotations

from html import unescape

from nmt.documents.blocks import Block
from nmt.documents.html import HtmlText
from nmt.documents.source import decode, encode
from nmt.errors import DataError


class SrtFile:
    """Subtitles; each one is a block. Its lines are joined, and its translation is split into the same number."""

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
        self._texts = [HtmlText(cue.content.replace("\n", " ")) for cue in self._cues]

    @property
    def blocks(self) -> list[Block]:
        """The blocks with words in them."""
        return [block for text in self._texts for block in text.blocks]

    def save(self, translations: list[str]) -> bytes:
        """Return the file with `translations` of its blocks."""
        import srt

        rest = iter(translations)
        for cue, text in zip(self._cues, self._texts, strict=True):
            num_lines = len(cue.content.strip().split("\n"))
            cue.content = _in_lines(unescape(text.join([next(rest) for _ in text.blocks])).strip(), num_lines)
        return encode(srt.compose(self._cues, reindex=False), self._content)


def _in_lines(text: str, num_lines: int) -> str:
    """Split a text at spaces into lines of about equal length."""
    lines = []
    while num_lines > 1 and " " in text:
        middle = len(text) // num_lines
        spaces = [at for at, character in enumerate(text) if character == " " and not _within_tag(text, at)]
        if not spaces:
            break
        at = min(spaces, key=lambda at: abs(at - middle))
        lines.append(text[:at])
        text = text[at + 1 :]
        num_lines -= 1
    return "\n".join([*lines, text])


def _within_tag(text: str, at: int) -> bool:
    return text.rfind("<", 0, at) > text.rfind(">", 0, at)
