r"""One spelling for characters that look alike: canonical equivalents, invisible marks, spaces, forms of letters.

A text is rewritten before a model reads it, so that "ä" is one character, whether it is written as one or as two.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple
from unicodedata import normalize

from nmt.base.patterns import lazy_pattern
from nmt.data.text.numbers import has_words
from nmt.data.text.spans import SYMBOL, Span

VERSION = 2  # of the rules; increase it when they start to read a text otherwise: token stores are then rebuilt

# Outside of the scripts that are written with joiners and zero-width spaces, and of symbols that they join to an emoji.
_JOINED = (
    "\u0600-\u109f\u1700-\u1cff\u2190-\u2bff\u20e3\ua800-\uabff\ufb50-\ufdff\ufe0f\ufe70-\ufefc"
    "\U00010a00-\U00011fff\U0001e900-\U0001e95f\U0001f000-\U0001faff\U000e0020-\U000e007f"
)
JOINERS = (
    f"(?<![{_JOINED}])[\u034f\u180b-\u180f\u200b-\u200d\ufe00-\ufe0f\U000e0001\U000e0020-\U000e007f]+(?![{_JOINED}])"
)
INVISIBLE = (
    "[\u0000-\u0008\u000e-\u001b\u007f-\u0084\u0086-\u009f\u00ad\u061c\u115f\u1160\u17b4\u17b5\u200e\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0100-\U000e01ef]+"
)
SPACES = "[\u000b\u000c\u001c-\u001f\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f]"
# Several spaces within a sentence; those after it, and at the ends of a line, stay.
SPACE_RUN = rf"(?<=[^\s.!?…。！？”»\"')\]])[ {SPACES[1:-1]}]{{2,}}(?=\S|\Z)"
HYPHENS = "[\u2010\u2011]"
_APOSTROPHES = "\u00b4\u2018\u2019\uff07"
WITHIN_WORDS = rf"(?<=[\w\u0300-\u036f])[{_APOSTROPHES}](?=[^\W\d_])"  # not as quotation marks: l’homme, don´t
LIGATURES = "[\u0132\u0133\u01c4-\u01cc\u01f1-\u01f3\ufb00-\ufb4f\ufb50-\ufc5d\ufc64-\ufd3d\ufd50-\ufdef\ufe80-\ufefc]"
FORMS = (
    "[\u017f\u3000\uff10-\uff19\uff21-\uff3a\uff41-\uff5a\uff66-\uff9f\U0001d400-\U0001d7ff]"  # full width, formulas
)
# The no-break spaces that French punctuation and numbers want.
_TYPOGRAPHIC = "[\u00a0\u2007\u202f](?=[?!:;»%€])|(?<=«)[\u00a0\u2007\u202f]|(?<=[0-9])[\u00a0\u2007\u202f](?=[0-9])"

# All that may be rewritten, in two searches: a class within 16 bits takes a fraction of the time of one beyond.
_CHANGEABLE = lazy_pattern(
    "[\u0000-\u0009\u000b\u000c\u000e-\u001f\u007f-\u00a0\u00ad\u00b4\u0132\u0133\u017f\u01c4-\u01cc\u01f1-\u01f3\u034f\u061c\u0640\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f\u2000-\u2011\u2018\u2019\u2028-\u202f\u205f-\u206f"
    "\u3000\u3164\ufb00-\ufdef\ufe00-\ufe0f\ufe80-\ufeff\uff07\uff10-\uff19\uff21-\uff3a\uff41-\uff5a\uff66-\uffa0\ufff9-\ufffb]"
)
_CHANGEABLE_BEYOND = lazy_pattern(
    "[\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U0001d400-\U0001d7ff\U000e0001-\U000e01ef]"
)
_UNCHANGED = lazy_pattern(
    "[ -~\u00a1-\u00ac\u00ae-\u00b3\u00b5-\u0131\u0134-\u017e\u2013\u2014\u201a-\u201e\u2026]*"
)  # most texts
_MARKS = r"[^\w\s\x00-\xbf\u2010-\u2027\u2030-\u205e\u2070-\u20cf\u2100-\u2cee\u3001-\u3029\uff07]*"
# A character with all that may combine with it, and what is behind a joiner.
_CLUSTER = lazy_pattern(
    rf"(?P<run>{SPACE_RUN})|(?P<apostrophe>{WITHIN_WORDS})|[\u1100-\u11ff\uac00-\ud7ff]+|.{_MARKS}(?:(?<=[\u034f\u200b-\u200d\ufe00-\ufe0f])\S{_MARKS})*[\uff9e\uff9f]?|\n"
)


class Reading(NamedTuple):
    """A text as a model reads it, its protected spans, and the place of each character, and of the end, as written."""

    text: str
    spans: list[Span]
    places: Sequence[int]


@dataclass(frozen=True)
class CharacterRule:
    """A way to rewrite texts: what `pattern` finds, then all in NFC; letters that a model has `learned` stay."""

    pattern: str
    learned: frozenset[str] = frozenset()

    def __call__(self, text: str) -> str:
        """Return `text` rewritten."""
        has_run = "  " in text
        if not has_run and ((text.isascii() and text.isprintable()) or _UNCHANGED.fullmatch(text)):
            return text
        if has_run or _CHANGEABLE.search(text) or _CHANGEABLE_BEYOND.search(text):
            text = re.sub(self.pattern, self._replacement, text)
        composed = normalize("NFC", text)
        knows = self.learned.issuperset
        return text if composed != text and knows(text) and not knows(composed) else composed

    def read(self, text: str, spans: list[Span]) -> Reading:
        """Return the reading of `text`, in which protected `spans` stay as they are, and without letters everything."""
        if self(text) == text or not has_words(text):
            return Reading(text, spans, range(len(text) + 1))
        parts: list[str] = []
        places: list[int] = []
        moved: list[Span] = []
        at = 0
        for span in (*spans, Span(len(text), len(text) + 1)):  # the last one stands for the end
            for cluster in _CLUSTER.finditer(text[at : span.start]):
                read = self(cluster[0])
                if cluster["run"]:
                    read = " "
                elif cluster["apostrophe"] and not self.learned.issuperset(cluster[0]):
                    read = "'"
                parts.append(read)
                places += [at + cluster.start()] * len(parts[-1])
            moved.append(Span(len(places), len(places) + span.end - span.start))
            parts.append(text[span.start : span.end])
            places += range(*span)
            at = span.end
        return Reading("".join(parts), moved[:-1], places)

    def _replacement(self, match: re.Match[str]) -> str:
        found = match[0]
        if found[0] in "\u2010\u2011":
            return "-"
        if found in _APOSTROPHES:
            return found if self.learned.issuperset(found) else "'"
        if match["ligatures"] or match["letters_in_full_width"]:
            return found if self.learned.issuperset(found) else normalize("NFKC", found)
        return " " if found.isspace() else ""


# `nmt data check` names the groups.
_IN_BOTH = (
    f"(?P<soft_hyphens>\u00ad)|(?P<invisible_characters>{JOINERS}|{INVISIBLE})"
    f"|(?P<unusual_hyphens>{HYPHENS})|(?P<ligatures>{LIGATURES})"
)
AS_READ = CharacterRule(
    f"(?P<several_spaces>{SPACE_RUN})|{_IN_BOTH}|(?P<unusual_spaces>{SPACES})|(?P<letters_in_full_width>{FORMS})"
    f"|(?P<stretched_letters>\u0640)|(?P<typographic_apostrophes>{WITHIN_WORDS})"
)
"""The rule for sources."""
AS_WRITTEN = CharacterRule(f"{_IN_BOTH}|(?P<unusual_spaces>(?!{_TYPOGRAPHIC}){SPACES})|(?P<letters_in_full_width>(?!))")
"""The rule for targets, which keep letters and digits in full width, and the spaces of their typography."""

AROUND = rf"(?![⟦⟧])(?:{SYMBOL}|[ \t\r\n*|~§¶·•‣⁃\u20e3\ufe0e\ufe0f\u200d\U000e0020-\U000e007f])"
_AROUND = lazy_pattern(rf"\A(?:{AROUND})*")
# A dash, a number or a letter at the beginning of a line of a list: "- ", "1. ", "2.1) ", "(a) ", "iv. ".
DASHES = "-\u2013\u2014"
LIST_MARKER = (
    rf"(?:[{DASHES}]|[(（]?(?:\d{{1,3}}(?:\.\d{{1,3}})*[.)）]|(?:[ivx]{{2,5}}|[IVX]{{2,5}})[.)）]|[^\W\d_][)）]))\s+"
)
_LIST_MARKER = lazy_pattern(LIST_MARKER)
_BRACKETS = ("()", "[]", "{}", "（）", "［］", "｛｝", "【】", "〔〕")  # quotation marks belong to the words


def edges(text: str) -> tuple[str, str]:
    """Return the symbols and brackets before and after the words of a text, such as ♪ and (); empty if it has none."""
    inner = text[slice(*within_symbols(text))]
    around = inner[:1] + inner[-1:]
    within = inner[1:-1]
    if around in _BRACKETS and not any(mark in within for mark in around):
        inner = within[slice(*within_symbols(within))]
    if not has_words(inner):
        return "", ""
    before, _, after = text.partition(inner)
    return before, after


def list_marker(text: str) -> str:
    """Return the marker of a list, with the space after it, at the beginning of a text; "" if there is none."""
    match = _LIST_MARKER.match(text)
    return match[0] if match and has_words(text[match.end() :]) else ""


def with_marker(marker: str, output: str) -> str:
    """Return an output after the marker of its source, unless it has that, perhaps in another form: "1" of "1."."""
    core = marker.strip().lstrip("(（")
    if core in DASHES:
        is_written = output[:1] in DASHES
    elif core[0].isdigit():
        number = re.escape(core.rstrip(".)）"))
        is_written = re.search(rf"(?<!\d){number}(?!\d)", output) is not None  # the 1 of 10 is another number
    else:
        is_written = core in output
    return output if is_written else marker + output


def within_symbols(text: str) -> Span:
    """Return what is between the symbols, and the white space, at both ends of `text`."""
    before, after = (len(side) - len(_AROUND.sub("", side, count=1)) for side in (text, text[::-1]))
    return Span(before, max(before, len(text) - after))
